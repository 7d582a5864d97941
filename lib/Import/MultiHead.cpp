//===- MultiHead.cpp - MultiHeadAttention of com.microsoft ----------------===//
//
// And DecoderMaskedMultiHeadAttention, the same for one new row, with its
// operands in another order.
//
//===----------------------------------------------------------------------===//

#include "AttentionUtils.h"

#include <limits>

using namespace mlir;
using namespace fusion;

namespace {
/// Where the operands behind query, key and value stand.
struct Places {
  size_t mask, attentionBias, pastKey, pastValue, pastLength, cacheIndirection,
      bias;
};
constexpr Places kMultiHead = {4, 5, 6, 7, 8, 9, 3};
constexpr Places kDecoder = {3, 4, 5, 6, 7, 9, 10};

/// One node.
struct MultiHead {
  NodeImport &n;
  const Places &at;
  int64_t heads;
  Value q, k, v;
  Value lengths; ///< keys in the buffer of each sequence, where one is shared

  LogicalResult check();
  LogicalResult readOperands();
  LogicalResult addBias();
  LogicalResult readHeads();
  LogicalResult readLengths();
  LogicalResult import();
};
} // namespace

LogicalResult MultiHead::check() {
  if (heads < 1 || heads > 65536)
    return n.fail("expected 1 to 65536 heads, found " + Twine(heads));
  if (n.hasInput(at.cacheIndirection))
    return n.fail("a beam search inside the cache (cache_indirection) is not "
                  "supported; export the decoder without it");
  if (n.hasInput(at.pastKey) != n.hasInput(at.pastValue))
    return n.fail("expected both past_key and past_value, or neither");
  if (!n.hasInput(at.pastLength))
    return success();
  if (!n.hasInput(at.pastKey))
    return n.fail("past_sequence_length needs past_key and past_value");
  if (n.hasInput(at.mask) || n.hasInput(at.attentionBias) || n.hasOutput(3))
    return n.fail("a mask, attention_bias or the output qk beside a shared "
                  "cache buffer (past_sequence_length) is not supported; build "
                  "the model with past and present of their own lengths");
  return success();
}

/// Part `i` of [batch, seq, heads, parts, size], as [batch, seq, hidden].
static Value partOf(NodeImport &n, Value packed, int64_t i) {
  SymShape shape = getSymShape(packed);
  return n.reshape(n.slice(packed, 3, i, 1),
                   {shape[0], shape[1], shape[2] * shape[4]});
}

/// q, k and v, each [batch, seq, hidden] or with its heads split already.
LogicalResult MultiHead::readOperands() {
  auto isPacked = [&](size_t i, int64_t parts) {
    return n.rank(i) == 5 && n.shape(i)[2] == SymExpr(heads) &&
           n.shape(i)[3] == SymExpr(parts);
  };
  q = n.input(0);
  if (!n.hasInput(1) && !n.hasInput(2)) {
    if (!isPacked(0, 3))
      return n.fail("expected a packed query of shape [batch, seq, " +
                    Twine(heads) + ", 3, size], or key and value");
    k = partOf(n, q, 1);
    v = partOf(n, q, 2);
    q = partOf(n, q, 0);
    return success();
  }
  if (n.hasInput(1) && !n.hasInput(2)) {
    if (!isPacked(1, 2))
      return n.fail("expected a packed key of shape [batch, seq, " +
                    Twine(heads) + ", 2, size], or a value");
    k = partOf(n, n.input(1), 0);
    v = partOf(n, n.input(1), 1);
    return success();
  }
  if (!n.hasInput(1))
    return n.fail("expected a key beside the value");
  k = n.input(1);
  v = n.input(2);
  return success();
}

