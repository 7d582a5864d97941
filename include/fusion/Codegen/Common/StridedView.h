//===- StridedView.h - Views of arguments as strides ------------*- C++ -*-===//
//
// Transposes, reshapes, slices and broadcasts of an argument whose elements
// still lie at `offset + sum(index * stride)` of the argument's memory.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_CODEGEN_COMMON_STRIDEDVIEW_H
#define FUSION_CODEGEN_COMMON_STRIDEDVIEW_H

#include "fusion/Dialect/Fusion/FusionOps.h"

namespace fusion::codegen {

struct StridedView {
  mlir::BlockArgument argument;
  SymExpr offset;   ///< in elements
  SymShape strides; ///< one an axis of the viewed value; 0 for a broadcast
};

/// The value as a strided view of a block argument; nullopt when it is none.
std::optional<StridedView> getStridedView(mlir::Value value);

/// Axes that a reshape maps onto each other: input axes [inBegin, inEnd) hold
/// the same elements as output axes [outBegin, outEnd).
struct ReshapeSegment {
  unsigned inBegin, inEnd, outBegin, outEnd;
};
/// The finest such segments that can be proven.
llvm::SmallVector<ReshapeSegment> getReshapeSegments(const SymShape &in,
                                                     const SymShape &out);

} // namespace fusion::codegen

#endif // FUSION_CODEGEN_COMMON_STRIDEDVIEW_H
