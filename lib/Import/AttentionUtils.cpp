//===- AttentionUtils.cpp - Parts that attention operators share ----------===//

#include "AttentionUtils.h"

#include <cmath>

using namespace mlir;
using namespace fusion;

FailureOr<Value> fusion::splitHeads(NodeImport &n, Value value, int64_t heads) {
  SymShape shape = getSymShape(value);
  if (shape.size() != 3)
    return n.fail("expected a tensor of rank 3, found rank " +
                  Twine(shape.size()));
  auto hidden = shape[2].asConstant();
  if (!hidden || heads < 1 || *hidden % heads)
    return n.fail("cannot split " + shape[2].str() + " into " + Twine(heads) +
                  " heads");
  Value split = n.reshape(value, {shape[0], shape[1], heads, *hidden / heads});
  return n.transpose(split, {0, 2, 1, 3});
}

Value fusion::mergeHeads(NodeImport &n, Value value) {
  SymShape shape = getSymShape(value);
  Value rows = n.transpose(value, {0, 2, 1, 3});
  return n.reshape(rows, {shape[0], shape[2], shape[1] * shape[3]});
}

FailureOr<Value> fusion::append(NodeImport &n, Value past, Value update,
                                Value lengths, bool inBuffer) {
  if (!past)
    return update;
  SymShape a = getSymShape(past), b = getSymShape(update);
  if (a.size() != 4 || b.size() != 4)
    return n.fail("expected a cache of rank 4");
  for (size_t axis : {0, 1, 3})
    if (failed(n.equate(a[axis], b[axis],
                        "axis " + Twine(axis) + " of the cache")))
      return failure();
  return Value(KvAppendOp::create(
      n.builder, n.loc, past, update, lengths, n.builder.getI64IntegerAttr(2),
      inBuffer ? n.builder.getUnitAttr() : UnitAttr()));
}

LogicalResult fusion::appendCaches(NodeImport &n, size_t pastKey,
                                   size_t pastValue, Value &keys, Value &values,
                                   Value lengths, bool inBuffer) {
  auto k = append(n, n.input(pastKey), keys, lengths, inBuffer);
  auto v =
      failed(k) ? k : append(n, n.input(pastValue), values, lengths, inBuffer);
  if (failed(v))
    return failure();
  keys = *k;
  values = *v;
  n.output(1, keys);
  n.output(2, values);
  return success();
}

FailureOr<Value> fusion::attention(NodeImport &n, Value q, Value k, Value v,
                                   const AttentionParts &parts) {
  SymShape a = getSymShape(q), b = getSymShape(k), c = getSymShape(v);
  if (a.size() != 4 || b.size() != 4 || c.size() != 4)
    return n.fail("expected operands of rank 4");
  if (failed(n.equate(a[0], b[0], "batch of query and key")) ||
      failed(n.equate(b[0], c[0], "batch of key and value")) ||
      failed(n.equate(a[3], b[3], "head size of query and key")) ||
      failed(n.equate(b[1], c[1], "heads of key and value")) ||
      failed(n.equate(b[2], c[2], "length of key and value")))
    return failure();
  auto heads = a[1].asConstant(), kvHeads = b[1].asConstant();
  if (!heads || !kvHeads || *kvHeads < 1 || *heads % *kvHeads)
    return n.fail("expected a multiple of " + b[1].str() +
                  " query heads, found " + a[1].str());
  float scale = parts.scale;
  if (scale == 0) {
    auto size = a[3].asConstant();
    if (!size || *size < 1)
      return n.fail("expected a constant head size");
    scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(*size)));
  }
  if (parts.bias) {
    SymShape scores{a[0], a[1], a[2], b[2]};
    auto shape = n.broadcast({scores, getSymShape(parts.bias)});
    if (failed(shape))
      return failure();
    if (shape->size() != 4)
      return n.fail("the mask has more than 4 axes");
  }
  if (elementType(q).isF64())
    return spelledAttention(n, q, k, v, parts);
  if (parts.sink) {
    // The scores stay in fp32, as inside the one operator.
    Type element = elementType(q), f32 = n.builder.getF32Type();
    AttentionParts wide = parts;
    if (wide.bias && isa<FloatType>(elementType(wide.bias)))
      wide.bias = n.cast(wide.bias, f32);
    auto result = spelledAttention(n, n.cast(q, f32), n.cast(k, f32),
                                   n.cast(v, f32), wide);
    if (failed(result))
      return failure();
    return n.cast(*result, element);
  }
  Builder &builder = n.builder;
  RankedTensorType type =
      getTensorType({a[0], a[1], a[2], c[3]}, elementType(q));
  return Value(AttentionOp::create(
      n.builder, n.loc, type, q, k, v, parts.bias, /*key_mask=*/Value(),
      parts.validLengths, parts.offsets, builder.getF32FloatAttr(scale),
      builder.getF32FloatAttr(parts.softcap),
      parts.causal ? builder.getUnitAttr() : UnitAttr(),
      getExprAttr(builder.getContext(), parts.causalOffset),
      builder.getI64IntegerAttr(parts.windowLeft),
      builder.getI64IntegerAttr(parts.windowRight),
      builder.getStringAttr("zero")));
}

