//===- Integer.cpp - Products of quantised activations --------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;

/// x - zero point in i32, where the zero point is a scalar, or has one element
/// for each row (of the left operand) or column (of the right one).
static FailureOr<Value> centred(NodeImport &n, size_t input, size_t zero,
                                bool byRow) {
  Type i32 = n.builder.getI32Type();
  Value x = n.cast(n.input(input), i32);
  if (!n.hasInput(zero))
    return x;
  Value z = n.cast(n.input(zero), i32);
  if (numElements(z.getType()) == SymExpr(1))
    z = n.reshape(z, {});
  else if (byRow && getSymShape(z).size() == 1)
    z = n.reshape(z, {getSymShape(z)[0], SymExpr(1)});
  if (failed(n.checkBroadcast({x, z})))
    return failure();
  return Value(SubOp::create(n.builder, n.loc, x, z));
}

static LogicalResult matmulInteger(NodeImport &n) {
  auto a = centred(n, 0, 2, true);
  auto b = failed(a) ? a : centred(n, 1, 3, false);
  if (failed(b))
    return failure();
  SymShape left = getSymShape(*a), right = getSymShape(*b);
  if (left.size() < 2 || right.size() < 2)
    return n.fail("expected operands of rank 2 or more");
  if (failed(n.equate(left.back(), right[right.size() - 2],
                      "the contracted axes")))
    return failure();
  SymShape batches[] = {SymShape(left.begin(), left.end() - 2),
                        SymShape(right.begin(), right.end() - 2)};
  if (failed(n.broadcast(batches)))
    return failure();
  n.output(0, MatmulOp::create(n.builder, n.loc, *a, *b));
  return success();
}

/// scale = (max(x, 0) - min(x, 0)) / 255, zero point = round(-min / scale), and
/// the quantised x, as ONNX defines it for uint8.
static LogicalResult dynamicQuantizeLinear(NodeImport &n) {
  OpBuilder &b = n.builder;
  Type f32 = b.getF32Type();
  Type ui8 = IntegerType::get(b.getContext(), 8, IntegerType::Unsigned);
  Value x = n.input(0), zero = n.scalar(0, f32), top = n.scalar(255, f32);
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, n.rank(0)));
  auto extreme = [&](auto reduce, auto limit) -> Value {
    Value value = axes.empty() ? x : reduce();
    return limit(value);
  };
  Value high = extreme(
      [&]() -> Value { return ReduceMaxOp::create(b, n.loc, x, axes, false); },
      [&](Value v) -> Value { return MaxOp::create(b, n.loc, v, zero); });
  Value low = extreme(
      [&]() -> Value { return ReduceMinOp::create(b, n.loc, x, axes, false); },
      [&](Value v) -> Value { return MinOp::create(b, n.loc, v, zero); });
  Value range = SubOp::create(b, n.loc, high, low);
  Value scale = DivOp::create(b, n.loc, range, top);
  Value ratio =
      DivOp::create(b, n.loc, SubOp::create(b, n.loc, zero, low), scale);
  auto saturate = [&](Value v) -> Value {
    v = MaxOp::create(b, n.loc, v, zero);
    return MinOp::create(b, n.loc, v, top);
  };
  Value point = RoundOp::create(b, n.loc, saturate(ratio));
  Value rounded = RoundOp::create(b, n.loc, DivOp::create(b, n.loc, x, scale));
  Value shifted = AddOp::create(b, n.loc, rounded, point);
  n.output(0, n.cast(saturate(shifted), ui8));
  n.output(1, scale);
  n.output(2, n.cast(point, ui8));
  return success();
}

void fusion::addIntegerHandlers(HandlerMap &map) {
  map["::MatMulInteger"] = matmulInteger;
  map["::DynamicQuantizeLinear"] = dynamicQuantizeLinear;
}
