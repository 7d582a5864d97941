"""The C interface through ctypes: inputs and outputs where they are, errors as exceptions, decoding step by step."""
import pathlib
import tempfile
import unittest

import numpy as np
import onnx

import small_models
from fusion import runtime, testing
from fusion.builders import random_llama


class RuntimeBindingTest(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = pathlib.Path(tmp.name)
        self.library = runtime.Library(runtime.find_library(testing.tools.bin))

    def softmax(self):
        feeds = [{"x": small_models.random(i, n, 40)} for i, n in enumerate((3, 5))]
        onnx.save(small_models.model([small_models.node("Softmax", ["x"], axis=-1)], feeds), self.dir / "m.onnx")
        testing.tools.compile(self.dir / "m.onnx", self.dir / "m.fusion")
        return runtime.Model(self.dir / "m.fusion", library=self.library), feeds

    def expected(self, x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def test_run(self):
        model, feeds = self.softmax()
        self.assertEqual((model.inputs, model.outputs), (["x"], ["y"]))
        self.assertIn("buckets", model.explain())
        session = model.session()
        for feed in feeds:
            session.bind("x", feed["x"])
            session.run()
            np.testing.assert_allclose(session.output("y"), self.expected(feed["x"]), rtol=1e-5)

    def test_outputs_of_the_caller(self):
        model, feeds = self.softmax()
        session, x = model.session(), feeds[0]["x"].copy()
        y = np.full_like(x, np.nan)
        session.bind("x", x)
        session.bind_output("y", y)
        session.run()
        np.testing.assert_allclose(y, self.expected(x), rtol=1e-5)
        x += 1 + np.arange(40, dtype=np.float32)  # the same memory, other contents
        session.run()
        np.testing.assert_allclose(y, self.expected(x), rtol=1e-5)

    def test_faults(self):
        with self.assertRaisesRegex(runtime.RuntimeFault, "no-such-file"):
            runtime.Model(self.dir / "no-such-file.fusion", library=self.library)
        session = self.softmax()[0].session()
        session.bind("x", np.zeros((3, 41), np.float32))
        with self.assertRaisesRegex(runtime.RuntimeFault, "x"):
            session.run()

    def test_steps(self):
        config = random_llama.SIZES["tiny"]
        random_llama.build(self.dir / "m.onnx", config, "float", seed=2)
        testing.tools.compile(self.dir / "m.onnx", self.dir / "m.fusion", "--kv-cache=state", "--max-context=32")
        ids = [3, 1, 4, 1, 5]
        best = random_llama.forward(self.dir / "m.onnx", ids, config).argmax(-1)
        session = runtime.Model(self.dir / "m.fusion", library=self.library).session()
        self.assertEqual(session.step(ids[:3]), best[2])
        self.assertEqual(session.step(ids[3:4]), best[3])
        session.truncate(3)
        self.assertEqual(session.length, 3)
        self.assertEqual(session.step(ids[3:]), best[4])
        session.reset()
        self.assertEqual(session.length, 0)

    def test_lengths_of_sequences(self):
        """Two sequences in one run, the second shorter and padded; both are continued behind their own tokens."""
        config = random_llama.SIZES["tiny"]
        for attention in ("concat", "gqa"):
            with self.subTest(attention):
                random_llama.build(self.dir / "m.onnx", config, "float", attention, seed=2)
                testing.tools.compile(self.dir / "m.onnx", self.dir / "m.fusion", "--kv-cache=state", "--max-context=32", "--dim=batch=2", "--kv-lengths=own")
                first, second = [3, 1, 4, 1], [5, 9]
                a, b = (random_llama.forward(self.dir / "m.onnx", ids, config) for ids in (first, second + [2, 6]))
                session = runtime.Model(self.dir / "m.fusion", library=self.library).session()
                session.bind("input_ids", np.array([first[:3], second + [0]]))
                session.keep([3, 2])
                session.run()
                y = session.output("logits")
                self.assertLess(max(testing.error(y[0], a[:3]), testing.error(y[1, :2], b[:2])), 5e-6)
                self.assertEqual((session.lengths, session.length), ([3, 2], 3))
                session.bind("input_ids", np.array([[first[3], 0], [2, 6]]))
                session.keep([1, 2])
                session.run()
                y = session.output("logits")
                self.assertLess(max(testing.error(y[0, 0], a[3]), testing.error(y[1], b[2:])), 5e-6)
                self.assertEqual(session.lengths, [4, 4])