/// Keys from starts[batch] on, if any, and before ends[batch]: [batch, keys].
static Value keysBetween(NodeImport &n, Value starts, Value ends,
                         const SymExpr &batch, const SymExpr &keys) {
  MLIRContext *context = n.builder.getContext();
  Value places =
      IotaOp::create(n.builder, n.loc, getTensorType({keys}, elementType(ends)),
                     getExprAttr(context, 0), getExprAttr(context, 1));
  auto column = [&](Value x) { return n.reshape(x, {batch, SymExpr(1)}); };
  Value seen = LessOp::create(n.builder, n.loc, places, column(ends));
  if (!starts)
    return seen;
  Value begun =
      GreaterEqualOp::create(n.builder, n.loc, places, column(starts));
  return AndOp::create(n.builder, n.loc, seen, begun);
}

FailureOr<Value> fusion::readMask(NodeImport &n, size_t input,
                                  const SymExpr &batch, const SymExpr &rows,
                                  const SymExpr &keys) {
  Value mask = n.input(input);
  SymShape shape = n.shape(input), one{batch, SymExpr(1), SymExpr(1), keys};
  if (shape.size() == 1 && shape[0] == batch * SymExpr(2)) {
    Value ends = n.slice(mask, 0, 0, batch);
    Value starts = n.slice(mask, 0, batch, batch);
    return n.reshape(keysBetween(n, starts, ends, batch, keys), one);
  }
  if (shape.size() == 1 && shape[0] == batch * SymExpr(3) + SymExpr(2)) {
    mask = n.slice(mask, 0, 0, batch);
    shape[0] = batch;
  }
  SymShape expected{batch};
  if (shape.size() == 2)
    expected = {batch, keys};
  if (shape.size() == 3)
    expected = {batch, rows, keys};
  if (shape.size() != expected.size())
    return n.fail("only masks of shape [batch], [2 * batch], [3 * batch + 2], "
                  "[batch, keys] and [batch, rows, keys] are supported");
  for (auto [have, want] : llvm::zip(shape, expected))
    if (failed(n.equate(have, want, "the mask")))
      return failure();
  if (shape.size() == 1)
    return n.reshape(keysBetween(n, {}, mask, batch, keys), one);
  if (shape.size() == 3)
    one[2] = rows;
  return n.reshape(n.cast(mask, n.builder.getI1Type()), one);
}

LogicalResult fusion::addMask(NodeImport &n, AttentionParts &parts, Value seen,
                              Type element) {
  Value mask = WhereOp::create(
      n.builder, n.loc, seen, n.scalar(0, element),
      n.scalar(n.getFloat("mask_filter_value", -10000.0f), element));
  if (parts.bias) {
    if (failed(n.checkBroadcast({parts.bias, mask})))
      return failure();
    mask = AddOp::create(n.builder, n.loc, parts.bias, mask);
  }
  parts.bias = mask;
  return success();
}

FailureOr<Value> fusion::rotate(NodeImport &n, Value x,
                                const Rotation &rotation) {
  SymShape shape = getSymShape(x);
  if (shape.size() != 4)
    return n.fail("expected an input of rank 3 or 4");
  auto size = shape[3].asConstant();
  int64_t width = rotation.width ? rotation.width : size.value_or(0);
  if (!size || width < 2 || width % 2 || width > *size)
    return n.fail("cannot rotate " + Twine(width) + " of " + shape[3].str() +
                  " elements");
  Value tables[2];
  for (size_t i : {0, 1}) {
    Value table = i == 0 ? rotation.cos : rotation.sin;
    SymShape rows = getSymShape(table);
    if (rotation.positions) {
      if (rows.size() != 2)
        return n.fail("expected caches of rank 2");
      table = GatherOp::create(n.builder, n.loc, table, rotation.positions, 0);
      rows = getSymShape(table);
    }
    if (rows.size() != 3)
      return n.fail("expected caches of rank 3");
    // Wider caches than the rotation needs are cut.
    if (failed(n.equate(rows[2], width / 2, "cache width and rotation")))
      return failure();
    SymShape outer[] = {SymShape{shape[0], shape[2]},
                        SymShape{rows[0], rows[1]}};
    if (failed(n.broadcast(outer)))
      return failure();
    tables[i] = n.reshape(table, {rows[0], SymExpr(1), rows[1], rows[2]});
  }
  return Value(RopeOp::create(n.builder, n.loc, x, tables[0], tables[1],
                              rotation.interleaved,
                              width == *size ? 0 : width));
}
