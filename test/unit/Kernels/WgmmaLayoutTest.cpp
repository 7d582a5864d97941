//===- WgmmaLayoutTest.cpp - Tiles, descriptors and fragments -------------===//

#include "fusion/Kernels/WgmmaLayout.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

using namespace fusion;
using namespace fusion::kernels;

namespace {

/// What the hardware does with a descriptor: the byte address of element
/// (mn, k) of one wgmma's operand, by the canonical layouts of the PTX manual
/// for the 128-byte swizzle. Offsets of the descriptor are in 16 bytes.
///   K-major:  ((8, n), (8 elements, 2)) : rows 128 bytes apart, 8 rows SBO
///   MN-major: ((64, n), (8, 2)) : 64 elements a row, rows (k) 128 bytes apart,
///             8 rows SBO, 64 elements LBO
/// The swizzle xors address bits 4-6 with bits 7-9.
unsigned hardwareAddress(uint64_t descriptor, Major major, unsigned mn,
                         unsigned k) {
  unsigned start = (descriptor & 0x3FFF) * 16;
  unsigned leading = (descriptor >> 16 & 0x3FFF) * 16;
  unsigned stride = (descriptor >> 32 & 0x3FFF) * 16;
  unsigned linear = start;
  if (major == Major::K)
    linear += mn / 8 * stride + mn % 8 * 128 + k * 2;
  else
    linear += mn / 64 * leading + mn % 64 * 2 + k / 8 * stride + k % 8 * 128;
  return linear ^ (linear >> 7 & 7) << 4;
}

} // namespace

TEST(WgmmaLayout, DescriptorsFindEveryElement) {
  for (Major major : {Major::K, Major::MN}) {
    unsigned base = 3 * 1024;
    uint64_t first = descriptorBits(major) | base / 16;
    EXPECT_EQ(first >> 62, 1u);
    for (unsigned extent : {0u, 64u, 128u})
      for (unsigned step = 0; step < kTileDepth / kWgmmaDepth; ++step) {
        uint64_t descriptor = first + step * descriptorDepthStep(major) +
                              descriptorExtentStep(extent, major);
        for (unsigned mn = 0; mn < 256; ++mn)
          for (unsigned k = 0; k < kWgmmaDepth; ++k)
            ASSERT_EQ(
                hardwareAddress(descriptor, major, mn, k),
                base + tileOffset(extent + mn, step * kWgmmaDepth + k, major))
                << mn << ' ' << k << ' ' << int(major);
      }
  }
}

TEST(WgmmaLayout, TilesAreFilledOnce) {
  for (Major major : {Major::K, Major::MN})
    for (unsigned extent : {64u, 128u, 192u, 256u}) {
      std::set<unsigned> seen;
      for (unsigned mn = 0; mn < extent; ++mn)
        for (unsigned k = 0; k < kTileDepth; ++k) {
          unsigned offset = tileOffset(mn, k, major);
          EXPECT_LT(offset, tileBytes(extent, major));
          seen.insert(offset);
        }
      EXPECT_EQ(seen.size(), size_t(extent) * kTileDepth);
    }
  EXPECT_EQ(tileBytes(96, Major::K), 96u * 128u);
  EXPECT_EQ(tileBytes(96, Major::MN), 2u * 8192u);
}

TEST(WgmmaLayout, AccumulatorHasEveryElementOnce) {
  std::set<std::pair<unsigned, unsigned>> seen;
  for (unsigned thread = 0; thread < 128; ++thread)
    for (unsigned i = 0; i < 128; ++i) {
      FragmentElement e = accumulatorElement(thread, i);
      EXPECT_LT(e.row, 64u);
      EXPECT_LT(e.column, 256u);
      seen.insert({e.row, e.column});
    }
  EXPECT_EQ(seen.size(), 64u * 256u);
}

// stmatrix x4: lane l gives the address of row l % 8 of matrix l / 8, and holds
// elements (row l / 4, columns 2 (l % 4) + {0, 1}) of each of the matrices.
TEST(WgmmaLayout, FragmentsLandInSwizzledRows) {
  for (unsigned block = 0; block < 8; block += 2)
    for (unsigned warp = 0; warp < 4; ++warp)
      for (unsigned matrix = 0; matrix < 4; ++matrix)
        for (unsigned lane = 0; lane < 32; ++lane)
          for (unsigned half = 0; half < 2; ++half) {
            unsigned giver = 32 * warp + 8 * matrix + lane / 4;
            unsigned at =
                fragmentAddress(giver, block) + 4 * (lane % 4) + 2 * half;
            FragmentElement e = accumulatorElement(
                32 * warp + lane, 4 * block + 2 * matrix + half);
            ASSERT_EQ(at, swizzle128(e.row, 2 * e.column))
                << block << ' ' << warp << ' ' << matrix << ' ' << lane;
          }
}
