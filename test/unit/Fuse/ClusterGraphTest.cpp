//===- ClusterGraphTest.cpp - Merging without cycles ----------------------===//

#include "ClusterGraph.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

using namespace fusion::fuse;

TEST(ClusterGraph, ChainMerges) {
  ClusterGraph g(3);
  g.addEdge(0, 1);
  g.addEdge(1, 2);
  ASSERT_TRUE(g.canMerge({0, 1}));
  unsigned merged = g.merge({0, 1});
  EXPECT_EQ(g.find(0), g.find(1));
  EXPECT_LT(g.rank(merged), g.rank(2));
  EXPECT_EQ(g.successors(merged).size(), 1u);
}

// 0 -> 1 -> 2 and 0 -> 2: without 1, the path leaves and comes back.
TEST(ClusterGraph, PathThatComesBack) {
  ClusterGraph g(3);
  g.addEdge(0, 1);
  g.addEdge(1, 2);
  g.addEdge(0, 2);
  EXPECT_FALSE(g.canMerge({0, 2}));
  EXPECT_TRUE(g.canMerge({0, 1, 2}));
}

TEST(ClusterGraph, MergedNodesMakeNewPaths) {
  // 0 -> 1, 2 -> 3; with {1, 2} one node there is a path from 0 to 3.
  ClusterGraph g(4);
  g.addEdge(0, 1);
  g.addEdge(2, 3);
  EXPECT_TRUE(g.canMerge({0, 3}));
  g.merge({1, 2});
  EXPECT_FALSE(g.canMerge({0, 3}));
}

/// Whether contracting `nodes` closes a cycle, by plain search.
static bool closesCycle(const ClusterGraph &g,
                        const std::vector<std::pair<unsigned, unsigned>> &edges,
                        const std::set<unsigned> &nodes, unsigned count) {
  std::vector<std::set<unsigned>> next(count);
  for (auto [a, b] : edges)
    if (g.find(a) != g.find(b))
      next[g.find(a)].insert(g.find(b));
  std::set<unsigned> seen;
  std::vector<unsigned> work;
  for (unsigned n : nodes)
    for (unsigned s : next[n])
      if (!nodes.count(s) && seen.insert(s).second)
        work.push_back(s);
  while (!work.empty()) {
    unsigned n = work.back();
    work.pop_back();
    for (unsigned s : next[n]) {
      if (nodes.count(s))
        return true;
      if (seen.insert(s).second)
        work.push_back(s);
    }
  }
  return false;
}

TEST(ClusterGraph, RandomMergesKeepTheOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const unsigned count = 24;
    ClusterGraph g(count);
    std::vector<std::pair<unsigned, unsigned>> edges;
    for (int i = 0; i < 40; ++i) {
      unsigned a = random() % count, b = random() % count;
      if (a == b)
        continue;
      edges.emplace_back(std::min(a, b), std::max(a, b));
      g.addEdge(edges.back().first, edges.back().second);
    }
    for (int i = 0; i < 30; ++i) {
      std::set<unsigned> nodes = {g.find(random() % count),
                                  g.find(random() % count)};
      if (random() % 3 == 0)
        nodes.insert(g.find(random() % count));
      std::vector<unsigned> list(nodes.begin(), nodes.end());
      bool legal = g.canMerge(list);
      ASSERT_EQ(legal, !closesCycle(g, edges, nodes, count));
      if (!legal)
        continue;
      g.merge(list);
      std::set<unsigned> ranks, roots;
      for (unsigned n = 0; n < count; ++n) {
        roots.insert(g.find(n));
        ranks.insert(g.rank(n));
      }
      ASSERT_EQ(ranks.size(), roots.size());
      for (auto [a, b] : edges)
        if (g.find(a) != g.find(b))
          ASSERT_LT(g.rank(a), g.rank(b));
    }
  }
}
