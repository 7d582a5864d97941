"""Mutations of the main patterns: fused because still legal, or explained with code and node; the numbers are onnxruntime's."""
import json
import pathlib
import re
import tempfile
import unittest

import onnx

import near_miss_models as models
from fusion import testing

LIMIT = 2e-6
HALF = 2.0**-11  # where the graph rounds to 16 bits and the default numerics do not
# What the untouched model raises to, and the name of the pattern in reports.
RAISED = {models.rms_norm: ({"rms_norm": 1}, "rms_norm"), models.swiglu: ({"silu": 1}, "silu"),
          models.rope: ({"rope": 2, "attention": 1}, "rope"), models.plain_attention: ({"attention": 1}, "attention")}
SITE = {models.rms_norm: "add_rms_norm", models.swiglu: "swiglu", models.rope: "rope_attention"}


class NearMissTest(unittest.TestCase):
    def examine(self, model):
        """(raised ops, sites of the report); checks the numbers."""
        tools, proto = testing.tools, model.proto()
        with tempfile.TemporaryDirectory() as tmp:
            tmp = pathlib.Path(tmp)
            onnx.save(proto, tmp / "m.onnx")
            ir = tools.must("fusion-compile", tmp / "m.onnx", "--emit=raised", "-o", "-")
            raised = lambda op: len(re.findall(rf"= fusion\.{op}\b", ir))
            report = json.loads(tools.compile(tmp / "m.onnx", tmp / "m.fusion", "--explain=json"))
            found = [(tools.run(tmp / "m.fusion", model.inputs), HALF if model.rounds else LIMIT)]
            if model.rounds:
                tools.compile(tmp / "m.onnx", tmp / "m.fusion", "--numerics=strict")
                found.append((tools.run(tmp / "m.fusion", model.inputs), LIMIT))
        for name, reference in testing.run_onnxruntime(proto, model.inputs).items():
            for outputs, limit in found:
                self.assertLessEqual(testing.error(outputs[testing.file_name(name)], reference), limit, name)
        return raised, report["sites"]

    def check(self, base, mutate, expectation):
        model = base()
        if mutate:
            mutate(model)
        raised, sites = self.examine(model)
        ops, pattern = RAISED[base]
        found = {op: raised(op) for op in ops}
        misses = [(b["code"], s["node"], b["message"]) for s in sites if s["outcome"] == "almost matched" and s["kind"] == pattern for b in s["buckets"]]
        if expectation == models.FUSED:
            self.assertEqual(found, ops, misses)
            self.assertEqual(misses, [])
            return [s for s in sites if s["kind"] == SITE.get(base)]
        self.assertNotEqual(found, ops)
        code, node = expectation
        self.assertEqual([c for c, _, _ in misses], [code], misses)
        self.assertIn(node, re.findall(r"stopped: [^,]*", misses[0][2])[0] + misses[0][1], misses)

    def test_untouched(self):
        for base in RAISED:
            with self.subTest(base.__name__):
                sites = self.check(base, None, models.FUSED)
                self.assertTrue(all(s["outcome"] == "fused" for s in sites), sites)
                self.assertEqual(len(sites), base in SITE)

    def test_eight_mutations_each(self):
        for base in RAISED:
            self.assertGreaterEqual(len(models.MUTATIONS[base]), 8, base.__name__)


for base, listed in models.MUTATIONS.items():
    for name, (mutate, expectation) in listed.items():
        setattr(NearMissTest, f"test_{name}", lambda self, base=base, mutate=mutate, expectation=expectation: self.check(base, mutate, expectation))
