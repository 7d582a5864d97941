"""Exported models against the outputs stored with them: NAME.onnx, NAME.npz and, for a second size, NAME.1.npz."""
import pathlib
import tempfile

import numpy as np
import onnx

LIMIT_FP32, LIMIT_HALF = 2e-5, 3e-2


def errors(artifact, model, npz, tools):
    """Error of every stored output, norm over norm."""
    types = {i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in model.graph.input}
    z = np.load(npz)
    feeds = {k[3:]: z[k].astype(types[k[3:]]) for k in z.files if k.startswith("in:")}
    found = tools.run_model(artifact, feeds, pathlib.Path(tempfile.mkdtemp(dir=tools.OPTIONS.tmp)) / "run")
    result = []
    for k in (k for k in z.files if k.startswith("out:")):
        y, reference = found[tools.file_name(k[4:])].astype(np.float64), z[k].astype(np.float64)
        if y.shape != reference.shape:
            raise RuntimeError(f"{k}: shape {y.shape}, stored {reference.shape}")
        if not np.isfinite(y).all():
            raise RuntimeError(f"{k}: not finite")
        result.append(np.linalg.norm(y - reference) / max(np.linalg.norm(reference), 1e-30))
    return result


def check(path, tools):
    """(name, what is wrong or "", worst error in units of the limit)."""
    tmp = pathlib.Path(tempfile.mkdtemp(dir=tools.OPTIONS.tmp))
    try:
        model = onnx.load(path)
        half = any(i.data_type in (onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT16) for i in model.graph.initializer)
        cases = [c for c in (path.with_suffix(".npz"), path.with_suffix(".1.npz")) if c.exists()]
        found = {}
        for form, options in (("fused", ()), ("unfused", ("--disable-fusion=all",))):
            tools.compile_model(path, tmp / f"{form}.fusion", *options)
            if not tools.OPTIONS.assemble:
                found[form] = np.concatenate([errors(tmp / f"{form}.fusion", model, c, tools) for c in cases])
        if not found:
            return path.stem, "", 0.0
        limit = LIMIT_HALF if half else LIMIT_FP32
        problems = [f"{form}: error {e.max():.2e} above {limit}" for form, e in found.items() if e.max() > limit]
        if half and found["fused"].mean() > 1.05 * found["unfused"].mean():
            problems.append(f"fused is further from the reference ({found['fused'].mean():.2e}) than unfused ({found['unfused'].mean():.2e})")
        return path.stem, "; ".join(problems), max(e.max() for e in found.values()) / limit
    except Exception as e:  # noqa: BLE001
        return path.stem, f"{type(e).__name__}: {e}"[:1200], 0.0
