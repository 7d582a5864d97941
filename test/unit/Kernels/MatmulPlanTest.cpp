//===- MatmulPlanTest.cpp - Tiles and splits of products ------------------===//

#include "fusion/Kernels/WgmmaMatmul.h"

#include <gtest/gtest.h>

#include <set>

using namespace fusion;
using namespace fusion::kernels;

namespace {

const unsigned kWidths[] = {256, 192, 128};

MatmulSchedule scheduleFor(int64_t rows, int64_t n, int64_t k) {
  MatmulProblem problem;
  problem.n = n;
  problem.k = k;
  auto plan = planMatmul(problem, rows, rows, kWidths, true);
  EXPECT_EQ(plan.size(), 1u);
  return plan[0].schedule;
}

int64_t items(int64_t rows, int64_t n, const MatmulSchedule &s) {
  return (rows + 127) / 128 * ((n + s.columns - 1) / s.columns) * s.splits;
}

} // namespace

// Many tiles: the widest, whole.
TEST(MatmulPlan, LargeProductsTakeTheWidestTile) {
  for (auto [m, n, k] : {std::tuple(4096, 4096, 4096),
                         {8192, 8192, 8192},
                         {2048, 28672, 4096},
                         {2048, 4096, 14336}}) {
    MatmulSchedule s = scheduleFor(m, n, k);
    EXPECT_EQ(s.columns, 256u) << m << ' ' << n;
    EXPECT_EQ(s.splits, 1u);
  }
}

// Few tiles: nearly all multiprocessors get work, in one wave.
TEST(MatmulPlan, SmallGridsFillTheCard) {
  for (auto [m, n, k] : {std::tuple(256, 4096, 4096),
                         {512, 4096, 4096},
                         {512, 6144, 4096},
                         {256, 6144, 4096},
                         {512, 4096, 14336}}) {
    MatmulSchedule s = scheduleFor(m, n, k);
    int64_t work = items(m, n, s);
    EXPECT_LE(work, kCardMultiprocessors) << m << ' ' << n;
    EXPECT_GE(work, kCardMultiprocessors * 9 / 10) << m << ' ' << n;
  }
  EXPECT_GE(scheduleFor(128, 4096, 14336).splits, 2u);
  EXPECT_EQ(scheduleFor(256, 4096, 4096).splits, 2u);
  EXPECT_EQ(scheduleFor(512, 4096, 4096).splits, 1u);
}

// A plan for a range of rows covers it in order, and
// split tiles have room in the workspace: no more parts than multiprocessors.
TEST(MatmulPlan, RangesAreCovered) {
  for (int64_t n : {64, 576, 1536, 4096, 6144, 28672, 49152})
    for (int64_t k : {64, 576, 4096, 14336})
      for (auto [low, high] :
           {std::pair<int64_t, int64_t>{1, INT64_MAX}, {65, 4096}, {2, 64}}) {
        MatmulProblem problem;
        problem.n = n;
        problem.k = k;
        auto plan = planMatmul(problem, low, high, kWidths, true);
        ASSERT_FALSE(plan.empty());
        EXPECT_EQ(plan[0].firstRowTiles, 1);
        std::set<unsigned> widths;
        for (size_t i = 0; i < plan.size(); ++i) {
          const MatmulSchedule &s = plan[i].schedule;
          widths.insert(s.columns);
          if (i)
            EXPECT_GT(plan[i].firstRowTiles, plan[i - 1].firstRowTiles);
          EXPECT_LE(s.splits, (k + 63) / 64);
          if (s.splits > 1)
            EXPECT_LE(items(plan[i].firstRowTiles * 128, n, s),
                      kCardMultiprocessors);
        }
        EXPECT_LE(widths.size(), 3u);
      }
}

// The last entry serves every larger launch: it must not split.
TEST(MatmulPlan, UnboundedRowsDoNotSplit) {
  MatmulProblem problem;
  problem.n = 64;
  problem.k = 65536;
  auto plan = planMatmul(problem, 1, INT64_MAX, kWidths, true);
  EXPECT_EQ(plan.back().schedule.splits, 1u);
}

// A bucket of prefill is as good at each length as a kernel for that length,
// but for what clusters gain.
TEST(MatmulPlan, RangesLoseLittle) {
  MatmulProblem problem;
  problem.n = problem.k = 4096;
  auto plan = planMatmul(problem, 65, 4096, kWidths, true);
  for (int64_t tiles = 8; tiles <= 32; ++tiles) {
    const MatmulPlanEntry *entry = nullptr;
    for (const MatmulPlanEntry &e : plan)
      if (e.firstRowTiles <= tiles)
        entry = &e;
    MatmulSchedule alone = scheduleFor(tiles * 128, 4096, 4096);
    EXPECT_LE(matmulTime(problem, tiles, entry->schedule),
              1.02 * matmulTime(problem, tiles, alone))
        << tiles;
  }
}

TEST(MatmulPlan, StagesFitSharedMemory) {
  for (unsigned columns : kWidths) {
    for (unsigned cluster : {1u, 2u, 4u}) {
      if (cluster > 1 && columns > 192)
        continue;
      MatmulTile tile{columns, cluster};
      EXPECT_GE(tile.stages(), cluster == 4 ? 3u : 4u);
      EXPECT_EQ(tile.stageBytes() % kTileAlignment, 0u);
      EXPECT_EQ(tile.stagingBytes() % kTileAlignment, 0u);
      EXPECT_LE(tile.stages() * tile.stageBytes() +
                    kMatmulConsumers * tile.stagingBytes() + 1024,
                232448u);
    }
  }
}
