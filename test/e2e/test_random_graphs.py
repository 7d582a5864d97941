"""A thousand random graphs without a difference, and what others found as small tests of test_numbers."""
import unittest

import numpy as np

import random_graphs
from fusion import testing


class RandomGraphsTest(unittest.TestCase):
    def test_graphs_of_one_seed(self):
        self.assertEqual(random_graphs.check(testing.tools.bin, seed=1, count=1000), [])

    def test_a_difference_is_found(self):
        """The comparison itself: a result a little off differs, and a cancellation of nearly equal numbers does not excuse more than
        its roundings do."""
        graph = random_graphs.make([1, 0], "g_")
        with testing.Batch(testing.tools.bin) as tools:
            fused, _ = random_graphs.run_file(tools, [graph])
            self.assertEqual(list(random_graphs.compare([graph], fused, {"fused": fused})), [])
            wrong = {o: a * (1 + 3e-5 * np.sign(a - a.mean())) for o, a in fused.items()}
            self.assertTrue(list(random_graphs.compare([graph], fused, {"fused": wrong})))

    def test_nearly_equal_numbers_are_judged_by_their_roundings(self):
        g = random_graphs.Graph(1, "g_")
        g.input((4,))
        x = g.values[0][0]
        y = g.op("Mul", [g.op("Tanh", [x], (4,)), g.constant(np.float32(1.0001))], (4,))
        z = g.op("Sub", [g.op("Tanh", [x], (4,)), y], (4,))
        exact = random_graphs.evaluate(g, [z])[z]
        self.assertTrue(random_graphs.ill_conditioned(g, z, exact * (1 + 3e-4)))
        self.assertFalse(random_graphs.ill_conditioned(g, z, exact * (1 + 1e-2)))
