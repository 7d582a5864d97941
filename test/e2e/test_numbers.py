"""Every small model, fused and unfused, at all its sizes: the host target against onnxruntime."""
import pathlib
import tempfile
import unittest

import numpy as np
import onnx

import small_models
from fusion import testing

LIMIT = 2e-6  # norm of the difference over the norm of the reference, fp32


class NumbersTest(unittest.TestCase):
    def check(self, model, feeds, options):
        with tempfile.TemporaryDirectory() as tmp:
            tmp = pathlib.Path(tmp)
            onnx.save(model, tmp / "m.onnx")
            testing.tools.compile(tmp / "m.onnx", tmp / "m.fusion", *options)
            for f in feeds:
                found, reference = testing.tools.run(tmp / "m.fusion", f), testing.run_onnxruntime(model, f)
                for name, r in reference.items():
                    y = found[testing.file_name(name)]
                    self.assertEqual(y.dtype, r.dtype, name)
                    with self.subTest(output=name, shapes=[v.shape for v in f.values()]):
                        self.assertLessEqual(testing.error(y, r), LIMIT)


def add_tests(name, model, feeds, forms):
    for form, options in forms.items():
        setattr(NumbersTest, f"test_{name}_{form}".replace("-", "m"), lambda self: self.check(model, feeds, options))


FUSED, BOTH = {"fused": []}, {"fused": [], "unfused": ["--disable-fusion=all"]}
for case in (*small_models.single_ops(), *small_models.convolutions()):
    add_tests(*case, FUSED)
for case in (*small_models.low_bit(), *small_models.chains()):
    add_tests(*case, BOTH)