/// The parts of a bias for q, k and v, added before the heads are split. Keys
/// and values whose heads are split (cross attention) come with theirs.
LogicalResult MultiHead::addBias() {
  if (!n.hasInput(at.bias))
    return success();
  if (n.rank(at.bias) != 1)
    return n.fail("expected a bias of rank 1");
  Value bias = n.input(at.bias);
  SymExpr start = 0;
  for (Value *x : {&q, &k, &v}) {
    SymShape shape = getSymShape(*x);
    if (shape.size() == 4) {
      start = start + shape[1] * shape[3];
      continue;
    }
    if (shape.size() != 3)
      return n.fail("expected operands of rank 3, found rank " +
                    Twine(shape.size()));
    Value part = n.slice(bias, 0, start, shape[2]);
    *x = AddOp::create(n.builder, n.loc, *x, part);
    start = start + shape[2];
  }
  return n.equate(start, n.shape(at.bias)[0], "the bias");
}

LogicalResult MultiHead::readHeads() {
  if (failed(readOperands()) || failed(addBias()))
    return failure();
  for (Value *x : {&q, &k, &v}) {
    if (x != &q && getSymShape(*x).size() == 4)
      continue;
    auto split = splitHeads(n, *x, heads);
    if (failed(split))
      return failure();
    *x = *split;
  }
  return success();
}

/// past_sequence_length, one number for all sequences: past and present are one
/// buffer with room for more.
LogicalResult MultiHead::readLengths() {
  if (!n.hasInput(at.pastLength))
    return success();
  if (failed(n.equate(numElements(n.shape(at.pastLength)), 1,
                      "past_sequence_length and one")))
    return failure();
  Value one = n.reshape(n.input(at.pastLength), {SymExpr(1)});
  lengths = n.expand(one, {getSymShape(q)[0]});
  return success();
}

LogicalResult MultiHead::import() {
  if (failed(check()) || failed(readHeads()) || failed(readLengths()))
    return failure();
  SymShape shape = getSymShape(q), rows = getSymShape(k);
  bool inBuffer = lengths != nullptr;
  if (failed(
          appendCaches(n, at.pastKey, at.pastValue, k, v, lengths, inBuffer)))
    return failure();

  AttentionParts how;
  how.scale = n.getFloat("scale", 0);
  how.causal = n.getInt("unidirectional", 0) != 0;
  if (inBuffer) {
    if (how.causal)
      how.offsets = lengths;
    Type element = elementType(lengths);
    Value count = ShapeValueOp::create(
        n.builder, n.loc, RankedTensorType::get({}, element),
        getExprsAttr(n.builder.getContext(), {rows[2]}));
    how.validLengths = AddOp::create(n.builder, n.loc, lengths, count);
  } else if (n.hasInput(at.pastKey)) {
    how.causalOffset = n.shape(at.pastKey)[2];
  }
  how.bias = n.input(at.attentionBias);
  if (n.hasInput(at.mask)) {
    auto seen = readMask(n, at.mask, shape[0], shape[2], getSymShape(k)[2]);
    if (failed(seen) || failed(addMask(n, how, *seen, elementType(q))))
      return failure();
  }
  auto result = attention(n, q, k, v, how);
  if (failed(result))
    return failure();
  n.output(0, mergeHeads(n, *result));
  if (!n.hasOutput(3))
    return success();
  // Scores that the softmax reads; what is not seen is the lowest number.
  auto wanted =
      scores(n, q, k, how, /*mode=*/2, std::numeric_limits<float>::lowest());
  if (failed(wanted))
    return failure();
  n.output(3, *wanted);
  return success();
}

static LogicalResult multiHeadAttention(NodeImport &n) {
  return MultiHead{n, kMultiHead, n.getInt("num_heads", 0), {}, {}, {}, {}}
      .import();
}

static LogicalResult decoderMaskedAttention(NodeImport &n) {
  if (n.hasInput(8))
    return n.fail("a beam search inside the cache (beam_width) is not "
                  "supported; export the decoder without it");
  if (!n.hasInput(1) || n.rank(1) == 3)
    if (n.hasInput(5) && !n.getInt("past_present_share_buffer", 0))
      return n.fail("a past needs past_present_share_buffer");
  return MultiHead{n, kDecoder, n.getInt("num_heads", 0), {}, {}, {}, {}}
      .import();
}

void fusion::addMultiHeadHandlers(HandlerMap &map) {
  map["com.microsoft::MultiHeadAttention"] = multiHeadAttention;
  map["com.microsoft::DecoderMaskedMultiHeadAttention"] =
      decoderMaskedAttention;
}
