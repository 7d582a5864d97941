//===- WgmmaLayout.cpp - Tiles, descriptors and fragments of wgmma --------===//

#include "fusion/Kernels/WgmmaLayout.h"

using namespace fusion;
using namespace fusion::kernels;

/// Bytes of 64 rows of k, 64 elements of m or n wide.
static constexpr unsigned kChunkBytes = 64 * kTileRowBytes;

unsigned kernels::tileBytes(unsigned extent, Major major) {
  if (major == Major::K)
    return extent * kTileRowBytes;
  return (extent + 63) / 64 * kChunkBytes;
}

unsigned kernels::swizzle128(unsigned row, unsigned byte) {
  return row * kTileRowBytes + (byte ^ ((row & 7) << 4));
}

unsigned kernels::tileOffset(unsigned index, unsigned k, Major major) {
  if (major == Major::K)
    return swizzle128(index, 2 * k);
  return index / 64 * kChunkBytes + swizzle128(k, index % 64 * 2);
}

// Bits 16-29: leading offset, 32-45: stride offset, both over 16; 62-63: 1 is
// the 128-byte swizzle. The stride is between groups of 8 rows (along m or n
// when K-major, along k when MN-major), the leading offset between tiles of 64
// elements along m or n (unused when K-major).
uint64_t kernels::descriptorBits(Major major) {
  uint64_t leading = major == Major::K ? 1 : kChunkBytes / 16;
  uint64_t stride = 8 * kTileRowBytes / 16;
  return uint64_t(1) << 62 | stride << 32 | leading << 16;
}

unsigned kernels::descriptorDepthStep(Major major) {
  return (major == Major::K ? 2 * kWgmmaDepth : kWgmmaDepth * kTileRowBytes) /
         16;
}

unsigned kernels::descriptorExtentStep(unsigned extent, Major major) {
  return tileBytes(extent, major) / 16;
}

FragmentElement kernels::accumulatorElement(unsigned thread, unsigned i) {
  unsigned warp = thread / 32, lane = thread % 32;
  return {16 * warp + lane / 4 + 8 * (i / 2 % 2),
          8 * (i / 4) + 2 * (lane % 4) + i % 2};
}

unsigned kernels::fragmentAddress(unsigned thread, unsigned block) {
  unsigned warp = thread / 32, lane = thread % 32;
  unsigned row = 16 * warp + lane % 16;
  return swizzle128(row, 16 * (block + lane / 16));
}
