"""Exported models against the outputs stored with them: NAME.onnx, NAME.npz and, for a second size, NAME.1.npz."""
import pathlib
import tempfile

import numpy as np
import onnx

from fusion import stored_models
from fusion.stored_models import FORMS, LIMIT_FP32, LIMIT_HALF


def errors(artifact, model, npz, tools):
    """Error of every stored output, norm over norm."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=tools.OPTIONS.tmp)) / "run"
    found = tools.run_model(artifact, stored_models.read_feeds(npz, model), folder)
    return list(stored_models.errors(found, stored_models.read_outputs(npz)).values())


def check(path, tools):
    """(name, what is wrong or "", worst error in units of the limit)."""
    tmp = pathlib.Path(tempfile.mkdtemp(dir=tools.OPTIONS.tmp))
    try:
        model = onnx.load(path)
        half = any(i.data_type in (onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT16) for i in model.graph.initializer)
        cases = stored_models.sizes(path)
        found = {}
        for form, options in FORMS.items():
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
