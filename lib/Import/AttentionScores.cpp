//===- AttentionScores.cpp - Scores as an output of Attention -------------===//
//
// Few models look at the scores; those that do get them spelled out, beside the
// attention itself.
//
//===----------------------------------------------------------------------===//

#include "AttentionUtils.h"

#include <cmath>

using namespace mlir;
using namespace fusion;

/// q k^T (or q k) with grouped heads: [batch, heads, rows, keys].
static Value product(NodeImport &n, Value q, Value k, bool transposed) {
  SymShape a = getSymShape(q), b = getSymShape(k);
  if (a[1] == b[1])
    return MatmulOp::create(n.builder, n.loc, q, k, false, transposed);
  SymExpr group = *SymExpr::floorDiv(a[1], b[1]);
  Value split = n.reshape(q, {a[0], b[1], group, a[2], a[3]});
  Value wide = n.reshape(k, {b[0], b[1], SymExpr(1), b[2], b[3]});
  Value result =
      MatmulOp::create(n.builder, n.loc, split, wide, false, transposed);
  return n.reshape(result, {a[0], a[1], a[2], b[transposed ? 2 : 3]});
}

/// 0, 1, 2, ... along one axis of a tensor of rank 4.
static Value line(NodeImport &n, const SymExpr &start, const SymExpr &count,
                  size_t axis) {
  MLIRContext *context = n.builder.getContext();
  Value values = IotaOp::create(
      n.builder, n.loc, getTensorType({count}, n.builder.getI64Type()),
      getExprAttr(context, start), getExprAttr(context, 1));
  SymShape shape(4, SymExpr(1));
  shape[axis] = count;
  return n.reshape(values, shape);
}

static Value hide(NodeImport &n, Value x, Value visible, double hidden) {
  return WhereOp::create(n.builder, n.loc, visible, x,
                         n.scalar(hidden, elementType(x)));
}

static Value masked(NodeImport &n, Value x, const AttentionParts &parts,
                    const SymExpr &rows, const SymExpr &keys, double hidden) {
  if (parts.bias && elementType(parts.bias).isInteger(1))
    x = hide(n, x, parts.bias, hidden);
  else if (parts.bias)
    x = AddOp::create(n.builder, n.loc, x, parts.bias);
  Value key = line(n, 0, keys, 3);
  // Where query rows stand among the keys, moved by a distance.
  auto place = [&](int64_t by) -> Value {
    if (!parts.offsets)
      return line(n, parts.causalOffset + SymExpr(by), rows, 2);
    Value offset = n.cast(parts.offsets, n.builder.getI64Type());
    offset = n.reshape(
        offset, {getSymShape(offset)[0], SymExpr(1), SymExpr(1), SymExpr(1)});
    return AddOp::create(n.builder, n.loc, line(n, by, rows, 2), offset);
  };
  auto seen = [&](Value condition) { x = hide(n, x, condition, hidden); };
  if (parts.causal)
    seen(LessEqualOp::create(n.builder, n.loc, key, place(0)));
  if (parts.windowLeft >= 0)
    seen(GreaterEqualOp::create(n.builder, n.loc, key,
                                place(-parts.windowLeft)));
  if (parts.windowRight >= 0)
    seen(LessEqualOp::create(n.builder, n.loc, key, place(parts.windowRight)));
  if (parts.validLengths) {
    SymExpr batch = getSymShape(parts.validLengths)[0];
    Value length = n.cast(parts.validLengths, n.builder.getI64Type());
    length = n.reshape(length, {batch, SymExpr(1), SymExpr(1), SymExpr(1)});
    seen(LessOp::create(n.builder, n.loc, key, length));
  }
  return x;
}

/// The sink is one more key, behind the others, which no row lacks.
static FailureOr<Value> softmaxWithSink(NodeImport &n, Value x, Value sink) {
  SymShape shape = getSymShape(x), heads = getSymShape(sink);
  if (failed(n.equate(numElements(heads), shape[1], "sinks and heads")))
    return failure();
  SymExpr keys = shape[3];
  Value last = n.reshape(n.cast(sink, elementType(x)), {1, shape[1], 1, 1});
  shape[3] = 1;
  last = n.expand(last, shape);
  Value all = ConcatOp::create(n.builder, n.loc, ValueRange{x, last}, 3);
  Value y = SoftmaxOp::create(n.builder, n.loc, all, 3, /*log=*/false);
  return n.slice(y, 3, 0, keys);
}

/// Softmax in which a row without any visible key is zero, not NaN.
static Value guardedSoftmax(NodeImport &n, Value x) {
  Value y = SoftmaxOp::create(n.builder, n.loc, x, 3, /*log=*/false);
  Value empty = IsNanOp::create(n.builder, n.loc, y);
  return WhereOp::create(n.builder, n.loc, empty, n.scalar(0, elementType(y)),
                         y);
}

FailureOr<Value> fusion::scores(NodeImport &n, Value q, Value k,
                                const AttentionParts &parts, int64_t mode,
                                double hidden) {
  if (mode < 0 || mode > 3)
    return n.fail("unknown qk_matmul_output_mode " + Twine(mode));
  Type element = elementType(q);
  auto size = getSymShape(q)[3].asConstant();
  double scale = parts.scale
                     ? parts.scale
                     : 1.0 / std::sqrt(static_cast<double>(size.value_or(1)));
  Value x =
      MulOp::create(n.builder, n.loc, product(n, q, k, /*transposed=*/true),
                    n.scalar(scale, element));
  if (mode >= 1 && parts.softcap > 0) {
    Value cap = n.scalar(parts.softcap, element);
    Value ratio = DivOp::create(n.builder, n.loc, x, cap);
    Value bent = TanhOp::create(n.builder, n.loc, ratio);
    x = MulOp::create(n.builder, n.loc, bent, cap);
  }
  if (mode >= 2)
    x = masked(n, x, parts, getSymShape(q)[2], getSymShape(k)[2], hidden);
  if (mode == 3 && parts.sink)
    return softmaxWithSink(n, x, parts.sink);
  return mode == 3 ? guardedSoftmax(n, x) : x;
}

FailureOr<Value> fusion::spelledAttention(NodeImport &n, Value q, Value k,
                                          Value v,
                                          const AttentionParts &parts) {
  auto probabilities = scores(n, q, k, parts, /*mode=*/3);
  if (failed(probabilities))
    return failure();
  return product(n, *probabilities, v, /*transposed=*/false);
}
