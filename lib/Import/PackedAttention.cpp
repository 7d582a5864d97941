//===- PackedAttention.cpp - q, k and v in one tensor ---------------------===//

#include "AttentionUtils.h"

using namespace mlir;
using namespace fusion;

FailureOr<Heads> fusion::unpackHeads(NodeImport &n, Value packed, int64_t heads,
                                     int64_t kvHeads) {
  SymShape shape = getSymShape(packed);
  if (shape.size() != 3)
    return n.fail("expected a packed query of rank 3");
  auto hidden = shape[2].asConstant();
  int64_t all = heads + 2 * kvHeads;
  if (!hidden || all < 1 || *hidden % all)
    return n.fail("cannot split " + shape[2].str() + " into " + Twine(all) +
                  " heads");
  int64_t size = *hidden / all;
  auto q = splitHeads(n, n.slice(packed, 2, 0, heads * size), heads);
  auto k =
      splitHeads(n, n.slice(packed, 2, heads * size, kvHeads * size), kvHeads);
  auto v = splitHeads(
      n, n.slice(packed, 2, (heads + kvHeads) * size, kvHeads * size), kvHeads);
  if (failed(q) || failed(k) || failed(v))
    return failure();
  return Heads{*q, *k, *v};
}

/// The same for parts of their own widths.
static FailureOr<Heads> cutHeads(NodeImport &n, Value packed, int64_t heads,
                                 ArrayRef<int64_t> widths) {
  if (failed(n.equate(getSymShape(packed)[2], widths[0] + widths[1] + widths[2],
                      "qkv_hidden_sizes and the weights' columns")))
    return failure();
  Value parts[3];
  for (int64_t i = 0, start = 0; i < 3; start += widths[i++]) {
    auto part = splitHeads(n, n.slice(packed, 2, start, widths[i]), heads);
    if (failed(part))
      return failure();
    parts[i] = *part;
  }
  return Heads{parts[0], parts[1], parts[2]};
}

namespace {
/// Where the operands behind the product stand; attentionBias may be none.
struct Places {
  size_t mask, past, attentionBias;
};
constexpr size_t kNone = 16;
} // namespace

static LogicalResult checkPacked(NodeImport &n, int64_t heads) {
  if (heads < 1 || heads > 65536)
    return n.fail("expected 1 to 65536 heads, found " + Twine(heads));
  if (n.getInt("do_rotary", 0))
    return n.fail("do_rotary is not supported; optimise the model with "
                  "MultiHeadAttention and RotaryEmbedding instead");
  if (n.getInt("past_present_share_buffer", 0))
    return n.fail("past_present_share_buffer is not supported; build the model "
                  "with past and present of their own lengths");
  if (n.rank(0) != 3 || n.rank(1) != 2)
    return n.fail("expected an input of rank 3 and weights of rank 2");
  return n.equate(n.shape(0)[2], n.shape(1)[0], "input and weights");
}

/// Attention over the product of input and weights, all of q, k and v, keys and
/// values in one cache [2, batch, heads, past, size].
static LogicalResult attend(NodeImport &n, Value packed, int64_t heads,
                            const Places &at) {
  auto sizes = n.getInts("qkv_hidden_sizes");
  if (sizes && (sizes->size() != 3 || llvm::any_of(*sizes, [](int64_t size) {
                  return size < 1 || size > (int64_t(1) << 31);
                })))
    return n.fail("expected three positive qkv_hidden_sizes");
  auto parts = sizes ? cutHeads(n, packed, heads, *sizes)
                     : unpackHeads(n, packed, heads, heads);
  if (failed(parts))
    return failure();
  AttentionParts how;
  Value past[2];
  SymShape x = n.shape(0), cache = getSymShape(parts->k);
  if (n.hasInput(at.past)) {
    if (n.rank(at.past) != 5 ||
        failed(n.equate(n.shape(at.past)[0], 2, "past")))
      return n.fail("expected a past of shape [2, batch, heads, past, size]");
    cache = SymShape(llvm::drop_begin(n.shape(at.past)));
    for (int64_t i : {0, 1})
      past[i] = n.reshape(n.slice(n.input(at.past), 0, i, 1), cache);
    how.causalOffset = cache[2];
  }
  auto keys = append(n, past[0], parts->k);
  auto values = failed(keys) ? keys : append(n, past[1], parts->v);
  if (failed(values))
    return failure();
  if (n.hasOutput(1)) {
    SymShape one = getSymShape(*keys);
    if (failed(n.equate(one[3], getSymShape(*values)[3],
                        "key and value in one cache")))
      return failure();
    one.insert(one.begin(), SymExpr(1));
    n.output(1, ConcatOp::create(
                    n.builder, n.loc,
                    ValueRange{n.reshape(*keys, one), n.reshape(*values, one)},
                    0));
  }
  how.scale = n.getFloat("scale", 0);
  how.causal = n.getInt("unidirectional", 0) != 0;
  how.bias = n.input(at.attentionBias);
  if (n.hasInput(at.mask)) {
    if (how.bias && n.rank(at.mask) == 3)
      return n.fail("a mask of rank 3 and attention_bias exclude each other");
    auto seen = readMask(n, at.mask, x[0], x[1], getSymShape(*keys)[2]);
    if (failed(seen) || failed(addMask(n, how, *seen, elementType(parts->q))))
      return failure();
  }
  auto result = attention(n, parts->q, *keys, *values, how);
  if (failed(result))
    return failure();
  n.output(0, mergeHeads(n, *result));
  return success();
}

/// The oldest form: q, k and v are products of one input with one weight.
static LogicalResult packedAttention(NodeImport &n) {
  int64_t heads = n.getInt("num_heads", 0);
  if (failed(checkPacked(n, heads)))
    return failure();
  Value product =
      MatmulOp::create(n.builder, n.loc, n.input(0), n.input(1), false, false);
  auto packed = n.plusInput(product, 2);
  return failed(packed) ? failure() : attend(n, *packed, heads, {3, 4, 5});
}

/// The same with the input and the weights quantised.
static LogicalResult quantizedAttention(NodeImport &n) {
  int64_t heads = n.getInt("num_heads", 0);
  if (failed(checkPacked(n, heads)))
    return failure();
  auto product = integerProduct(n, 0, 1, 6, 7);
  auto scaled = failed(product) ? product : rescaled(n, *product, 3, 4);
  auto packed = failed(scaled) ? scaled : n.plusInput(*scaled, 2);
  return failed(packed) ? failure() : attend(n, *packed, heads, {5, 8, kNone});
}

void fusion::addPackedAttentionHandlers(HandlerMap &map) {
  map["com.microsoft::Attention"] = packedAttention;
  map["com.microsoft::QAttention"] = quantizedAttention;
}
