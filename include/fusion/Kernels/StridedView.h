//===- StridedView.h - Views of arguments as strides ------------*- C++ -*-===//
//
// Transposes, reshapes, slices and broadcasts of an argument whose elements
// still lie at `offset + sum(index * stride)` of the argument's memory.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_KERNELS_STRIDEDVIEW_H
#define FUSION_KERNELS_STRIDEDVIEW_H

#include "fusion/Dialect/Fusion/FusionOps.h"

namespace fusion::kernels {

struct StridedView {
  mlir::BlockArgument argument;
  SymExpr offset;   ///< in elements
  SymShape strides; ///< one an axis of the viewed value; 0 for a broadcast
};

/// The value as a strided view of a block argument; nullopt when it is none.
std::optional<StridedView> getStridedView(mlir::Value value);

/// Where a yielded value's elements go, along the axes of `space`: the result
/// is a chain of transposes and reshapes of a value of that shape (its anchor).
struct StridedOutput {
  mlir::Value anchor;
  SymShape strides; ///< of the result's memory, one an axis of the anchor
};
/// Nullopt when the result is no such view.
std::optional<StridedOutput> getStridedOutput(mlir::Value output,
                                              const SymShape &space);

/// Strides of axes `out` when the axes (in, strides) hold the same elements
/// and are laid out as one row-major block; nullopt when they are not.
std::optional<SymShape> reshapeStrides(llvm::ArrayRef<SymExpr> in,
                                       llvm::ArrayRef<SymExpr> strides,
                                       llvm::ArrayRef<SymExpr> out);

/// Axes that a reshape maps onto each other: input axes [inBegin, inEnd) hold
/// the same elements as output axes [outBegin, outEnd).
struct ReshapeSegment {
  unsigned inBegin, inEnd, outBegin, outEnd;
};
/// The finest such segments that can be proven.
llvm::SmallVector<ReshapeSegment> getReshapeSegments(const SymShape &in,
                                                     const SymShape &out);

} // namespace fusion::kernels

#endif // FUSION_KERNELS_STRIDEDVIEW_H
