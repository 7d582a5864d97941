"""Activations rounded to 8 bits at run time: exact, whatever is fused around.

Where two implementations differ in the last bit before the rounding, one step of 8 bits may part them behind it. So the rounding
is held against the values that it was given, bit for bit.
"""
import math
import unittest

import numpy as np
import onnx
from onnx import parser

from fusion import testing

MODEL = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[b,48] x) => (float[b,48] h, uint8[b,48] hq, float hs, uint8 hz, float[b,64] e, uint8[b,64] eq, float es, uint8 ez, float[b,64] y)
<float[48] w, float[48] c, uint8[48,64] m, uint8[64] mz, float[64] ms, float[64] bias, uint8[64,64] n>
{
  h = LayerNormalization(x, w, c)
  hq, hs, hz = DynamicQuantizeLinear(h)
  p = MatMulInteger(hq, m, hz, mz)
  pf = Cast<to = 1>(p)
  scale = Mul(hs, ms)
  scaled = Mul(pf, scale)
  biased = Add(scaled, bias)
  e = Gelu(biased)
  eq, es, ez = DynamicQuantizeLinear(e)
  r = MatMulInteger(eq, n, ez)
  rf = Cast<to = 1>(r)
  y = Mul(rf, es)
}
"""


def quantize(x):
    """ONNX's text in fp32: (scale, zero point, values)."""
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    scale = (high - low) / np.float32(255)
    zero = np.clip(np.rint(-low / scale), 0, 255)
    return scale, np.uint8(zero), np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)


class DynamicQuantizeTest(unittest.TestCase):
    def test_exact(self):
        r = np.random.default_rng(5)
        model = parser.parse_model(MODEL)
        values = {"w": 1 + 0.1 * r.standard_normal(48), "c": 0.1 * r.standard_normal(48), "m": r.integers(0, 256, (48, 64)),
                  "mz": r.integers(120, 136, 64), "ms": r.uniform(1e-3, 2e-3, 64), "bias": 0.1 * r.standard_normal(64),
                  "n": r.integers(0, 256, (64, 64))}
        for i in model.graph.value_info:
            values[i.name] = np.asarray(values[i.name]).astype(onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type))
            model.graph.initializer.append(onnx.numpy_helper.from_array(values[i.name], i.name))
        del model.graph.value_info[:]
        for options in ([], ["--disable-fusion=all"]):
            for rows in (1, 7, 33):
                with self.subTest(options=options, rows=rows):
                    found = testing.run_model(model, {"x": r.standard_normal((rows, 48)).astype(np.float32)}, *options)
                    for name in "he":
                        scale, zero, q = quantize(found[name])
                        self.assertEqual(found[name + "s"], scale)
                        self.assertEqual(found[name + "z"], zero)
                        np.testing.assert_array_equal(found[name + "q"], q)
                    product = (found["hq"].astype(np.int64) - found["hz"]) @ (values["m"].astype(np.int64) - values["mz"])
                    biased = product * (found["hs"].astype(np.float64) * values["ms"]) + values["bias"]
                    error = np.vectorize(math.erf)(biased / np.sqrt(2))
                    self.assertLess(testing.error(found["e"], biased * 0.5 * (1 + error)), 2e-7)
                    product = (found["eq"].astype(np.int64) - found["ez"]) @ values["n"].astype(np.int64)
                    self.assertLess(testing.error(found["y"], product * found["es"].astype(np.float64)), 1e-7)

