//===- CardLaunchTest.cpp - Blocks and vectors of card kernels ------------===//

#include "fusion/Kernels/CardLaunch.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::kernels;

TEST(CardLaunch, VectorsAreAtMost16Bytes) {
  EXPECT_EQ(vectorWidth(4096, 2), 8u);
  EXPECT_EQ(vectorWidth(4096, 4), 4u);
  EXPECT_EQ(vectorWidth(1000, 2), 8u);
  EXPECT_EQ(vectorWidth(12, 2), 4u);
  EXPECT_EQ(vectorWidth(33, 2), 1u);
  EXPECT_EQ(vectorWidth(SymExpr::symbol("d0"), 2), 1u);
  EXPECT_EQ(vectorWidth(SymExpr::symbol("d0") * SymExpr(64), 2), 8u);
}

// Every column of every width has exactly one place, in a block of whole
// warps of at most 1024 threads.
TEST(CardLaunch, LadderCoversEveryWidth) {
  for (int64_t width = 1; width <= 140000; width += width < 3000 ? 1 : 997)
    for (unsigned vector : {1u, 2u, 4u, 8u})
      for (int64_t rows : {int64_t(0), int64_t(1), int64_t(8192)}) {
        if (width % vector)
          continue;
        RowLadder l = rowLadder(width, rows, vector, 2);
        unsigned threads = l.threadsPerRow * l.rowsPerBlock;
        ASSERT_LE(threads, 1024u) << width;
        ASSERT_EQ(threads % 32, 0u) << width;
        if (l.threadsPerRow <= 32)
          ASSERT_EQ(32 % l.threadsPerRow, 0u) << width;
        else
          ASSERT_EQ(l.rowsPerBlock, 1u) << width;
        int64_t held = int64_t(l.chunks) * l.threadsPerRow * vector;
        if (l.chunks) {
          ASSERT_GE(held, width) << width;
          // No chunk lies wholly beyond the row.
          ASSERT_LT(held - int64_t(l.threadsPerRow) * vector, width) << width;
          ASSERT_LE(l.chunks * vector, 64u) << width;
        }
      }
}

TEST(CardLaunch, KnownPoints) {
  // 8192 x 4096 bf16: two 16-byte vectors a thread, of one tensor or of two.
  RowLadder l = rowLadder(4096, 8192, 8, 1);
  EXPECT_EQ(l.threadsPerRow, 256u);
  EXPECT_EQ(l.chunks, 2u);
  l = rowLadder(4096, 8192, 8, 2);
  EXPECT_EQ(l.threadsPerRow, 512u);
  EXPECT_EQ(l.chunks, 1u);
  // One row of it: latency counts, one vector a thread.
  l = rowLadder(4096, 1, 8, 2);
  EXPECT_EQ(l.threadsPerRow, 512u);
  EXPECT_EQ(l.chunks, 1u);
  // Rows that registers cannot hold are read again.
  EXPECT_EQ(rowLadder(131072, 0, 4, 1).chunks, 0u);
  // Unknown width.
  EXPECT_EQ(rowLadder(0, 0, 1, 1).chunks, 0u);
}
