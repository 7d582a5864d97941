"""Where fusion-compile writes: streams, devices and links as they are, the model never."""
import json
import os
import pathlib
import signal
import stat
import subprocess
import tempfile
import threading
import time
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper

from fusion.testing import tools


class OutputTest(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.dir = pathlib.Path(tmp.name)
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (4, 8)) for n in "xy")
        graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"], name="e")], "g", [x], [y])
        onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), self.dir / "m.onnx")
        self.assertEqual(self.compile("-o", "a.fusion").returncode, 0)
        self.artifact = (self.dir / "a.fusion").read_bytes()

    def compile(self, *arguments):
        return subprocess.run([str(tools.bin / "fusion-compile"), "m.onnx", *arguments], cwd=self.dir, capture_output=True)

    def test_standard_output(self):
        self.assertEqual(self.compile("-o", "-").stdout, self.artifact)
        self.assertFalse((self.dir / "-").exists())

    def test_a_report_does_not_mix_with_standard_output(self):
        r = self.compile("-o", "-", "--emit=fused", "--explain")
        self.assertTrue(r.stdout.startswith(b"module"), r.stdout[:80])
        self.assertIn(b"kernels", r.stderr)

    def test_a_report_of_what_has_not_happened_is_bad_usage(self):
        for stage in ("imported", "raised"):
            for option in ("--explain", "--expect=swiglu=1"):
                r = self.compile("-o", "-", f"--emit={stage}", option)
                self.assertEqual((r.returncode, r.stdout), (2, b""))
                self.assertIn(f"--emit={stage} ends before them".encode(), r.stderr)

    def test_devices_stay_devices(self):
        null, full = self.dir / "null", self.dir / "full"
        try:
            os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            os.mknod(full, 0o666 | stat.S_IFCHR, os.makedev(1, 7))
            open(null, "wb").close()
        except PermissionError as e:
            self.skipTest(f"no device nodes can be made here: {e}")
        self.assertEqual(self.compile("-o", "null").returncode, 0)
        r = self.compile("-o", "full")
        self.assertEqual(r.returncode, 1)
        self.assertIn(b"cannot write full", r.stderr)
        for node in (null, full):
            self.assertTrue(stat.S_ISCHR(node.stat().st_mode), node)

    def test_a_pipe_gets_the_bytes(self):
        os.mkfifo(self.dir / "pipe")
        got = []
        reader = threading.Thread(target=lambda: got.append((self.dir / "pipe").read_bytes()), daemon=True)
        reader.start()
        self.assertEqual(self.compile("-o", "pipe").returncode, 0)
        reader.join(20)
        self.assertEqual(got, [self.artifact])

    def test_a_link_is_followed(self):
        (self.dir / "target").write_bytes(b"old")
        os.symlink("target", self.dir / "link")
        self.assertEqual(self.compile("-o", "link").returncode, 0)
        self.assertTrue((self.dir / "link").is_symlink())
        self.assertEqual((self.dir / "target").read_bytes(), self.artifact)

    def test_the_model_is_not_overwritten(self):
        before = (self.dir / "m.onnx").read_bytes()
        self.assertEqual(self.compile("-o", "m.onnx").returncode, 2)
        self.assertEqual((self.dir / "m.onnx").read_bytes(), before)

    def test_a_folder_is_no_stream(self):
        self.assertEqual(self.compile("-o", "-", "--emit=ptx").returncode, 2)
        self.assertEqual(sorted(os.listdir(self.dir)), ["a.fusion", "m.onnx"])

    def test_output_names_that_are_no_file_names(self):
        names = ["../up", "..", "\N{GREEK SMALL LETTER ALPHA}", "n" * 300, "n" * 300 + "x", "a\nb"]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))
        nodes = [helper.make_node("Mul", ["x", f"c{i}"], [n], name=f"m{i}") for i, n in enumerate(names)]
        factors = [helper.make_tensor(f"c{i}", TensorProto.FLOAT, [], [i + 2.0]) for i in range(len(names))]
        graph = helper.make_graph(nodes, "g", [x], [helper.make_tensor_value_info(n, TensorProto.FLOAT, (2,)) for n in names], factors)
        onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), self.dir / "n.onnx")
        tools.compile(self.dir / "n.onnx", self.dir / "n.fusion")
        found = tools.run(self.dir / "n.fusion", {"x": np.ones(2, np.float32)})
        expected = {".._up": 2, "..": 3, "__": 4, "n" * 200: 5, "n" * 200 + "_2": 6, "a_b": 7}
        self.assertEqual({n: a.tolist() for n, a in found.items()}, {n: [v, v] for n, v in expected.items()})

    def test_the_host_has_no_ptx(self):
        r = self.compile("-o", "p", "--emit=ptx", "--target=host")
        self.assertEqual(r.returncode, 2)
        self.assertIn(b"found --target=host", r.stderr)
        self.assertFalse((self.dir / "p").exists())

    def test_options_of_a_run_that_contradict(self):
        for options, says in ((["--json"], "--json goes with --generate or --bench"), (["--info", "--bench=2"], "--info runs nothing"),
                              (["--verify", "--bench=2"], "--verify goes with none"), (["--stop-ids=2"], "need --generate"),
                              (["--generate=2"], "--generate needs --prompt-ids")):
            with self.subTest(options):
                code, out, err = tools.call("fusion-run", self.dir / "a.fusion", *options)
                self.assertEqual((code, out), (2, ""), err)
                self.assertIn(says, err)

    def test_the_cards_kernels_as_text(self):
        self.assertIn(b"gpu.module", self.compile("-o", "-", "--emit=kernel", "--target=sm_90a").stdout)
        self.assertIn(b"nvptx64-nvidia-cuda", self.compile("-o", "-", "--emit=llvm", "--target=sm_90a").stdout)
        self.assertEqual(self.compile("-o", "-", "--emit=llvm", "--target=sm_90a,host").returncode, 2)

    def test_the_assembler_must_exist(self):
        r = self.compile("-o", "cubins", "--emit=cubin", "--ptxas=/no/such/ptxas")
        self.assertEqual(r.returncode, 1)
        self.assertIn(b"/no/such/ptxas", r.stderr)

    def test_a_full_standard_output_is_an_error(self):
        with open("/dev/full", "wb") as full:
            r = subprocess.run([str(tools.bin / "fusion-compile"), "m.onnx", "-o", "b.fusion", "--explain"], cwd=self.dir, stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(r.returncode, 1)
        self.assertIn(b"standard output", r.stderr)

    def test_options_without_effect_are_refused(self):
        for option in ("--max-context=64", "--fuel=-3"):
            with self.subTest(option=option):
                self.assertEqual(self.compile("-o", "b.fusion", option).returncode, 2)

    def test_an_empty_expectation_is_bad_usage(self):
        for option in (["--expect="], ["--expect", ""]):
            r = self.compile("-o", "b.fusion", *option)
            self.assertEqual(r.returncode, 2)
            self.assertIn(b"fusion-compile: error: --expect is empty", r.stderr)

    def test_messages_have_one_form(self):
        """FILE: error: what; what is about no file starts with the program's name."""
        graph = onnx.load(self.dir / "m.onnx")
        graph.graph.node[0].op_type = "Frobnicate"
        onnx.save(graph, self.dir / "bad.onnx")
        (self.dir / "bad.fusion").write_bytes(self.artifact[:-1])
        (self.dir / "x.npy").write_bytes(b"no array")
        compile, run = str(tools.bin / "fusion-compile"), str(tools.bin / "fusion-run")
        for command, start in (([compile, "bad.onnx", "-o", "b.fusion"], "bad.onnx: error: "), ([compile, "nowhere.onnx", "-o", "b.fusion"], "nowhere.onnx: error: "),
                               ([compile, "m.onnx", "-o", "b.fusion", "--disable-fusion=swiglu@nope"], "m.onnx: error: "), ([compile, "m.onnx", "-o", "b.fusion", "--likely=q=3"], "m.onnx: error: "),
                               ([compile, "m.onnx", "-o", "b.fusion", "--role=token_ids=nope"], "m.onnx: error: "), ([compile, "m.onnx"], "fusion-compile: error: "),
                               ([run, "bad.fusion"], "bad.fusion: error: "), ([run, "a.fusion"], "a.fusion: error: "),
                               ([run, "a.fusion", "--input", "x=x.npy"], "fusion-run: error: input 'x': "), ([run, "a.fusion", "--json"], "fusion-run: error: ")):
            with self.subTest(command[1:]):
                r = subprocess.run(command, cwd=self.dir, capture_output=True, text=True)
                self.assertIn(r.returncode, (1, 2))
                self.assertTrue(r.stderr.startswith(start), r.stderr)

    def test_a_signal_leaves_no_file_of_the_assembler(self):
        (self.dir / "tmp").mkdir()
        (self.dir / "ptxas").write_text("#!/bin/sh\ntouch started\nexec sleep 20\n")
        (self.dir / "ptxas").chmod(0o755)
        for end in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            with self.subTest(end):
                p = subprocess.Popen([str(tools.bin / "fusion-compile"), "m.onnx", "-o", "cubins", "--emit=cubin", f"--ptxas={self.dir / 'ptxas'}"], cwd=self.dir,
                                     env={**os.environ, "TMPDIR": str(self.dir / "tmp")}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                     preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
                for _ in range(600):
                    if (self.dir / "started").exists():
                        break
                    time.sleep(0.05)
                p.send_signal(end)
                p.wait(20)
                os.killpg(p.pid, signal.SIGKILL)
                (self.dir / "started").unlink()
                self.assertEqual(os.listdir(self.dir / "tmp"), [])

    def test_rows_of_a_timed_run(self):
        """Without tokens they are those of the first output."""
        np.save(self.dir / "x.npy", np.ones((4, 8), np.float32))
        out = tools.must("fusion-run", self.dir / "a.fusion", "--input", f"x={self.dir / 'x.npy'}", "--bench=2", "--json")
        self.assertEqual(json.loads(out)["rows"], 4)

    def test_an_unknown_role_is_bad_usage(self):
        r = self.compile("-o", "b.fusion", "--role=foo=x")
        self.assertEqual(r.returncode, 2)
        self.assertIn(b"foo", r.stderr)

    def test_the_file_is_named_once(self):
        graph = onnx.load(self.dir / "m.onnx")
        graph.graph.node[0].op_type = "Frobnicate"
        onnx.save(graph, self.dir / "bad.onnx")
        for arguments in (["bad.onnx"], ["nowhere.onnx"]):
            r = subprocess.run([str(tools.bin / "fusion-compile"), *arguments, "-o", "b.fusion"], cwd=self.dir, capture_output=True, text=True)
            self.assertEqual(r.stderr.splitlines()[0].count(arguments[0]), 1, r.stderr)

    def test_names_in_options_must_exist(self):
        for option, says in (("--role=token_ids=nope", b"nope"), ("--disable-fusion=swiglu@nope", b"nope")):
            with self.subTest(option=option):
                r = self.compile("-o", "b.fusion", option)
                self.assertEqual(r.returncode, 1)
                self.assertIn(says, r.stderr)
                self.assertFalse((self.dir / "b.fusion").exists())
