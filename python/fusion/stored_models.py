"""Exported models beside arrays: NAME.onnx and, for each size, NAME.npz, NAME.1.npz .. (keys in:<input>, out:<output>)."""
import numpy as np
import onnx

from . import testing

# Norm of the difference over the norm; the second for graphs that compute in 16 bits.
LIMIT_FP32, LIMIT_HALF = 2e-5, 3e-2
FORMS = {"fused": (), "unfused": ("--disable-fusion=all",)}


def sizes(path):
    """The .npz files of a model, one a size."""
    first = path.with_suffix(".npz")
    return [first] * first.exists() + sorted(path.parent.glob(f"{path.stem}.[0-9].npz"))


def read_feeds(npz, model):
    """The inputs stored for one size, in the types that the model declares."""
    types = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in model.graph.input}
    with np.load(npz) as z:
        return {k[3:]: z[k].astype(types[k[3:]]) for k in z.files if k.startswith("in:")}


def read_outputs(npz):
    """What is stored as right for one size, by output."""
    with np.load(npz) as z:
        return {k[4:]: z[k] for k in z.files if k.startswith("out:")}


def errors(found, expected):
    """The error of each expected output; `found` is by the name of its file."""
    return {name: testing.error(found[testing.file_name(name)], reference) for name, reference in expected.items()}
