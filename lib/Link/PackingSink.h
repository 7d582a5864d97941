//===- PackingSink.h - Row-major elements to packed layouts -----*- C++ -*-===//

#ifndef FUSION_LIB_LINK_PACKINGSINK_H
#define FUSION_LIB_LINK_PACKINGSINK_H

#include "fusion/Artifact/Writer.h"
#include "fusion/Kernels/LowBit.h"

namespace fusion {

/// Takes the bytes of a row-major matrix in order and passes on those of its
/// packed form (Kernels/LowBit.h), a strip of 16 rows at a time.
class PackingSink final : public artifact::ByteSink {
public:
  PackingSink(kernels::PackedLayout layout, mlir::RankedTensorType type,
              artifact::ByteSink &next);
  Status write(const void *data, size_t bytes) override;
  /// Call after the last byte.
  Status finish();

private:
  Status packStrip();
  void packCodes();
  void packElements();
  unsigned code(size_t index) const;

  kernels::PackedLayout layout;
  mlir::Type element;
  artifact::ByteSink &next;
  int64_t rows, columns;   ///< of the matrix
  int64_t firstRow = 0;    ///< of the strip
  unsigned bits;           ///< of an element
  std::vector<char> strip; ///< row-major
  size_t filled = 0;       ///< bytes of it
  std::vector<char> packed;
  /// By row and column of a unit: number of the half, and slot.
  std::vector<std::pair<uint16_t, uint8_t>> places;
  std::vector<uint16_t> placed; ///< by slot and code
};

} // namespace fusion

#endif // FUSION_LIB_LINK_PACKINGSINK_H
