//===- Contrib.cpp - GroupQueryAttention of com.microsoft -----------------===//

#include "AttentionUtils.h"

using namespace mlir;
using namespace fusion;

static FailureOr<Heads> queryKeyValue(NodeImport &n, int64_t heads,
                                      int64_t kvHeads) {
  if (heads < 1 || kvHeads < 1 || heads > 65536 || kvHeads > 65536)
    return n.fail("expected 1 to 65536 heads, found " + Twine(heads) + " and " +
                  Twine(kvHeads));
  if (!n.hasInput(1))
    return unpackHeads(n, n.input(0), heads, kvHeads);
  if (!n.hasInput(2))
    return n.fail("expected key and value, or neither");
  auto q = splitHeads(n, n.input(0), heads);
  auto k = failed(q) ? q : splitHeads(n, n.input(1), kvHeads);
  auto v = failed(k) ? k : splitHeads(n, n.input(2), kvHeads);
  if (failed(v))
    return failure();
  return Heads{*q, *k, *v};
}

/// Keys cached in front of the new rows, of each sequence: lengths - seq, and
/// nothing for a prompt, which may be padded on the right. [batch]
static Value cachedLengths(NodeImport &n, Value lengths, const SymExpr &seq) {
  Type element = elementType(lengths);
  Value count =
      ShapeValueOp::create(n.builder, n.loc, RankedTensorType::get({}, element),
                           getExprsAttr(n.builder.getContext(), {seq}));
  Value start = SubOp::create(n.builder, n.loc, lengths, count);
  return MaxOp::create(n.builder, n.loc, start, n.scalar(0, element));
}

/// Positions of the new rows: starts + 0, 1, 2, ... [batch, seq]
static Value positionsOf(NodeImport &n, Value starts, const SymExpr &seq) {
  MLIRContext *context = n.builder.getContext();
  SymExpr batch = getSymShape(starts)[0];
  Value steps = IotaOp::create(
      n.builder, n.loc, getTensorType({seq}, elementType(starts)),
      getExprAttr(context, 0), getExprAttr(context, 1));
  return AddOp::create(n.builder, n.loc, n.reshape(starts, {batch, SymExpr(1)}),
                       n.reshape(steps, {SymExpr(1), seq}));
}

/// The axis of the keys as the file declares it.
static const onnxfile::Dim *
declaredLength(const std::vector<onnxfile::ValueInfo> &list,
               const std::string &name) {
  for (const onnxfile::ValueInfo &info : list)
    if (info.name == name && info.dims.size() == 4)
      return &info.dims[2];
  return nullptr;
}

/// Whether the file says that the present cache is as long as the past one: a
/// buffer with room for more.
static bool isBuffer(NodeImport &n, size_t past, size_t present) {
  if (!n.hasInput(past) || !n.hasOutput(present))
    return false;
  const onnxfile::Graph &graph = n.importer.model.graph;
  const onnxfile::Dim *a = declaredLength(graph.inputs, n.node.inputs[past]);
  const onnxfile::Dim *b =
      declaredLength(graph.outputs, n.node.outputs[present]);
  if (!a || !b)
    return false;
  return a->value ? a->value == b->value
                  : !a->param.empty() && a->param == b->param;
}

static FailureOr<Value> normalizeHead(NodeImport &n, Value x, size_t weight,
                                      StringRef epsilon) {
  if (!n.hasInput(weight))
    return x;
  if (failed(n.checkBroadcast({x, n.input(weight)})))
    return failure();
  return Value(RmsNormOp::create(
      n.builder, n.loc, logicalType(x.getType()), x, n.input(weight),
      n.builder.getF32FloatAttr(
          n.getFloat(epsilon, n.getFloat("qk_norm_epsilon", 1e-6f))),
      /*cast_before_scale=*/UnitAttr()));
}

static LogicalResult checkGroupQuery(NodeImport &n) {
  if (n.hasInput(12) || n.hasInput(13) ||
      n.getString("k_quant_type", "NONE") != "NONE" ||
      n.getString("v_quant_type", "NONE") != "NONE")
    return n.fail("a quantised cache is not supported; build the model with a "
                  "floating-point one");
  if (n.getInt("sliding_window_cache", 0))
    return n.fail("a cache of only the window is not supported; build the "
                  "model with windowed_kv_cache=false");
  if (n.hasInput(16))
    return n.fail("query_seqlens is not supported; build the model for rows "
                  "of which none is padding");
  if (n.hasInput(3) != n.hasInput(4))
    return n.fail("expected both past_key and past_value, or neither");
  return success();
}

