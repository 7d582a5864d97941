//===- AxisRules.h - Ops that work along one axis ---------------*- C++ -*-===//

#ifndef FUSION_LIB_DIALECT_FUSION_AXISRULES_H
#define FUSION_LIB_DIALECT_FUSION_AXISRULES_H

#include "fusion/Dialect/Fusion/ShapeUtils.h"

namespace fusion {

/// Fails with a message unless 0 <= axis < rank.
inline llvm::LogicalResult checkAxis(std::optional<mlir::Location> loc,
                                     int64_t axis, int64_t rank) {
  if (axis >= 0 && axis < rank)
    return mlir::success();
  return mlir::emitOptionalError(loc, "axis ", axis,
                                 " is out of range for rank ", rank);
}

/// The input's type, for ops that work along one axis of it.
inline llvm::LogicalResult
inferSameShapeAlongAxis(std::optional<mlir::Location> loc, mlir::Value input,
                        int64_t axis,
                        llvm::SmallVectorImpl<mlir::Type> &types) {
  if (failed(checkAxis(loc, axis, getSymShape(input).size())))
    return mlir::failure();
  types.push_back(logicalType(input.getType()));
  return mlir::success();
}

} // namespace fusion

#endif // FUSION_LIB_DIALECT_FUSION_AXISRULES_H
