"""Artifacts: byte-equal when compiled twice, readable after unusual file layouts, atomic."""
import os
import pathlib
import tempfile
import unittest

import numpy as np
import onnx

import tiny_llama
from fusion.builders import llama
from fusion.testing import tools


class ArtifactTest(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = pathlib.Path(tmp.name)
        tiny_llama.write(self.dir / "t.gguf")

    def compiled(self, form, name, *options):
        tools.compile(self.dir / f"{form}.onnx", self.dir / name, *options)
        return (self.dir / name).read_bytes()

    def test_byte_equal_when_compiled_twice(self):
        for form in llama.FORMS:
            llama.build(self.dir / "t.gguf", self.dir / f"{form}.onnx", form)
            for options in ((), ("--kv-cache=state", "--max-context=64")):
                with self.subTest(form=form, options=options):
                    self.assertEqual(self.compiled(form, "a.fusion", *options), self.compiled(form, "b.fusion", *options))

    def test_the_folder_of_the_model_does_not_matter(self):
        llama.build(self.dir / "t.gguf", self.dir / "lowbit.onnx", "lowbit")
        first = self.compiled("lowbit", "a.fusion")
        (self.dir / "elsewhere").mkdir()
        for suffix in ("", ".data"):
            os.rename(self.dir / f"lowbit.onnx{suffix}", self.dir / f"elsewhere/lowbit.onnx{suffix}")
        tools.compile(self.dir / "elsewhere/lowbit.onnx", self.dir / "b.fusion")
        self.assertEqual(first, (self.dir / "b.fusion").read_bytes())

    def test_the_artifact_stands_alone(self):
        """Weights are inside: the model may be gone."""
        llama.build(self.dir / "t.gguf", self.dir / "float.onnx", "float")
        self.compiled("float", "a.fusion", "--kv-cache=state", "--max-context=64")
        for f in self.dir.glob("float.onnx*"):
            f.unlink()
        out = tools.must("fusion-run", self.dir / "a.fusion", "--device=host", "--generate=4", "--prompt-ids=1,2,3", "--json")
        self.assertIn("tokens", out)

    def test_an_existing_artifact_survives_a_failed_compilation(self):
        (self.dir / "bad.onnx").write_bytes(b"nothing")
        (self.dir / "a.fusion").write_bytes(b"precious")
        code, _, _ = tools.call("fusion-compile", self.dir / "bad.onnx", "-o", self.dir / "a.fusion", "--target=host")
        self.assertEqual(code, 1)
        self.assertEqual((self.dir / "a.fusion").read_bytes(), b"precious")