/// The lengths [batch] that seqlens_k (one less, [batch] or [batch, 1]) says.
static FailureOr<Value> totalLengths(NodeImport &n, const SymExpr &batch) {
  SymShape shape = n.shape(5);
  if (shape.empty() || shape.size() > 2 ||
      failed(n.equate(numElements(shape), batch, "seqlens_k and batch")))
    return n.fail("expected seqlens_k to have one element for each batch");
  Value lengths = n.reshape(n.input(5), {batch});
  return Value(AddOp::create(n.builder, n.loc, lengths,
                             n.scalar(1, elementType(lengths))));
}

/// The output output_qk: scores before the softmax, zero where a key is not
/// seen, or after it.
static LogicalResult outputScores(NodeImport &n, Value q, Value keys,
                                  const AttentionParts &how, bool inBuffer) {
  int64_t kind = n.getInt("qk_output", 0);
  if (!n.hasOutput(3))
    return success();
  if (kind != 1 && kind != 2)
    return n.fail("the output output_qk needs qk_output 1 or 2, found " +
                  Twine(kind));
  if (inBuffer)
    return n.fail("output_qk beside a cache buffer is not supported; build "
                  "the model with past and present of their own lengths");
  auto wanted = kind == 1 ? scores(n, q, keys, how, /*mode=*/2, /*hidden=*/0)
                          : scores(n, q, keys, how, /*mode=*/3);
  if (failed(wanted))
    return failure();
  n.output(3, *wanted);
  return success();
}

static LogicalResult groupQueryAttention(NodeImport &n) {
  int64_t heads = n.getInt("num_heads", 0);
  int64_t kvHeads = n.getInt("kv_num_heads", 0);
  if (failed(checkGroupQuery(n)))
    return failure();
  auto parts = queryKeyValue(n, heads, kvHeads);
  if (failed(parts))
    return failure();
  SymShape shape = getSymShape(parts->q);
  auto lengths = totalLengths(n, shape[0]);
  auto q = normalizeHead(n, parts->q, 14, "q_norm_epsilon");
  auto k = failed(q) ? q : normalizeHead(n, parts->k, 15, "k_norm_epsilon");
  if (failed(lengths) || failed(k))
    return failure();
  Value starts = cachedLengths(n, *lengths, shape[2]);
  if (n.getInt("do_rotary", 0)) {
    if (!n.hasInput(7) || !n.hasInput(8))
      return n.fail("do_rotary needs cos_cache and sin_cache");
    auto columns = n.rank(7) == 2 ? n.shape(7)[1].asConstant() : std::nullopt;
    if (!columns || *columns > 65536)
      return n.fail("expected caches of constant width");
    Rotation rotation;
    rotation.cos = n.input(7);
    rotation.sin = n.input(8);
    rotation.positions =
        n.hasInput(9) ? n.input(9) : positionsOf(n, starts, shape[2]);
    rotation.interleaved = n.getInt("rotary_interleaved", 0) != 0;
    rotation.width = 2 * *columns;
    q = rotate(n, *q, rotation);
    k = failed(q) ? q : rotate(n, *k, rotation);
    if (failed(k))
      return failure();
  }
  bool inBuffer = isBuffer(n, 3, 1);
  Value keys = *k, values = parts->v;
  if (failed(appendCaches(n, 3, 4, keys, values, starts, inBuffer)))
    return failure();

  AttentionParts how;
  how.scale = n.getFloat("scale", 0);
  how.softcap = n.getFloat("softcap", 0);
  how.causal = n.getInt("causal", 1) != 0;
  // The window counts the query's own key.
  if (int64_t window = n.getInt("local_window_size", -1); window > 0)
    how.windowLeft = window - 1;
  if (n.hasInput(3) && (how.causal || how.windowLeft >= 0))
    how.offsets = starts;
  // A causal query sees nothing behind its sequence's end.
  if (!how.causal)
    how.validLengths = *lengths;
  how.bias = n.input(10);
  how.sink = n.input(11);
  // The sink of a smooth softmax is zero.
  if (!how.sink && n.getInt("smooth_softmax", 0) > 0)
    how.sink = n.expand(n.scalar(0, elementType(*q)), {SymExpr(heads)});
  auto result = attention(n, *q, keys, values, how);
  if (failed(result))
    return failure();
  n.output(0, mergeHeads(n, *result));
  return outputScores(n, *q, keys, how, inBuffer);
}

void fusion::addContribHandlers(HandlerMap &map) {
  map["com.microsoft::GroupQueryAttention"] = groupQueryAttention;
}
