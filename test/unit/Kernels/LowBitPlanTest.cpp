//===- LowBitPlanTest.cpp - Tiles of products with packed weights ---------===//

#include "fusion/Kernels/LowBitMatmul.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::kernels;

namespace {

LowBitProblem problem(int64_t n, int64_t k) {
  LowBitProblem p;
  p.n = n;
  p.k = k;
  return p;
}

} // namespace

// What won on the card.
TEST(LowBitPlan, MeasuredPoints) {
  LowBitProblem wide = problem(28672, 4096), square = problem(4096, 4096),
                deep = problem(4096, 14336);
  EXPECT_EQ(planLowBit(wide, 16, 16, 2).tileAt(16),
            (LowBitTile{16, 1, 1, 1, 2}));
  EXPECT_EQ(planLowBit(wide, 64, 64, 2).tileAt(64),
            (LowBitTile{64, 1, 1, 1, 2}));
  EXPECT_EQ(planLowBit(wide, 128, 128, 2).tileAt(128),
            (LowBitTile{128, 2, 1, 1, 1}));
  for (const LowBitProblem &p : {square, deep}) {
    EXPECT_EQ(planLowBit(p, 16, 16, 2).tileAt(16),
              (LowBitTile{16, 1, 2, 2, 1}));
    EXPECT_EQ(planLowBit(p, 64, 64, 2).tileAt(64),
              (LowBitTile{64, 1, 2, 2, 1}));
  }
}

// Widths of their own for few rows and for many, in clusters too.
TEST(LowBitPlan, BucketOfFewRows) {
  LowBitPlan plan = planLowBit(problem(4096, 4096), 2, 64, 2);
  EXPECT_LT(plan.tileAt(16).columns, 64u);
  EXPECT_EQ(plan.tileAt(16).cluster, 2u);
  EXPECT_EQ(plan.tileAt(64), (LowBitTile{64, 1, 2, 2, 1}));
}

TEST(LowBitPlan, EveryBucketHasTiles) {
  for (unsigned products : {1u, 2u})
    for (int64_t n : {16, 272, 4096, 152064})
      for (int64_t k : {16, 256, 520, 4096})
        for (auto [least, most] : {std::pair<int64_t, int64_t>(0, INT64_MAX),
                                   {1, 1},
                                   {2, 64},
                                   {65, 4096},
                                   {2048, 2048},
                                   {5000, 70000}})
          for (unsigned resident : {1u, 2u}) {
            LowBitProblem p = problem(n * products, k);
            p.products = products;
            LowBitPlan plan = planLowBit(p, least, most, resident);
            ASSERT_FALSE(plan.tiles.empty());
            ASSERT_FALSE(plan.entries.empty());
            EXPECT_LE(plan.tiles.size(), 4u);
            for (const LowBitPlanEntry &entry : plan.entries)
              ASSERT_LT(entry.tile, plan.tiles.size());
            for (const LowBitTile &t : plan.tiles) {
              EXPECT_EQ(t.cluster, plan.tiles[0].cluster);
              EXPECT_EQ(t.resident, plan.tiles[0].resident);
              EXPECT_LE(t.resident, resident);
              EXPECT_GE(t.blocks, products);
              EXPECT_LE(t.blocks * t.columns, 256u);
            }
            // Blocks of a cluster meet: all of them run at once.
            for (size_t i = 0; i < plan.entries.size(); ++i) {
              const LowBitTile &t = plan.tiles[plan.entries[i].tile];
              int64_t last = i + 1 < plan.entries.size()
                                 ? plan.entries[i + 1].firstRow - 1
                                 : std::min<int64_t>(most, 1 << 20);
              int64_t blocks = ((n * products - 1) / t.rows() + 1) *
                               ((last - 1) / t.columns + 1) * t.cluster;
              if (t.cluster > 1)
                EXPECT_LE(blocks, int64_t(kCardMultiprocessors));
            }
          }
}
