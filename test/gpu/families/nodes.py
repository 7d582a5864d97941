"""ONNX's own node tests of operators that are more than elementwise, against their stored outputs: every attribute, shape and
element type at small sizes, whichever kernel takes it. test/e2e/onnx_cases.py has all of them on the host."""
import pathlib
import re

import numpy as np
import onnx
from onnx import numpy_helper

from frame import FP32_STEPS, Built, Case, Expected

DATA = pathlib.Path(onnx.__file__).parent / "backend/test/data/node"
EXCEPTIONS = pathlib.Path(__file__).resolve().parents[2] / "e2e/onnx-exceptions.txt"
CHOSEN = re.compile(r"test_(attention|layer_normalization|rms_normalization|softmax|logsoftmax|rotary|arg(max|min)|gemm|matmul_|gather|scatter_elements|scatternd|tensorscatter|"
                    r"dequantizelinear|quantizelinear|concat|mod_|pow_types|group_normalization|mvn)")


def tensor(path):
    t = onnx.TensorProto()
    t.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(t)


def build(name):
    folder = DATA / name
    model = onnx.load(folder / "model.onnx")
    weights = {w.name for w in model.graph.initializer}
    inputs = [i.name for i in model.graph.input if i.name not in weights]
    data = sorted(folder.glob("test_data_set_*"))[0]
    feeds = {v: tensor(data / f"input_{i}.pb") for i, v in enumerate(inputs)}
    expected = {}
    for i, v in enumerate(model.graph.output):
        r = tensor(data / f"output_{i}.pb")
        if r.dtype.kind in "biu":
            expected[v.name] = Expected(r)
            continue
        # The tests' own tolerance.
        half = r.dtype.itemsize <= 2
        magnitude = np.abs(r.astype(np.float64))
        allowed = (1e-2 * magnitude + 1e-3) if half else (1e-4 * magnitude + 1e-6)
        expected[v.name] = Expected(r.astype(np.float64), scale=allowed / FP32_STEPS, dtype=r.dtype)
    return Built(model, feeds, expected)


def cases(sample):
    if not DATA.is_dir():
        return
    refused = set(EXCEPTIONS.read_text().split()) if EXCEPTIONS.is_file() else set()
    names = [f.name for f in sorted(DATA.iterdir()) if CHOSEN.match(f.name) and not f.name.endswith("_expanded") and f.name not in refused]
    for i, name in enumerate(names):
        if not sample or i % 15 == 0:
            yield Case(name, lambda name=name: build(name))
