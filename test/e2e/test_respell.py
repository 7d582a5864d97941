"""Operators written by algebraically equal ones: every rule of respell_rules.py on one of the small models, pairs of rules, and
respelled models with another meaning."""
import pathlib
import random
import tempfile
import unittest

import respell
from fusion import testing

SEED, PAIRS, WRONG = 6, 24, 40


class RespellTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.small, cls.exported = list(respell.small_models()), list(respell.exported())
        cls.tools, testing.tools = testing.tools, testing.Batch(testing.tools.bin)
        cls.addClassCleanup(lambda: (testing.tools.__exit__(), setattr(testing, "tools", cls.tools)))

    def setUp(self):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        self.folder = pathlib.Path(tmp.name)

    def first_outcome(self, bases, rules, seed):
        """Of the first model in which the rules find something and onnxruntime computes the same."""
        for base in bases:
            outcome = respell.case(base, rules, seed, self.folder)
            if outcome and not outcome.startswith("no reference"):
                return outcome
        return None

    def test_every_rule(self):
        r = random.Random(SEED)
        for name in respell.RULES:
            with self.subTest(name):
                bases = r.sample(self.small, len(self.small)) + self.exported
                self.assertIsNotNone(self.first_outcome(bases, (name,), SEED), "no model has what the rule rewrites")

    def test_other_meanings(self):
        """A change of meaning on top: the numbers follow it, whatever looks like a pattern."""
        outcomes = [respell.wrong_case(self.small[i % len(self.small)], 1000 * SEED + i, self.folder) for i in range(WRONG)]
        self.assertGreater(outcomes.count("right"), WRONG // 6)

    def test_pairs(self):
        for base, rules, seed, probability in respell.pairs(self.small, PAIRS, SEED):
            with self.subTest(base=base.name, rules=rules):
                respell.case(base, rules, seed, self.folder, probability)
