"""A hundred random graphs without a difference, and what others found as small tests of test_numbers."""
import unittest

import random_graphs
from fusion import testing


class RandomGraphsTest(unittest.TestCase):
    def test_graphs_of_one_seed(self):
        self.assertEqual(random_graphs.check(testing.tools.bin, seed=1, count=100), [])

    def test_a_difference_is_found(self):
        """The comparison itself: a reference of another function differs."""
        graph = random_graphs.make([1, 0], "g_")
        with testing.Batch(testing.tools.bin) as tools:
            fused, _ = random_graphs.run_file(tools, [graph])
            self.assertEqual(list(random_graphs.compare([graph], fused, {"fused": fused})), [])
            wrong = {o: a + 1 for o, a in fused.items()}
            self.assertTrue(list(random_graphs.compare([graph], wrong, {"fused": fused})))
