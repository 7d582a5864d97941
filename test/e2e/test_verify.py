"""fusion-run --verify: the fused form against the unfused one that --verify of the compiler keeps."""
import itertools
import pathlib
import re
import tempfile
import unittest

import numpy as np
import onnx

import small_models
import tiny_llama
from fusion.builders import llama
from fusion.testing import tools


class VerifyTest(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = pathlib.Path(tmp.name)

    def save(self, model, feed):
        onnx.save(model, self.dir / "m.onnx")
        args = []
        for i, (name, array) in enumerate(feed.items()):
            np.save(self.dir / f"in{i}.npy", array)
            args += ["--input", f"{name}={self.dir / f'in{i}.npy'}"]
        return args

    def test_small_models_agree(self):
        for name, model, feeds in itertools.islice(small_models.chains(), 6):
            self.save(model, feeds[0])
            tools.compile(self.dir / "m.onnx", self.dir / "m.fusion", "--verify")
            for feed in feeds:
                with self.subTest(name, shapes=[v.shape for v in feed.values()]):
                    inputs = self.save(model, feed)
                    out = tools.must("fusion-run", self.dir / "m.fusion", "--verify", *inputs)
                    count, differ = re.search(r"verified (\d+) values .*?: (\d+) differ", out).groups()
                    self.assertGreaterEqual(int(count), len(model.graph.output))
                    self.assertEqual("0", differ)

    def test_the_unfused_form_must_be_there(self):
        _, model, feeds = next(iter(small_models.chains()))
        inputs = self.save(model, feeds[0])
        tools.compile(self.dir / "m.onnx", self.dir / "m.fusion")
        code, _, err = tools.call("fusion-run", self.dir / "m.fusion", "--verify", *inputs)
        self.assertNotEqual(0, code)
        self.assertIn("holds no unfused form", err)

    def test_the_cache_of_the_session(self):
        """Both forms append to a cache of their own session; the unfused one reads it through products and softmax."""
        tiny_llama.write(self.dir / "t.gguf")
        ids = np.array([[5, 63, 0, 17]])
        np.save(self.dir / "ids.npy", ids)
        for form in llama.FORMS:
            llama.build(self.dir / "t.gguf", self.dir / "m.onnx", form)
            tools.compile(self.dir / "m.onnx", self.dir / "m.fusion", "--verify", "--kv-cache=state", "--max-context=40")
            out = tools.must("fusion-run", self.dir / "m.fusion", "--verify", "--input", f"input_ids={self.dir / 'ids.npy'}")
            self.assertRegex(out, r"verified \d+ values .*: 0 differ")
