//===- ReductionOps.cpp - Inference of reductions -------------------------===//

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fusion;

static LogicalResult axisError(std::optional<Location> loc, int64_t axis,
                               int64_t rank) {
  return emitOptionalError(loc, "axis ", axis, " is out of range for rank ",
                           rank);
}

LogicalResult ArgMaxOp::inferReturnTypes(MLIRContext *context,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  SymShape shape = getSymShape(adaptor.getInput());
  int64_t axis = adaptor.getAxis(), rank = shape.size();
  if (axis < 0 || axis >= rank)
    return axisError(loc, axis, rank);
  if (adaptor.getKeepdims())
    shape[axis] = 1;
  else
    shape.erase(shape.begin() + axis);
  types.push_back(getTensorType(shape, IntegerType::get(context, 64)));
  return success();
}

LogicalResult SoftmaxOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> loc,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  int64_t axis = adaptor.getAxis();
  int64_t rank = getSymShape(adaptor.getInput()).size();
  if (axis < 0 || axis >= rank)
    return axisError(loc, axis, rank);
  types.push_back(logicalType(adaptor.getInput().getType()));
  return success();
}

LogicalResult CumSumOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  int64_t axis = adaptor.getAxis();
  int64_t rank = getSymShape(adaptor.getInput()).size();
  if (axis < 0 || axis >= rank)
    return axisError(loc, axis, rank);
  types.push_back(logicalType(adaptor.getInput().getType()));
  return success();
}
