"""ONNX's own node tests of every operator that is imported: all pass but the exceptions of onnx-exceptions.txt."""
import unittest

import onnx

import onnx_cases
import onnx_page
from fusion import testing


class OnnxNodeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        bin = testing.tools.bin
        cls.known = onnx_cases.operators(bin)
        names = {onnx_cases.key(o["domain"], o["name"]) for o in cls.known}
        cls.cases, cls.others, cls.total = onnx_cases.cases(names)
        cls.results, cls.through = onnx_cases.run_all(bin, cls.cases), onnx_cases.run_all(bin, cls.others)
        cls.bodies = onnx_cases.read_through_bodies(names, cls.others, cls.through)
        cls.exceptions = onnx_cases.exceptions()

    def test_all_but_the_exceptions_pass(self):
        for name, outcome in self.results.items():
            with self.subTest(name):
                if name not in self.exceptions:
                    self.assertEqual(outcome.verdict, "ok", outcome.text[-1000:])

    def test_the_exceptions_only_shrink(self):
        passing = [n for n in self.exceptions if n in self.results and self.results[n].verdict == "ok"]
        self.assertEqual(passing, [], "these pass: take them from onnx-exceptions.txt")

    def test_no_exceptions_for_what_language_models_are_made_of(self):
        for case in self.cases:
            if case.name in self.exceptions:
                operators = onnx_cases.operators_of(case.model.graph) & onnx_cases.COMPLETE
                self.assertEqual(operators, set(), case.name)

    def test_a_body_is_right_or_refused(self):
        for name, outcome in self.through.items():
            with self.subTest(name):
                self.assertIn(outcome.verdict, ("ok", "refused"), outcome.text[-1000:])

    def test_many_cases_are_tried(self):
        self.assertGreater(len(self.cases), 1100)

    def test_the_page_is_current(self):
        page = onnx_cases.PAGE.read_text()
        if f"onnx {onnx.__version__} " not in page:
            self.skipTest(f"{onnx_cases.PAGE.name} is of another release than onnx {onnx.__version__}")
        self.assertEqual(onnx_page.render(self.known, self.cases, self.total, self.results, self.exceptions, self.bodies), page)
