//===- ElementwiseOps.cpp - Inference and folds of elementwise ops --------===//

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// Inference
//===----------------------------------------------------------------------===//

static LogicalResult inferBool(MLIRContext *context, Value input,
                               SmallVectorImpl<Type> &types) {
  types.push_back(
      withElementType(input.getType(), IntegerType::get(context, 1)));
  return success();
}

LogicalResult IsNanOp::inferReturnTypes(MLIRContext *context,
                                        std::optional<Location>,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  return inferBool(context, adaptor.getInput(), types);
}

LogicalResult IsInfOp::inferReturnTypes(MLIRContext *context,
                                        std::optional<Location>,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  return inferBool(context, adaptor.getInput(), types);
}

LogicalResult WhereOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  return inferBroadcast(loc, adaptor.getOperands(),
                        elementType(adaptor.getOnTrue()), types);
}

LogicalResult CastOp::verify() {
  if (!compatibleShapes(getSymShape(getInput()), getSymShape(getResult())))
    return emitOpError("expected the shape of the input, found ")
           << getResult().getType();
  return success();
}

//===----------------------------------------------------------------------===//
// Folds
//===----------------------------------------------------------------------===//

/// True when `attr` is a splat of `value` (number) whose broadcast leaves the
/// result's type equal to that of `other`.
static bool isSplatOf(Attribute attr, double value) {
  auto dense = dyn_cast_or_null<DenseElementsAttr>(attr);
  if (!dense || !dense.isSplat())
    return false;
  if (isa<FloatType>(dense.getElementType()))
    return APFloat(dense.getSplatValue<APFloat>().convertToDouble())
        .bitwiseIsEqual(APFloat(value));
  if (dense.getElementType().isIntOrIndex() &&
      !dense.getElementType().isInteger(1))
    return dense.getSplatValue<APInt>() ==
           APInt(dense.getElementType().getIntOrFloatBitWidth(),
                 static_cast<uint64_t>(static_cast<int64_t>(value)), true,
                 true);
  return false;
}

/// `x op neutral -> x` where the types allow it. IEEE: x + 0 keeps the value
/// but for the sign of zero, which ONNX's Add gives as +0; only x - 0, x * 1
/// and x / 1 are exact for every x.
static Value dropNeutral(Value x, Attribute other, double neutral,
                         Type result) {
  return x.getType() == result && isSplatOf(other, neutral) ? x : Value();
}

OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  if (isa<FloatType>(elementType(getResult())))
    return dropNeutral(getLhs(), adaptor.getRhs(), -0.0, getType());
  if (Value v = dropNeutral(getLhs(), adaptor.getRhs(), 0, getType()))
    return v;
  return dropNeutral(getRhs(), adaptor.getLhs(), 0, getType());
}

OpFoldResult SubOp::fold(FoldAdaptor adaptor) {
  return dropNeutral(getLhs(), adaptor.getRhs(), 0, getType());
}

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  if (Value v = dropNeutral(getLhs(), adaptor.getRhs(), 1, getType()))
    return v;
  return dropNeutral(getRhs(), adaptor.getLhs(), 1, getType());
}

OpFoldResult DivOp::fold(FoldAdaptor adaptor) {
  return dropNeutral(getLhs(), adaptor.getRhs(), 1, getType());
}

OpFoldResult NegOp::fold(FoldAdaptor) {
  if (auto inner = getInput().getDefiningOp<NegOp>())
    return inner.getInput();
  return {};
}

/// True when every value of type `from` is a value of type `to`.
static bool isWidening(Type from, Type to) {
  if (isa<FloatType>(from) && isa<FloatType>(to)) {
    auto f = cast<FloatType>(from), t = cast<FloatType>(to);
    return (f.isBF16() || f.isF16()) ? t.isF32() || t.isF64()
                                     : f.isF32() && t.isF64();
  }
  auto f = dyn_cast<IntegerType>(from), t = dyn_cast<IntegerType>(to);
  return f && t && f.getSignedness() == t.getSignedness() && f.getWidth() > 1 &&
         f.getWidth() < t.getWidth();
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  // There and back through a wider type changes nothing.
  auto inner = getInput().getDefiningOp<CastOp>();
  if (inner && inner.getInput().getType() == getType() &&
      isWidening(elementType(getType()), elementType(getInput())))
    return inner.getInput();
  return {};
}
