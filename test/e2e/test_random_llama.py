"""The builder of random Llama-shaped decoders: equal bytes for equal seeds, activations of a sensible size, every site fused,
numbers against a forward pass in numpy fp64."""
import dataclasses
import pathlib
import tempfile
import unittest

import numpy as np

from fusion import testing
from fusion.builders import random_llama
from fusion.testing import tools

CONFIG = dataclasses.replace(random_llama.SIZES["tiny"], layers=3)
# Error of the logits: fp32 arithmetic, or the rounding of activations.
LIMIT = {"bf16": 2e-2, "fp16": 3e-3, "float": 5e-6, "int4": 2e-2}


class RandomLlamaTest(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = pathlib.Path(tmp.name)

    def check(self, form, attention):
        path, c, n = self.dir / f"{form}-{attention}.onnx", CONFIG, 21
        random_llama.build(path, c, form, attention, seed=7)
        ids = np.random.default_rng(8).integers(0, c.vocab, n)
        reference = random_llama.forward(path, ids, c)
        self.assertTrue(0.3 < reference.std() < 3)
        feeds = {"input_ids": ids[None], "attention_mask": np.ones((1, n), np.int64)}
        if attention == "concat":
            feeds["position_ids"] = np.arange(n)[None]
        for layer in range(c.layers):
            for part in ("key", "value"):
                feeds[f"past_key_values.{layer}.{part}"] = np.zeros((1, c.kv_heads, 0, c.head_dim), random_llama.TYPES[form])
        expect = f"add_rms_norm={2 * c.layers},swiglu={c.layers},rope_attention={c.layers}"
        if form == "int4":
            expect += f",dequant_matmul={7 * c.layers}"
        tools.compile(path, self.dir / "m.fusion", "--expect", expect)
        y = tools.run(self.dir / "m.fusion", feeds)["logits"][0]
        self.assertLess(testing.error(y, reference), LIMIT[form])

    def test_seeds(self):
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            random_llama.build(self.dir / f"{name}.onnx", CONFIG, "int4", seed=seed)
        a, b, c = ((self.dir / f"{name}.onnx.data").read_bytes() for name in "abc")
        self.assertEqual(a, b)
        self.assertEqual(len(a), len(c))
        self.assertNotEqual(a, c)


for form in random_llama.FORMS:
    for attention in ("concat", "gqa"):
        setattr(RandomLlamaTest, f"test_{form}_{attention}", lambda self, a=(form, attention): self.check(*a))
