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

/// The product of two operands in i32.
static FailureOr<Value> product(NodeImport &n, Value a, Value b) {
  SymShape left = getSymShape(a), right = getSymShape(b);
  if (left.size() < 2 || right.size() < 2)
    return n.fail("expected operands of rank 2 or more");
  if (failed(n.equate(left.back(), right[right.size() - 2],
                      "the contracted axes")))
    return failure();
  SymShape batches[] = {SymShape(left.begin(), left.end() - 2),
                        SymShape(right.begin(), right.end() - 2)};
  if (failed(n.broadcast(batches)))
    return failure();
  return Value(MatmulOp::create(n.builder, n.loc, a, b));
}

FailureOr<Value> fusion::integerProduct(NodeImport &n, size_t a, size_t b,
                                        size_t zeroA, size_t zeroB) {
  auto left = centred(n, a, zeroA, true);
  auto right = failed(left) ? left : centred(n, b, zeroB, false);
  return failed(right) ? right : product(n, *left, *right);
}

static LogicalResult matmulInteger(NodeImport &n) {
  auto result = integerProduct(n, 0, 1, 2, 3);
  if (failed(result))
    return failure();
  n.output(0, *result);
  return success();
}

/// A scale as a scalar where it has one element.
static Value flatScale(NodeImport &n, size_t i) {
  bool isOne = numElements(n.shape(i)) == SymExpr(1);
  return isOne ? n.reshape(n.input(i), {}) : n.input(i);
}

/// x in f32 times a * b.
static FailureOr<Value> times(NodeImport &n, Value x, Value a, Value b) {
  if (failed(n.checkBroadcast({x, a, b})))
    return failure();
  Value scale = MulOp::create(n.builder, n.loc, a, b);
  x = n.cast(x, elementType(scale));
  return Value(MulOp::create(n.builder, n.loc, x, scale));
}

FailureOr<Value> fusion::rescaled(NodeImport &n, Value x, size_t scaleA,
                                  size_t scaleB) {
  return times(n, x, flatScale(n, scaleA), flatScale(n, scaleB));
}

/// The result of a node, after its bias.
static LogicalResult outputWithBias(NodeImport &n, Value x, size_t bias) {
  auto result = n.plusInput(x, bias);
  if (failed(result))
    return failure();
  n.output(0, *result);
  return success();
}

static LogicalResult matmulIntegerToFloat(NodeImport &n) {
  auto result = integerProduct(n, 0, 1, 4, 5);
  auto scaled = failed(result) ? result : rescaled(n, *result, 2, 3);
  return failed(scaled) ? failure() : outputWithBias(n, *scaled, 6);
}

namespace {
struct Quantized {
  Value values, scale, zeroPoint;
};
} // namespace

/// scale = (max(x, 0) - min(x, 0)) / 255, zero point = round(-min / scale), and
/// the quantised x, as ONNX defines it for uint8.
static Quantized quantize(NodeImport &n, Value x) {
  OpBuilder &b = n.builder;
  Type f32 = b.getF32Type();
  Type ui8 = IntegerType::get(b.getContext(), 8, IntegerType::Unsigned);
  Value zero = n.scalar(0, f32), top = n.scalar(255, f32);
  SmallVector<int64_t> axes =
      llvm::to_vector(llvm::seq<int64_t>(0, getSymShape(x).size()));
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
  return {n.cast(saturate(shifted), ui8), scale, n.cast(point, ui8)};
}

static LogicalResult dynamicQuantizeLinear(NodeImport &n) {
  Quantized q = quantize(n, n.input(0));
  n.output(0, q.values);
  n.output(1, q.scale);
  n.output(2, q.zeroPoint);
  return success();
}

/// A product whose left operand is quantised where it is read.
static LogicalResult dynamicQuantizeMatmul(NodeImport &n) {
  Type i32 = n.builder.getI32Type();
  Quantized a = quantize(n, n.input(0));
  Value left = SubOp::create(n.builder, n.loc, n.cast(a.values, i32),
                             n.cast(a.zeroPoint, i32));
  auto right = centred(n, 1, 3, false);
  auto result = failed(right) ? right : product(n, left, *right);
  auto scaled =
      failed(result) ? result : times(n, *result, a.scale, flatScale(n, 2));
  return failed(scaled) ? failure() : outputWithBias(n, *scaled, 4);
}

void fusion::addIntegerHandlers(HandlerMap &map) {
  map["::MatMulInteger"] = matmulInteger;
  map["::DynamicQuantizeLinear"] = dynamicQuantizeLinear;
  map["com.microsoft::MatMulInteger16"] = matmulInteger;
  map["com.microsoft::MatMulIntegerToFloat"] = matmulIntegerToFloat;
  map["com.microsoft::DynamicQuantizeMatMul"] = dynamicQuantizeMatmul;
}
