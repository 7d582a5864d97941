//===- Attention.cpp - ai.onnx Attention, rotation, cache writes ----------===//

#include "AttentionUtils.h"

using namespace mlir;
using namespace fusion;

/// lengths - rows: how many keys lie in front of each sequence's first query.
static Value offsetsOf(NodeImport &n, Value lengths, const SymExpr &rows) {
  Value count = ShapeValueOp::create(
      n.builder, n.loc, RankedTensorType::get({}, elementType(lengths)),
      getExprsAttr(n.builder.getContext(), {rows}));
  return SubOp::create(n.builder, n.loc, lengths, count);
}

/// A mask shorter than the keys hides the rest.
static FailureOr<Value> fullMask(NodeImport &n, Value mask,
                                 const SymExpr &keys) {
  SymShape shape = getSymShape(mask);
  if (shape.empty())
    return n.fail("expected a mask of rank 1 or more");
  auto have = shape.back().asConstant(), want = keys.asConstant();
  if (!have || !want || *have >= *want || *have == 1)
    return mask;
  SymShape padded = shape;
  padded.back() = keys;
  Type element = elementType(mask);
  Value hidden =
      element.isInteger(1)
          ? n.scalar(0, element)
          : n.scalar(-std::numeric_limits<double>::infinity(), element);
  return Value(PadOp::create(
      n.builder, n.loc, getTensorType(padded, element), mask, hidden,
      getExprsAttr(n.builder.getContext(), SymShape(shape.size(), SymExpr(0))),
      n.builder.getStringAttr("constant")));
}

static LogicalResult onnxAttention(NodeImport &n) {
  Value q = n.input(0), k = n.input(1), v = n.input(2);
  int64_t rank = n.rank(0);
  if (n.rank(1) != rank || n.rank(2) != rank || (rank != 3 && rank != 4))
    return n.fail("expected query, key and value of rank 3 or 4");
  if (rank == 3) {
    int64_t heads = n.getInt("q_num_heads", 0);
    int64_t kvHeads = n.getInt("kv_num_heads", 0);
    auto a = splitHeads(n, q, heads);
    auto b = failed(a) ? a : splitHeads(n, k, kvHeads);
    auto c = failed(b) ? b : splitHeads(n, v, kvHeads);
    if (failed(c))
      return failure();
    q = *a, k = *b, v = *c;
  }
  SymShape queryShape = getSymShape(q);
  if (n.hasInput(4) != n.hasInput(5))
    return n.fail("expected both past_key and past_value, or neither");
  if (n.hasInput(4) && n.hasInput(6))
    return n.fail("past_key and nonpad_kv_seqlen exclude each other");
  AttentionParts parts;
  if (n.hasInput(4) && n.rank(4) == 4)
    parts.causalOffset = n.shape(4)[2];
  if (failed(appendCaches(n, 4, 5, k, v)))
    return failure();

  parts.scale = n.getFloat("scale", 0);
  parts.softcap = n.getFloat("softcap", 0);
  parts.causal = n.getInt("is_causal", 0) != 0;
  parts.windowLeft = n.getInt("left_window_size", -1);
  parts.windowRight = n.getInt("right_window_size", -1);
  SymExpr length = getSymShape(k)[2];
  if (n.hasInput(3)) {
    auto mask = fullMask(n, n.input(3), length);
    if (failed(mask))
      return failure();
    parts.bias = *mask;
  }
  if (n.hasInput(6)) {
    if (n.rank(6) != 1 || failed(n.equate(n.shape(6)[0], queryShape[0],
                                          "nonpad_kv_seqlen and batch")))
      return n.fail("expected one nonpad_kv_seqlen for each sequence");
    parts.validLengths = n.input(6);
    if (parts.causal || parts.windowLeft >= 0 || parts.windowRight >= 0)
      parts.offsets = offsetsOf(n, n.input(6), queryShape[2]);
  }
  auto result = attention(n, q, k, v, parts);
  if (failed(result))
    return failure();
  if (n.hasOutput(3)) {
    auto wanted = scores(n, q, k, parts, n.getInt("qk_matmul_output_mode", 0));
    if (failed(wanted))
      return failure();
    n.output(3, *wanted);
  }
  n.output(0, rank == 3 ? mergeHeads(n, *result) : *result);
  return success();
}

/// Rotates an input of rank 3 or 4 and gives it its own shape again. Positions
/// count from the front: negative ones are no row of the tables.
static LogicalResult rotateInput(NodeImport &n, Rotation rotation,
                                 int64_t heads) {
  Value x = n.input(0);
  if (rotation.positions)
    rotation.positions =
        n.cast(rotation.positions, n.builder.getIntegerType(64, false));
  if (n.rank(0) != 3) {
    auto result = rotate(n, x, rotation);
    if (failed(result))
      return failure();
    n.output(0, *result);
    return success();
  }
  auto split = splitHeads(n, x, heads);
  if (failed(split))
    return failure();
  auto result = rotate(n, *split, rotation);
  if (failed(result))
    return failure();
  n.output(0, mergeHeads(n, *result));
  return success();
}

