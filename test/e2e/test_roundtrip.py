"""Text and bytecode round trip over every IR file of the suite."""
import pathlib
import unittest

from fusion.testing import tools

SUITE = pathlib.Path(__file__).resolve().parents[1]


class RoundtripTest(unittest.TestCase):
    def test_every_file(self):
        checked = 0
        for path in sorted(SUITE.rglob("*.mlir")):
            arguments = [path, "-o", "/dev/null"] + (["--split-input-file"] if "// -----" in path.read_text() else [])
            code, _, err = tools.call("fusion-opt", "--verify-roundtrip", *arguments)
            if code and tools.call("fusion-opt", *arguments)[0]:
                continue  # a file of errors that verifiers must find
            checked += 1
            with self.subTest(path.name):
                self.assertEqual(code, 0, err)
        self.assertGreater(checked, 40)
