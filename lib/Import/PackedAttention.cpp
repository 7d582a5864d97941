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

/// The oldest form: q, k and v are products of one input with one weight, keys
/// and values share one cache [2, batch, heads, past, size].
static LogicalResult packedAttention(NodeImport &n) {
  int64_t heads = n.getInt("num_heads", 0);
  if (heads < 1 || heads > 65536)
    return n.fail("expected 1 to 65536 heads, found " + Twine(heads));
  if (n.getInts("qkv_hidden_sizes") || n.getInt("do_rotary", 0) ||
      n.getInt("past_present_share_buffer", 0))
    return n.fail("qkv_hidden_sizes, do_rotary and past_present_share_buffer "
                  "are not supported");
  if (n.rank(0) != 3 || n.rank(1) != 2)
    return n.fail("expected an input of rank 3 and weights of rank 2");
  SymShape x = n.shape(0), w = n.shape(1);
  if (failed(n.equate(x[2], w[0], "input and weights")))
    return failure();
  Value packed =
      MatmulOp::create(n.builder, n.loc, n.input(0), n.input(1), false, false);
  if (n.hasInput(2)) {
    if (failed(n.checkBroadcast({packed, n.input(2)})))
      return failure();
    packed = AddOp::create(n.builder, n.loc, packed, n.input(2));
  }
  auto parts = unpackHeads(n, packed, heads, heads);
  if (failed(parts))
    return failure();
  AttentionParts how;
  Value past[2];
  SymShape cache = getSymShape(parts->k);
  if (n.hasInput(4)) {
    if (n.rank(4) != 5 || failed(n.equate(n.shape(4)[0], 2, "past")))
      return n.fail("expected a past of shape [2, batch, heads, past, size]");
    cache = SymShape(llvm::drop_begin(n.shape(4)));
    for (int64_t i : {0, 1})
      past[i] = n.reshape(n.slice(n.input(4), 0, i, 1), cache);
    how.causalOffset = cache[2];
  }
  auto keys = append(n, past[0], parts->k);
  auto values = failed(keys) ? keys : append(n, past[1], parts->v);
  if (failed(values))
    return failure();
  if (n.hasOutput(1)) {
    SymShape one = getSymShape(*keys);
    one.insert(one.begin(), SymExpr(1));
    n.output(1, ConcatOp::create(
                    n.builder, n.loc,
                    ValueRange{n.reshape(*keys, one), n.reshape(*values, one)},
                    0));
  }
  how.scale = n.getFloat("scale", 0);
  how.causal = n.getInt("unidirectional", 0) != 0;
  how.bias = n.input(5);
  if (n.hasInput(3)) {
    if (how.bias && n.rank(3) == 3)
      return n.fail("a mask of rank 3 and attention_bias exclude each other");
    auto seen = readMask(n, 3, x[0], x[1], getSymShape(*keys)[2]);
    if (failed(seen) || failed(addMask(n, how, *seen, elementType(parts->q))))
      return failure();
  }
  auto result = attention(n, parts->q, *keys, *values, how);
  if (failed(result))
    return failure();
  n.output(0, mergeHeads(n, *result));
  return success();
}

void fusion::addPackedAttentionHandlers(HandlerMap &map) {
  map["com.microsoft::Attention"] = packedAttention;
}