static LogicalResult rotaryEmbedding(NodeImport &n) {
  Rotation rotation;
  rotation.cos = n.input(1);
  rotation.sin = n.input(2);
  rotation.positions = n.input(3);
  rotation.interleaved = n.getInt("interleaved", 0) != 0;
  rotation.width = n.getInt("rotary_embedding_dim", 0);
  return rotateInput(n, rotation, n.getInt("num_heads", 0));
}

/// com.microsoft has its own order of inputs; one position is a start. Nothing
/// reads the attribute scale, in onnxruntime neither, and is_packed_batching
/// only says that rows of several sequences follow one another, each at its
/// position.
static LogicalResult contribRotaryEmbedding(NodeImport &n) {
  Rotation rotation;
  rotation.cos = n.input(2);
  rotation.sin = n.input(3);
  rotation.interleaved = n.getInt("interleaved", 0) != 0;
  rotation.width = n.getInt("rotary_embedding_dim", 0);
  int64_t rank = n.rank(0), heads = n.getInt("num_heads", 0);
  if (rank != 3 && rank != 4)
    return n.fail("expected an input of rank 3 or 4");
  SymShape shape = n.shape(0), tables = n.shape(2);
  if (rank == 3 && heads == 0) {
    // The width of the cache tells the head size.
    auto hidden = shape[2].asConstant();
    auto half = tables.empty() ? std::nullopt : tables.back().asConstant();
    if (!hidden || !half || *half < 1 || *hidden % (2 * *half))
      return n.fail("cannot tell the number of heads");
    heads = *hidden / (2 * *half);
  }
  Value positions = n.input(1);
  if (n.rank(1) == 1) {
    SymExpr seq = shape[rank == 3 ? 1 : 2];
    MLIRContext *context = n.builder.getContext();
    Value steps = IotaOp::create(
        n.builder, n.loc, getTensorType({seq}, elementType(positions)),
        getExprAttr(context, 0), getExprAttr(context, 1));
    if (failed(n.equate(getSymShape(positions)[0], 1, "one start position")))
      return failure();
    positions = AddOp::create(n.builder, n.loc, steps, positions);
    positions = n.reshape(positions, {SymExpr(1), seq});
  }
  rotation.positions = positions;
  return rotateInput(n, rotation, heads);
}

/// Rows of `update` around the end of a cache: a scatter.
static Value scatterAround(NodeImport &n, Value starts, int64_t axis) {
  SymShape shape = n.shape(0), rows = n.shape(1);
  Type i64 = n.builder.getI64Type();
  MLIRContext *context = n.builder.getContext();
  SymShape line(shape.size(), SymExpr(1)), column(shape.size(), SymExpr(1));
  line[axis] = rows[axis];
  column[0] = shape[0];
  Value place =
      IotaOp::create(n.builder, n.loc, getTensorType({rows[axis]}, i64),
                     getExprAttr(context, 0), getExprAttr(context, 1));
  place = AddOp::create(n.builder, n.loc, n.reshape(place, line),
                        n.reshape(starts, column));
  Value size =
      ShapeValueOp::create(n.builder, n.loc, RankedTensorType::get({}, i64),
                           getExprsAttr(context, {shape[axis]}));
  place = ModOp::create(n.builder, n.loc, place, size, /*fmod=*/false);
  return ScatterElementsOp::create(
      n.builder, n.loc, n.input(0), n.expand(place, rows), n.input(1),
      n.builder.getI64IntegerAttr(axis), n.builder.getStringAttr("none"));
}

/// Writes at given places of a cache: past with rows of `update` from
/// write_indices[batch] on.
static LogicalResult tensorScatter(NodeImport &n) {
  SymShape shape = n.shape(0), rows = n.shape(1);
  auto axis = n.axis(n.getInt("axis", -2), shape.size());
  if (failed(axis))
    return failure();
  if (*axis == 0)
    return n.fail("axis 0 is the batch");
  if (rows.size() != shape.size())
    return n.fail("expected cache and update of equal rank");
  for (size_t d = 0; d < shape.size(); ++d)
    if (static_cast<int64_t>(d) != *axis &&
        failed(n.equate(shape[d], rows[d], "axis " + Twine(d))))
      return failure();
  Value starts;
  if (!n.hasInput(2))
    starts = n.expand(n.scalar(0, n.builder.getI64Type()), {shape[0]});
  else if (n.rank(2) != 1 ||
           failed(n.equate(n.shape(2)[0], shape[0], "write_indices and batch")))
    return n.fail("expected one write index for each batch");
  else
    starts = n.input(2);
  std::string mode = n.getString("mode", "linear");
  if (mode == "circular")
    n.output(0, scatterAround(n, starts, *axis));
  else if (mode == "linear")
    n.output(0, KvAppendOp::create(n.builder, n.loc, n.input(0), n.input(1),
                                   starts, n.builder.getI64IntegerAttr(*axis),
                                   n.builder.getUnitAttr()));
  else
    return n.fail("unknown mode '" + mode + "'");
  return success();
}

void fusion::addAttentionHandlers(HandlerMap &map) {
  map["::Attention"] = onnxAttention;
  map["::RotaryEmbedding"] = rotaryEmbedding;
  map["::TensorScatter"] = tensorScatter;
  map["com.microsoft::RotaryEmbedding"] = contribRotaryEmbedding;
}
