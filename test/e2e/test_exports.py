"""What each exporter writes of one tiny Llama (test/e2e/exports, made by `python/make_exports.py --tiny`): raised completely,
fused completely, onnxruntime's numbers with the caches as inputs, and its tokens with the cache inside the session."""
import json
import pathlib
import re
import tempfile
import unittest

import numpy as np
import onnx

from fusion import ort, testing

FOLDER = pathlib.Path(__file__).resolve().parent / "exports"
RAISED = {"rms_norm": 5, "rope": 4, "attention": 2, "kv_append": 4, "silu": 2, "softmax": 0, "sigmoid": 0, "sqrt": 0, "reduce_mean": 0}
FUSED = "add_rms_norm=4,swiglu=2,rope_attention=2"
KINDS = {"dynamo18": FUSED, "dynamo23": FUSED, "ts17": FUSED, "genai-fp32": FUSED, "genai-fp16": FUSED, "genai-int4": FUSED + ",dequant_matmul=11"}
SIZES = [(2, 5, 7), (1, 1, 9)]  # batch, new tokens, past
# This file spreads a mask of new x new over new x total: right without a past or with one new token only.
FP16_SIZES = [(2, 5, 0), (2, 1, 9)]
FP32, FP16 = 3e-6, 3e-3
HEAD_DIM, PROMPT, COUNT = 16, [5, 63, 0, 17], 12


def feeds(model, batch, new, past):
    r = np.random.default_rng([batch, new, past])
    known = {"input_ids": r.integers(0, 64, (batch, new)), "attention_mask": np.ones((batch, past + new), np.int64),
             "position_ids": np.tile(np.arange(past, past + new), (batch, 1))}
    found = {}
    for i in model.graph.input:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
        found[i.name] = known[i.name] if i.name in known else r.standard_normal((batch, 1, past, HEAD_DIM)).astype(dtype)
    return found


def reference_of(path, feeds):
    """One row of the batch after the other: onnxruntime's GroupQueryAttention takes no batch of several new tokens with a past.
    The shapes that the files note for inner values are dropped: those of genai-fp16 call the total length the new one.
    MatMulNBits computes in fp32: accuracy_level, which is a lower bound, would let it round its input to 8 bits."""
    model = onnx.load(path)
    del model.graph.value_info[:]
    for attribute in (a for n in model.graph.node for a in n.attribute):
        if attribute.name == "accuracy_level":
            attribute.i = 1
    rows = [testing.run_onnxruntime(model, {n: a[i:i + 1] for n, a in feeds.items()}) for i in range(len(feeds["input_ids"]))]
    return {n: np.concatenate([r[n] for r in rows]) for n in rows[0]}


class ExportsTest(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.artifact = pathlib.Path(tmp.name) / "m.fusion"

    def check_ops(self, kind):
        ir = testing.tools.must("fusion-compile", FOLDER / f"{kind}.onnx", "--emit=raised", "-o", "-")
        self.assertEqual({op: len(re.findall(rf"= fusion\.{op}\b", ir)) for op in RAISED}, RAISED)

    def check_numbers(self, kind):
        path = FOLDER / f"{kind}.onnx"
        model, limit, every = onnx.load(path), FP32, SIZES
        if kind == "genai-fp16":
            limit, every = FP16, FP16_SIZES
        references = [(sizes, f, reference_of(path, f)) for sizes in every for f in [feeds(model, *sizes)]]
        for options in (["--expect", KINDS[kind]], ["--disable-fusion=all"]):
            testing.tools.compile(path, self.artifact, *options)
            for sizes, f, outputs in references:
                found = testing.tools.run(self.artifact, f)
                for name, reference in outputs.items():
                    with self.subTest(output=name, sizes=sizes, options=options):
                        self.assertLessEqual(testing.error(found[testing.file_name(name)], reference), limit)

    def check_text(self, kind):
        path = FOLDER / f"{kind}.onnx"
        testing.tools.compile(path, self.artifact, "--kv-cache=state", "--max-context=40", "--expect", KINDS[kind])
        reference = ort.Decoder(path, head_dim=HEAD_DIM, noted_shapes=False).generate(PROMPT, COUNT)
        out = testing.tools.must("fusion-run", self.artifact, "--device=host", f"--generate={COUNT}", "--prompt-ids=" + ",".join(map(str, PROMPT)), "--json")
        self.assertEqual(json.loads(out)["tokens"], reference)


for kind in KINDS:
    for name in ("ops", "numbers", "text"):
        setattr(ExportsTest, f"test_{kind}_{name}".replace("-", "_"), lambda self, kind=kind, name=name: getattr(self, f"check_{name}")(kind))
