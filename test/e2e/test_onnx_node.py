#!/usr/bin/env python3
"""ONNX's own node tests (they come with the onnx package) that onnx-node-tests.txt names: the host target against the stored
outputs.

    test_onnx_node.py --bin build/dev/bin

run as a program tries every node test of the package and prints those that pass, are refused, or fail; the first kind belongs
into the list.
"""
import concurrent.futures
import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "python"))

from fusion import testing  # noqa: E402

DATA = pathlib.Path(onnx.__file__).parent / "backend/test/data/node"
LIST = HERE / "onnx-node-tests.txt"


def tensor(path, value):
    t = onnx.TensorProto()
    if value.type.WhichOneof("value") != "tensor_type":
        raise NotImplementedError("not a tensor")
    t.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(t)


def run_case(name):
    """Returns (verdict, text); verdict is ok, refused (compiler's exit code 1) or wrong."""
    folder = DATA / name
    try:
        model = onnx.load(folder / "model.onnx")
        values = [i for i in model.graph.input if i.name not in {w.name for w in model.graph.initializer}]
        with tempfile.TemporaryDirectory() as tmp:
            artifact = pathlib.Path(tmp) / "m.fusion"
            code, _, err = testing.tools.call("fusion-compile", folder / "model.onnx", "-o", artifact, "--target=host")
            if code:
                return ("refused" if code == 1 else "wrong"), f"exit {code}: {err[-400:]}"
            for data in sorted(folder.glob("test_data_set_*")):
                feeds = {v.name: tensor(data / f"input_{i}.pb", v) for i, v in enumerate(values)}
                found = testing.tools.run(artifact, feeds)
                for i, v in enumerate(model.graph.output):
                    r, y = tensor(data / f"output_{i}.pb", v), found[testing.file_name(v.name)]
                    if y.dtype.kind == "V" and y.dtype.itemsize == r.dtype.itemsize:
                        y = y.view(r.dtype)  # .npy has no name for float8
                    if y.shape != r.shape or y.dtype != r.dtype:
                        return "wrong", f"{v.name}: {y.dtype}{y.shape}, expected {r.dtype}{r.shape}"
                    half = r.dtype.itemsize <= 2 and r.dtype.kind not in "biu"
                    np.testing.assert_allclose(y.astype(np.float64), r.astype(np.float64), rtol=1e-2 if half else 1e-4, atol=1e-3 if half else 1e-6)
        return "ok", ""
    except NotImplementedError as e:
        return "refused", str(e)
    except Exception as e:  # any failure is the case's result
        return "wrong", f"{type(e).__name__}: {str(e)[-600:]}"


def run_all(names):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(names, pool.map(run_case, names)))


def listed():
    lines = (line.split("#")[0].strip() for line in LIST.read_text().splitlines())
    return [line for line in lines if line]


class OnnxNodeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not DATA.is_dir():
            raise unittest.SkipTest(f"onnx {onnx.__version__} comes without its node tests")
        cls.results = run_all(listed())

    def check(self, name):
        verdict, text = self.results[name]
        self.assertEqual(verdict, "ok", text)


for case in listed():
    setattr(OnnxNodeTest, case, lambda self, case=case: self.check(case))


def survey():
    import argparse
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", type=pathlib.Path, required=True)
    p.add_argument("prefix", nargs="*", default=["test_"])
    a = p.parse_args()
    testing.tools.bin = a.bin.resolve()
    results = run_all([d.name for d in sorted(DATA.iterdir()) if d.name.startswith(tuple(a.prefix))])
    for verdict in ("refused", "wrong", "ok"):
        for name, (v, text) in results.items():
            if v == verdict:
                print(f"{verdict:8}{name}  {' '.join(text.split())[-300:]}".rstrip())


if __name__ == "__main__":
    survey()
