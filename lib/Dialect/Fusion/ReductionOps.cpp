//===- ReductionOps.cpp - Inference of reductions -------------------------===//

#include "AxisRules.h"

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fusion;

LogicalResult ArgMaxOp::inferReturnTypes(MLIRContext *context,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  SymShape shape = getSymShape(adaptor.getInput());
  int64_t axis = adaptor.getAxis();
  if (failed(checkAxis(loc, axis, shape.size())))
    return failure();
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
  return inferSameShapeAlongAxis(loc, adaptor.getInput(), adaptor.getAxis(),
                                 types);
}

LogicalResult CumSumOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  return inferSameShapeAlongAxis(loc, adaptor.getInput(), adaptor.getAxis(),
                                 types);
}
