"""--compute-type: fp32 models computed in bf16 and fp16."""
import json
import pathlib
import tempfile
import unittest

import ml_dtypes
import numpy as np
import onnx

import small_models
import tiny_llama
from fusion import testing
from fusion.builders import llama, random_llama
from fusion.onnx_writer import OnnxWriter
from fusion.testing import tools

TYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "fp16": np.dtype(np.float16)}


class ComputeTypeTest(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = pathlib.Path(tmp.name)

    def test_weights_are_rounded_once_and_stay_finite(self):
        rows, width = 1200, 1024  # more than the piece in which weights are read
        table = (np.random.default_rng(0).standard_normal((rows, width)) * np.exp(np.linspace(-30, 30, width))).astype(np.float32)
        table[5, :4] = [np.finfo(np.float32).min, np.finfo(np.float32).max, np.inf, -np.inf]
        with OnnxWriter(self.dir / "m.onnx") as w:
            w.input("i", onnx.TensorProto.INT64, [rows])
            w.output("y", onnx.TensorProto.FLOAT, [rows, width])
            w.node("Gather", [w.weight("t", table), "i"], "/Gather", axis=0, output="y")
            w.save("m", {"": 21})
        ids = np.random.default_rng(1).permutation(rows)
        for name, dtype in TYPES.items():
            with self.subTest(name):
                tools.compile(self.dir / "m.onnx", self.dir / "m.fusion", f"--compute-type={name}")
                self.assertLess((self.dir / "m.fusion").stat().st_size, table.nbytes * 0.6)
                y = tools.run(self.dir / "m.fusion", {"i": ids})["y"]
                self.assertEqual(y.dtype, np.float32)
                most = np.float32(ml_dtypes.finfo(dtype).max)
                expected = np.where(np.isfinite(table), np.clip(table, -most, most), table).astype(dtype).astype(np.float32)
                np.testing.assert_array_equal(y, expected[ids])

    def run_llama(self, form, feeds, *options):
        tools.compile(self.dir / f"{form}.onnx", self.dir / "m.fusion", *options)
        return tools.run(self.dir / "m.fusion", feeds)

    def test_fused_is_as_close_to_fp64_as_each_node_in_that_type(self):
        shape = tiny_llama.Shape()
        tiny_llama.write(self.dir / "t.gguf")
        ids = np.random.default_rng(2).integers(0, shape.vocab, (1, 29))
        reference = tiny_llama.forward(self.dir / "t.gguf", ids[0])
        feeds = {"input_ids": ids, "attention_mask": np.ones((1, 29), np.int64), "position_ids": np.arange(29)[None]}
        for layer in range(shape.layers):
            for part in ("key", "value"):
                feeds[f"past_key_values.{layer}.{part}"] = np.zeros((1, shape.kv_heads, 0, shape.head_dim), np.float32)
        for form in llama.FORMS:
            llama.build(self.dir / "t.gguf", self.dir / f"{form}.onnx", form)
            for name in TYPES:
                with self.subTest(form=form, type=name):
                    fused, unfused = (testing.error(self.run_llama(form, feeds, f"--compute-type={name}", *o)["logits"][0], reference)
                                      for o in ((), ("--disable-fusion=all",)))
                    self.assertLessEqual(fused, 1.05 * unfused)
                    self.assertLess(unfused, {"bf16": 5e-2, "fp16": 6e-3}[name])
                    self.assertGreater(fused, {"bf16": 2e-4, "fp16": 2e-5}[name], "was it computed in 16 bits at all?")

    def test_session_caches_are_in_16_bits(self):
        config, prompt, steps, noise = random_llama.SIZES["tiny"], 7, 60, {"bf16": 0.15, "fp16": 0.03}
        random_llama.build(self.dir / "m.onnx", config, "float", seed=5)
        ids = np.random.default_rng(6).integers(0, config.vocab, prompt + steps)
        logits = random_llama.forward(self.dir / "m.onnx", ids, config)[prompt - 1:-1]
        best = np.sort(logits)[:, -2:]
        for name in TYPES:
            with self.subTest(name):
                tools.compile(self.dir / "m.onnx", self.dir / "m.fusion", f"--compute-type={name}", "--kv-cache=state", "--max-context=80")
                states = [line for line in tools.must("fusion-run", self.dir / "m.fusion", "--info").splitlines() if line.strip().startswith("state ")]
                self.assertEqual(len(states), 2 * config.layers)
                for line in states:
                    self.assertIn({"bf16": " bf16 ", "fp16": " f16 "}[name], line)
                out = tools.must("fusion-run", self.dir / "m.fusion", f"--generate={steps}", "--prompt-ids=" + ",".join(map(str, ids[:prompt])),
                                 "--force-ids=" + ",".join(map(str, ids[prompt:])), "--json")
                decided = best[:, 1] - best[:, 0] > noise[name]
                self.assertGreater(decided.sum(), steps // 3)
                np.testing.assert_array_equal(np.array(json.loads(out)["tokens"])[decided], logits.argmax(-1)[decided])

    def test_fully_masked_rows_stay_finite(self):
        x = np.random.default_rng(3).standard_normal((2, 4, 8)).astype(np.float32)
        m = np.array([[[1, 0, 1, 1, 0, 0, 1, 1]] * 4, [[0] * 8] * 4], bool)
        weights = {"zero": np.array(0, np.float32), "low": np.array(np.finfo(np.float32).min)}
        nodes = [small_models.node("Where", ["m", "zero", "low"], ["b"]), small_models.node("Add", ["x", "b"], ["s"]),
                 small_models.node("Softmax", ["s"], axis=-1)]
        model = small_models.model(nodes, [{"x": x, "m": m}], weights)
        for name, dtype in TYPES.items():
            for options in ((), ("--disable-fusion=all",)):
                with self.subTest(type=name, options=options):
                    y = testing.run_model(model, {"x": x, "m": m}, f"--compute-type={name}", *options)["y"]
                    self.assertTrue(np.isfinite(y).all())
                    seen = np.exp(x[0].astype(np.float64)) * m[0]
                    np.testing.assert_allclose(y[0], seen / seen.sum(-1, keepdims=True), atol=2e-2)

    def test_verify_compares_in_the_same_type(self):
        model = small_models.model([small_models.node("Softmax", ["x"], ["e"], axis=-1), small_models.node("Mul", ["e", "x"])],
                                   [{"x": np.zeros((3, 40), np.float32)}])
        onnx.save(model, self.dir / "m.onnx")
        tools.compile(self.dir / "m.onnx", self.dir / "m.fusion", "--compute-type=bf16", "--verify")
        np.save(self.dir / "x.npy", np.random.default_rng(4).standard_normal((3, 40)).astype(np.float32))
        tools.must("fusion-run", self.dir / "m.fusion", "--device=host", "--verify", "--input", f"x={self.dir / 'x.npy'}")
