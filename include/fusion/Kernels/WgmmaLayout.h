//===- WgmmaLayout.h - Tiles, descriptors and fragments of wgmma -*- C++
//-*-===//
//
// Where the elements of a tile of 16-bit values lie in shared memory, the
// matrix descriptors that wgmma reads it by, and which thread of a warp group
// holds which element of an accumulator.
//
// A tile is made of rows of 128 bytes, 16-byte pieces swizzled by the row
// (TMA's 128-byte swizzle). Its base is a multiple of 1024 bytes.
//
//   K-major:  row = m (or n), 64 elements along k. Next 16 k: 32 bytes on.
//   MN-major: row = k, 64 elements along m (or n); the tile has 64 rows (k),
//             the next 64 of m (or n) are a tile of 8192 bytes further on.
//             Next 16 k: 16 rows, 2048 bytes on.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_KERNELS_WGMMALAYOUT_H
#define FUSION_KERNELS_WGMMALAYOUT_H

#include <cstdint>

namespace fusion::kernels {

/// The axis along which a tile's elements are contiguous.
enum class Major : uint8_t { K, MN };

/// Elements along k of one stage, and of one wgmma.
constexpr unsigned kTileDepth = 64, kWgmmaDepth = 16;
/// Bytes of a row of a tile, and of its swizzle's period.
constexpr unsigned kTileRowBytes = 128, kTileAlignment = 1024;
/// Rows of an accumulator of one warp group.
constexpr unsigned kWgmmaRows = 64;

/// Bytes of a tile of `extent` rows (m or n) and 64 k; `extent` is rounded up
/// to whole tiles of 64 when it is MN-major.
unsigned tileBytes(unsigned extent, Major major);
/// Where byte `byte` of row `row` lies.
unsigned swizzle128(unsigned row, unsigned byte);
/// Where element (index along m or n, k) lies, in bytes.
unsigned tileOffset(unsigned index, unsigned k, Major major);

/// The constant bits of a descriptor; the low 14 are the address over 16.
uint64_t descriptorBits(Major major);
/// What to add to a descriptor for the next 16 k, and for `extent` further
/// rows of m or n (a multiple of 8, of 64 when MN-major).
unsigned descriptorDepthStep(Major major);
unsigned descriptorExtentStep(unsigned extent, Major major);

/// The element of a 64 x N accumulator in register `i` of `thread` (0..127).
struct FragmentElement {
  unsigned row, column;
};
FragmentElement accumulatorElement(unsigned thread, unsigned i);

/// Byte address, in a tile of 64 rows of 128 bytes, that `thread` gives to the
/// stmatrix (or ldmatrix) x4 that moves columns [8 block, 8 block + 16) of an
/// accumulator as 16-bit values: registers 4 block + {0,1}, {2,3}, {4,5}, {6,7}
/// as pairs. `block` is even and below 8.
unsigned fragmentAddress(unsigned thread, unsigned block);

} // namespace fusion::kernels

#endif // FUSION_KERNELS_WGMMALAYOUT_H
