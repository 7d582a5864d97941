"""The GGUF-to-ONNX builder, on tiny files of its own making: onnxruntime on its ONNX files against a numpy fp64 forward pass
on the GGUF file; then the compiled ONNX files against the same pass."""
import pathlib
import tempfile
import unittest

import gguf
import numpy as np
import onnx
from gguf import GGMLQuantizationType as Q

import tiny_llama
from fusion import gguf_file, testing
from fusion.builders import llama

IDS = [5, 63, 0, 17, 17, 2, 40]


def feeds(shape, ids, past=None):
    """Inputs of the built graph; past is a list of (key, value) a layer."""
    n0 = 0 if past is None else past[0][0].shape[2]
    f = {"input_ids": np.array([ids], np.int64), "attention_mask": np.ones((1, n0 + len(ids)), np.int64),
         "position_ids": np.arange(n0, n0 + len(ids), dtype=np.int64)[None]}
    empty = np.zeros((1, shape.kv_heads, 0, shape.head_dim), np.float32)
    for i in range(shape.layers):
        f[f"past_key_values.{i}.key"], f[f"past_key_values.{i}.value"] = past[i] if past else (empty, empty)
    return f


def past_of(shape, outputs):
    return [(outputs[f"present.{i}.key"], outputs[f"present.{i}.value"]) for i in range(shape.layers)]


class BuilderTest(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = pathlib.Path(tmp.name)

    def built(self, form, **options):
        shape = options.get("shape", tiny_llama.Shape())
        tiny_llama.write(self.dir / "t.gguf", **options)
        llama.build(self.dir / "t.gguf", self.dir / f"{form}.onnx", form)
        return self.dir / f"{form}.onnx", shape, tiny_llama.forward(self.dir / "t.gguf", IDS, shape)

    def check(self, form, run=testing.run_onnxruntime, limit=5e-6, **options):
        """All at once, and in two pieces through the cache."""
        model, shape, reference = self.built(form, **options)
        whole = run(model, feeds(shape, IDS))
        self.assertLess(testing.error(whole["logits"][0], reference), limit)
        first = run(model, feeds(shape, IDS[:3]))
        second = run(model, feeds(shape, IDS[3:], past_of(shape, first)))
        self.assertLess(testing.error(second["logits"][0], reference[3:]), limit)

    def test_float(self):
        self.check("float")

    def test_lowbit(self):
        self.check("lowbit")

    def test_lowbit_untied_head(self):
        self.check("lowbit", tied=False)

    def test_lowbit_q4_0(self):
        self.check("lowbit", linear=Q.Q4_0)

    def test_lowbit_q8_0(self):
        self.check("lowbit", linear=Q.Q8_0)

    def test_lowbit_falls_back_to_float(self):
        self.check("lowbit", linear=Q.F16, embedding=Q.F32)

    def test_no_grouped_heads(self):
        self.check("float", shape=tiny_llama.Shape(heads=3, kv_heads=3, head_dim=32))

    def test_compiled_float(self):
        self.check("float", run=testing.run_model)

    def test_compiled_lowbit(self):
        self.check("lowbit", run=testing.run_model)

    def test_compiled_lowbit_unfused(self):
        self.check("lowbit", run=lambda m, f: testing.run_model(m, f, "--disable-fusion=all"))

    def test_every_quantised_weight_stays_quantised(self):
        model, shape, _ = self.built("lowbit")
        ops = [n.op_type for n in onnx.load(model, load_external_data=False).graph.node]
        self.assertEqual(ops.count("MatMulNBits"), 7 * shape.layers)
        self.assertEqual(ops.count("DequantizeLinear"), 1)

    def test_blocks_hold_the_files_values(self):
        rnd = np.random.default_rng(3)
        x = rnd.standard_normal((4, 64)).astype(np.float32)
        x[1, :32] = 0.75  # a block of equal values: d = 0
        for kind in (Q.Q4_0, Q.Q4_1, Q.Q8_0):
            raw = gguf.quants.quantize(x, kind)
            size, decode = gguf_file._BLOCK_DECODERS[kind]
            b = decode(raw.reshape(4, -1, size))
            zero = 0 if b.zero is None else b.zero[..., None]
            w = (b.scale[..., None] * (b.q - zero)).reshape(4, 64)
            np.testing.assert_allclose(w, gguf.quants.dequantize(raw, kind), rtol=0, atol=2e-6, err_msg=str(kind))

    def test_refuses_another_architecture(self):
        w = gguf.GGUFWriter(self.dir / "x.gguf", "mamba")
        w.add_block_count(1)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
        with self.assertRaisesRegex(gguf_file.ModelError, r"x\.gguf: expected architecture llama, found mamba"):
            gguf_file.LlamaFile(self.dir / "x.gguf")

    def test_refuses_a_truncated_file_and_leaves_nothing(self):
        tiny_llama.write(self.dir / "t.gguf")
        (self.dir / "cut.gguf").write_bytes((self.dir / "t.gguf").read_bytes()[:3000])
        with self.assertRaisesRegex(gguf_file.ModelError, r"cut\.gguf"):
            llama.build(self.dir / "cut.gguf", self.dir / "cut.onnx", "float")
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["cut.gguf", "t.gguf"])
