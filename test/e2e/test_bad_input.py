"""Bad input: exit code 1, a message that names the file (and the node, where one is at fault), nothing written, no crash."""
import os
import pathlib
import re
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

from fusion.testing import tools


def value(name, dtype=T.FLOAT, shape=(4, 4)):
    return h.make_tensor_value_info(name, dtype, shape)


def graph(nodes, weights=(), opset=18, inputs=None, outputs=None):
    g = h.make_graph(nodes, "g", inputs or [value("x")], outputs or [value("y")], list(weights))
    return h.make_model(g, ir_version=9, opset_imports=[h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1)])


def matmul():
    return h.make_node("MatMul", ["x", "w"], ["y"], name="/head/MatMul")


def good():
    return graph([matmul()], [nh.from_array(np.eye(4, dtype=np.float32), "w")])


def external(location, offset=0, length=64):
    t = T(name="w", data_type=T.FLOAT, dims=(4, 4), data_location=T.EXTERNAL)
    for k, v in (("location", location), ("offset", offset), ("length", length)):
        t.external_data.add(key=k, value=str(v))
    return graph([matmul()], [t])


class BadInputTest(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = pathlib.Path(tmp.name)
        (self.dir / "in").mkdir()
        (self.dir / "out").mkdir()
        (self.dir / "outside.bin").write_bytes(bytes(64))
        (self.dir / "in/w.bin").write_bytes(bytes(64))

    def write(self, model):
        path = self.dir / "in/case.onnx"
        path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
        return path

    def refused(self, model, says, options=()):
        """Compiles; the message must match `says` too."""
        code, out, err = tools.call("fusion-compile", self.write(model), "-o", self.dir / "out/m.fusion", "--target=host", *options)
        self.assertEqual(code, 1, err)
        self.assertIn("case.onnx", err)
        self.assertRegex(err, re.compile(says, re.I))
        self.assertEqual(os.listdir(self.dir / "out"), [])

    def artifact(self):
        tools.compile(self.write(good()), self.dir / "m.fusion")
        return self.dir / "m.fusion"

    def run_refused(self, artifact, feeds, says):
        args = []
        for name, a in feeds.items():
            np.save(self.dir / f"{name}.npy", a)
            args += ["--input", f"{name}={self.dir / name}.npy"]
        code, out, err = tools.call("fusion-run", artifact, "--device=host", *args, "--output-dir", self.dir / "out")
        self.assertEqual(code, 1, err)
        self.assertRegex(err, re.compile(says, re.I))
        self.assertEqual(os.listdir(self.dir / "out"), [])

    # Files that are no models

    def test_missing_file(self):
        code, _, err = tools.call("fusion-compile", self.dir / "in/nowhere.onnx", "-o", self.dir / "out/m.fusion")
        self.assertEqual(code, 1)
        self.assertIn("nowhere.onnx", err)

    def test_text(self):
        self.refused(b"<html>not a model</html>\n", "onnx")

    def test_empty(self):
        self.refused(b"", "empty|onnx|graph")

    def test_truncated(self):
        raw = good().SerializeToString()
        for k in (1, 7, len(raw) // 3, len(raw) - 1):
            with self.subTest(k=k):
                self.refused(raw[:k], "truncated|parse|onnx|invalid")

    # Operators

    def test_unknown_op_names_node_and_opset(self):
        self.refused(graph([h.make_node("Frobnicate", ["x"], ["y"], name="/deep/frob")]), r"/deep/frob[\s\S]*Frobnicate|Frobnicate[\s\S]*/deep/frob")

    def test_every_unsupported_node_is_listed(self):
        nodes = [h.make_node("Frobnicate", ["x"], ["a"], name="/one"), h.make_node("Grumble", ["a"], ["y"], name="/two")]
        self.refused(graph(nodes), r"/one[\s\S]*/two")

    def test_unknown_domain(self):
        m = graph([h.make_node("Foo", ["x"], ["y"], name="/foo", domain="org.example")])
        m.opset_import.append(h.make_opsetid("org.example", 1))
        self.refused(m, r"/foo[\s\S]*org\.example|org\.example[\s\S]*/foo")

    def test_opset_of_the_future(self):
        self.refused(graph([matmul()], [nh.from_array(np.eye(4, dtype=np.float32), "w")], opset=999), "opset|999")

    def test_no_opset(self):
        m = good()
        del m.opset_import[:]
        self.refused(m, "opset")

    # Shapes and types

    def test_shape_conflict_names_the_node(self):
        m = graph([matmul()], [nh.from_array(np.eye(4, dtype=np.float32), "w")], inputs=[value("x", shape=(4, 5))])
        self.refused(m, "/head/MatMul")

    def test_output_of_another_type_than_declared(self):
        m = graph([h.make_node("Neg", ["x"], ["y"], name="/neg")], outputs=[value("y", T.INT64)])
        self.refused(m, "output 'y': declared as int64, found elements of type f32")

    def test_axis_out_of_range(self):
        self.refused(graph([h.make_node("Softmax", ["x"], ["y"], name="/soft", axis=7)]), "/soft|axis")

    def test_undefined_input(self):
        self.refused(graph([h.make_node("MatMul", ["x", "nowhere"], ["y"], name="/mm")]), "nowhere")

    def test_weight_with_too_few_bytes(self):
        self.refused(graph([matmul()], [T(name="w", data_type=T.FLOAT, dims=[4, 4], raw_data=bytes(60))]), "w")

    def test_weight_of_absurd_size(self):
        self.refused(graph([matmul()], [T(name="w", data_type=T.FLOAT, dims=[1 << 62, 16], raw_data=bytes(64))]), "w")

    # External data

    def test_external_data_missing(self):
        self.refused(external("nothing.bin"), r"nothing\.bin")

    def test_external_data_outside_the_folder(self):
        self.refused(external("../outside.bin"), r"outside\.bin")

    def test_external_data_absolute(self):
        self.refused(external("/etc/passwd"), "/etc/passwd")

    def test_external_data_through_a_link(self):
        os.symlink("../outside.bin", self.dir / "in/link.bin")
        self.refused(external("link.bin"), r"link\.bin")

    def test_external_data_too_short(self):
        self.refused(external("w.bin", offset=32), r"w\.bin")

    def test_external_data_offset_overflow(self):
        self.refused(external("w.bin", offset=(1 << 63) - 8), r"w\b")

    # At run time

    def test_run_input_missing(self):
        self.run_refused(self.artifact(), {}, r"\bx\b")

    def test_run_input_unknown(self):
        x = np.eye(4, dtype=np.float32)
        self.run_refused(self.artifact(), {"x": x, "stranger": x}, "stranger")

    def test_run_input_of_wrong_shape(self):
        self.run_refused(self.artifact(), {"x": np.zeros((4, 5), np.float32)}, r"\bx\b[\s\S]*\b5\b")

    def test_run_input_of_wrong_type(self):
        self.run_refused(self.artifact(), {"x": np.zeros((4, 4), np.float64)}, r"\bx\b[\s\S]*(f64|float64|double)")

    def test_artifact_altered_truncated_or_another_file(self):
        raw = self.artifact().read_bytes()
        changed = {"altered head": bytes([raw[0] ^ 1]) + raw[1:], "altered middle": raw[:len(raw) // 2] + bytes([raw[len(raw) // 2] ^ 1]) + raw[len(raw) // 2 + 1:],
                   "altered end": raw[:-1] + bytes([raw[-1] ^ 0x80]), "truncated": raw[:len(raw) // 2], "longer": raw + b"\0", "empty": b"", "text": b"hello\n"}
        for what, data in changed.items():
            with self.subTest(what):
                (self.dir / "bad.fusion").write_bytes(data)
                self.run_refused(self.dir / "bad.fusion", {"x": np.eye(4, dtype=np.float32)}, "checksum|truncated|corrupt|not a fusion artifact|version")

    def test_every_bit_of_a_small_artifact_counts(self):
        raw = bytearray(self.artifact().read_bytes())
        x = np.eye(4, dtype=np.float32)
        np.save(self.dir / "x.npy", x)
        rnd = np.random.default_rng(5)
        for position in rnd.integers(0, len(raw), 40):
            raw[position] ^= 4
            (self.dir / "bad.fusion").write_bytes(raw)
            code, _, err = tools.call("fusion-run", self.dir / "bad.fusion", "--device=host", "--input", f"x={self.dir / 'x.npy'}", "--output-dir", self.dir / "out")
            self.assertEqual(code, 1, f"byte {position}: {err}")
            raw[position] ^= 4

    # Usage

    def test_usage_is_exit_code_2(self):
        for args in ([], ["--no-such-option"], [self.write(good()), "-o", self.dir / "out/m.fusion", "--target=mars"]):
            with self.subTest(args=args):
                self.assertEqual(tools.call("fusion-compile", *args)[0], 2)
        self.assertEqual(os.listdir(self.dir / "out"), [])

    def test_unmet_expectation_is_exit_code_3(self):
        code, _, err = tools.call("fusion-compile", self.write(good()), "-o", self.dir / "out/m.fusion", "--target=host", "--expect", "swiglu=1")
        self.assertEqual(code, 3)
        self.assertRegex(err, "swiglu")
