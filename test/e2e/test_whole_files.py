"""Files are written whole or not at all: on a full disk, and when the compiler is ended by a signal."""
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import time
import unittest

import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh

from fusion.testing import tools


def model(width):
    """A softmax and a product of matrices: kernels whose texts differ in length."""
    nodes = [h.make_node("Softmax", ["x"], ["s"]), h.make_node("MatMul", ["x", "w"], ["p"]), h.make_node("Identity", ["p"], ["q"])]
    outputs = [h.make_tensor_value_info(name, 1, None) for name in "spq"]
    weights = [nh.from_array(np.eye(width, dtype=np.float32), "w")]
    g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", 1, (8, width))], outputs, weights)
    return h.make_model(g, ir_version=9, opset_imports=[h.make_opsetid("", 18)])


class WholeFilesTest(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = pathlib.Path(tmp.name)
        (self.dir / "m.onnx").write_bytes(model(96).SerializeToString())

    def limited(self, most, tool, *args):
        """Runs a tool that may write files of `most` bytes; more fails as on a full disk."""
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        p = subprocess.run([tools.bin / tool, *args], capture_output=True, text=True, preexec_fn=limit, timeout=120)
        return p.returncode, p.stderr

    def test_kernels_on_a_full_disk(self):
        whole = self.dir / "whole"
        tools.must("fusion-compile", self.dir / "m.onnx", "--target=sm_90a", "--emit=ptx", "-o", whole)
        sizes = sorted(f.stat().st_size for f in whole.iterdir())
        self.assertGreater(sizes[-1], sizes[0])
        code, err = self.limited(sizes[-1] - 1, "fusion-compile", self.dir / "m.onnx", "--target=sm_90a", "--emit=ptx", "-o", self.dir / "a/b")
        self.assertEqual(code, 1, err)
        self.assertRegex(err, r"cannot write '.*\.ptx': File too large")
        self.assertFalse((self.dir / "a").exists())
        # A folder that was there stays, with what was in it.
        (whole / "mine").write_text("mine")
        before = {f.name: f.read_bytes() for f in whole.iterdir()}
        code, err = self.limited(sizes[-1] - 1, "fusion-compile", self.dir / "m.onnx", "--target=sm_90a", "--emit=ptx", "--numerics=strict", "-o", whole)
        self.assertEqual(code, 1, err)
        self.assertEqual({f.name: f.read_bytes() for f in whole.iterdir()}, before)

    def test_artifact_on_a_full_disk(self):
        code, err = self.limited(4096, "fusion-compile", self.dir / "m.onnx", "--target=host", "-o", self.dir / "m.fusion")
        self.assertEqual(code, 1, err)
        self.assertIn("m.fusion", err)
        self.assertEqual(os.listdir(self.dir), ["m.onnx"])

    def test_outputs_on_a_full_disk(self):
        tools.compile(self.dir / "m.onnx", self.dir / "m.fusion")
        np.save(self.dir / "x.npy", np.zeros((8, 96), np.float32))
        args = [self.dir / "m.fusion", "--input", f"x={self.dir / 'x.npy'}", "--output-dir", self.dir / "out"]
        code, err = self.limited(1000, "fusion-run", *args)
        self.assertEqual(code, 1, err)
        self.assertEqual(os.listdir(self.dir / "out"), [])
        tools.must("fusion-run", *args)
        self.assertEqual(len(os.listdir(self.dir / "out")), 3)

    def test_killed(self):
        """At many moments: the folder holds the old file or the new one, and nothing else."""
        weight = np.zeros((4096, 1024), np.float32)
        nodes = [h.make_node("MatMul", ["x", "w"], ["y"])]
        g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", 1, (1, 4096))], [h.make_tensor_value_info("y", 1, (1, 1024))], [nh.from_array(weight, "w")])
        (self.dir / "big.onnx").write_bytes(h.make_model(g, ir_version=9, opset_imports=[h.make_opsetid("", 18)]).SerializeToString())
        out = self.dir / "out"
        out.mkdir()
        command = [tools.bin / "fusion-compile", self.dir / "big.onnx", "--target=host", "-o", out / "m.fusion"]
        start = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        taken = time.monotonic() - start
        whole = (out / "m.fusion").read_bytes()
        for i in range(12):
            if i % 2:
                (out / "m.fusion").unlink(missing_ok=True)
            p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(taken * (i + 0.5) / 12)
            p.send_signal(signal.SIGTERM if i % 3 else signal.SIGKILL)
            p.wait()
            for f in out.iterdir():
                self.assertEqual(f.name, "m.fusion")
                self.assertEqual(f.read_bytes(), whole)
