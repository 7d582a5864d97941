//===- ArenaTest.cpp - Placing buffers by their live ranges ---------------===//

#include "fusion/Artifact/Model.h"

#include <gtest/gtest.h>
#include <random>

using namespace fusion::artifact;

namespace {

struct Case {
  std::vector<ArenaBuffer> buffers;
  std::vector<uint64_t> bytes;
  void add(uint64_t size, uint32_t first, uint32_t last) {
    ArenaBuffer b;
    b.firstUse = first;
    b.lastUse = last;
    buffers.push_back(b);
    bytes.push_back(size);
  }
};

/// Sums what lives at each launch: the definition of the bound.
uint64_t boundByCounting(const Case &c) {
  uint64_t most = 0;
  for (uint32_t launch = 0; launch < 2000; ++launch) {
    uint64_t alive = 0;
    for (size_t i = 0; i < c.buffers.size(); ++i)
      if (c.buffers[i].firstUse <= launch && launch <= c.buffers[i].lastUse)
        alive += (c.bytes[i] + 63) / 64 * 64;
    most = std::max(most, alive);
  }
  return most;
}

uint64_t checkedPlan(const Case &c) {
  std::vector<uint64_t> offsets;
  uint64_t size = planArena(c.buffers, c.bytes, offsets);
  EXPECT_EQ(c.buffers.size(), offsets.size());
  for (size_t i = 0; i < offsets.size(); ++i) {
    EXPECT_EQ(0u, offsets[i] % 64);
    EXPECT_LE(offsets[i] + c.bytes[i], size);
    for (size_t j = 0; j < i; ++j) {
      bool together = c.buffers[i].firstUse <= c.buffers[j].lastUse &&
                      c.buffers[j].firstUse <= c.buffers[i].lastUse;
      bool apart = offsets[i] + c.bytes[i] <= offsets[j] ||
                   offsets[j] + c.bytes[j] <= offsets[i];
      EXPECT_TRUE(!together || apart) << i << " and " << j;
    }
  }
  EXPECT_EQ(boundByCounting(c), arenaLowerBound(c.buffers, c.bytes));
  return size;
}

TEST(Arena, Empty) { EXPECT_EQ(0u, checkedPlan({})); }

TEST(Arena, BuffersThatNeverMeetShareTheirPlace) {
  Case c;
  c.add(100, 0, 1);
  c.add(100, 2, 3);
  EXPECT_EQ(128u, checkedPlan(c));
  c.add(1, 1, 2);
  EXPECT_EQ(192u, checkedPlan(c));
}

TEST(Arena, EmptyBuffersTakeNothing) {
  Case c;
  c.add(0, 0, 5);
  c.add(64, 0, 5);
  EXPECT_EQ(64u, checkedPlan(c));
}

/// The buffers of a decoder layer, over and over: the residual stream, norms,
/// projections, attention, the wide gate and up products.
TEST(Arena, TransformerIsWithinATenthOfTheBound) {
  for (uint64_t rows : {1, 8, 128, 1000}) {
    Case c;
    for (uint32_t layer = 0; layer < 30; ++layer) {
      uint32_t t = layer * 9;
      c.add(rows * 576 * 4, t, t + 4);
      c.add(rows * 576 * 4, t, t + 1);
      c.add(rows * 960 * 4, t + 1, t + 2);
      c.add(rows * 576 * 4, t + 2, t + 3);
      c.add(rows * 9 * 2052, t + 2, t + 2);
      c.add(rows * 576 * 4, t + 4, t + 9);
      c.add(rows * 1536 * 4, t + 5, t + 7);
      c.add(rows * 1536 * 4, t + 6, t + 7);
      c.add(rows * 1536 * 4, t + 7, t + 8);
    }
    EXPECT_LE(checkedPlan(c), boundByCounting(c) * 11 / 10) << rows;
  }
}

TEST(Arena, RandomLivesAreValidAndNearTheBound) {
  std::mt19937 random(7);
  double worst = 1, sum = 0;
  for (int round = 0; round < 200; ++round) {
    Case c;
    for (int i = 0; i < 40; ++i) {
      uint32_t first = random() % 60;
      c.add(random() % 5000, first, first + random() % 12);
    }
    double ratio = double(checkedPlan(c)) / double(boundByCounting(c));
    worst = std::max(worst, ratio);
    sum += ratio;
  }
  EXPECT_LE(sum / 200, 1.1);
  EXPECT_LE(worst, 1.35);
}

} // namespace
