"""Text and bytecode round trip over every IR file of the suite."""
import pathlib
import re
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

    def test_every_op_is_in_some_file(self):
        texts = "\n".join(p.read_text() for p in SUITE.rglob("*.mlir"))
        for dialect in ("Fusion", "Plan"):
            definitions = "\n".join(p.read_text() for p in (SUITE.parent / f"include/fusion/Dialect/{dialect}").glob("*Ops.td"))
            names = re.findall(rf'^def {dialect}_\w+Op\s*:\s*\w+<\s*"(\w+)"', definitions, re.M)
            self.assertGreater(len(names), 10)
            missing = [n for n in names if not re.search(rf"\b{dialect.lower()}\.{n}\b", texts)]
            self.assertEqual(missing, [], f"ops of {dialect} in no file")
