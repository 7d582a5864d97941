//===- Embedding.cpp - com.microsoft::EmbedLayerNormalization -------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;

/// Rows of the table `input` at `indices`.
static FailureOr<Value> rowsOf(NodeImport &n, size_t input, Value indices) {
  if (n.rank(input) != 2)
    return n.fail("expected tables of rank 2");
  return Value(
      GatherOp::create(n.builder, n.loc, n.input(input), indices, /*axis=*/0));
}

/// 0, 1, 2, ... of each sequence where the node says nothing else.
static FailureOr<Value> positionsOf(NodeImport &n, const SymShape &ids) {
  if (!n.hasInput(8)) {
    MLIRContext *context = n.builder.getContext();
    Value steps = IotaOp::create(
        n.builder, n.loc, getTensorType({ids[1]}, elementType(n.input(0))),
        getExprAttr(context, 0), getExprAttr(context, 1));
    return n.reshape(steps, {SymExpr(1), ids[1]});
  }
  if (n.rank(8) != 2 ||
      failed(n.equate(n.shape(8)[1], ids[1], "position_ids and input_ids")))
    return n.fail("expected position_ids of shape [batch, seq] or [1, seq]");
  return n.input(8);
}

/// How many ones each sequence's mask has; zeros without a mask.
static FailureOr<Value> maskIndex(NodeImport &n, const SymShape &ids) {
  Type i32 = n.builder.getI32Type();
  if (!n.hasInput(7))
    return n.expand(n.scalar(0, i32), {ids[0]});
  if (n.rank(7) != 2)
    return n.fail("expected a mask of shape [batch, seq]");
  Value seen = EqualOp::create(n.builder, n.loc, n.input(7), n.scalar(1, i32));
  return Value(ReduceSumOp::create(n.builder, n.loc, n.cast(seen, i32),
                                   n.builder.getDenseI64ArrayAttr({1}),
                                   /*keepdims=*/false));
}

static LogicalResult embedLayerNorm(NodeImport &n) {
  SymShape ids = n.shape(0);
  if (ids.size() != 2)
    return n.fail("expected input_ids of shape [batch, seq]");
  if (n.hasInput(1) != n.hasInput(4))
    return n.fail("expected both segment_ids and segment_embedding, or "
                  "neither");
  auto sum = rowsOf(n, 2, n.input(0));
  if (succeeded(sum) && n.hasInput(1)) {
    auto segments = rowsOf(n, 4, n.input(1));
    if (failed(segments) || failed(n.checkBroadcast({*sum, *segments})))
      return failure();
    sum = Value(AddOp::create(n.builder, n.loc, *sum, *segments));
  }
  auto positions = failed(sum) ? sum : positionsOf(n, ids);
  auto places = failed(positions) ? positions : rowsOf(n, 3, *positions);
  if (failed(places) || failed(n.checkBroadcast({*sum, *places})))
    return failure();
  sum = Value(AddOp::create(n.builder, n.loc, *sum, *places));
  if (failed(n.checkBroadcast({*sum, n.input(5), n.input(6)})))
    return failure();
  n.output(0, LayerNormOp::create(
                  n.builder, n.loc, logicalType((*sum).getType()), *sum,
                  n.input(5), n.input(6),
                  n.builder.getF32FloatAttr(n.getFloat("epsilon", 1e-12f)),
                  n.builder.getI64IntegerAttr(-1)));
  if (n.hasOutput(1)) {
    auto index = maskIndex(n, ids);
    if (failed(index))
      return failure();
    n.output(1, *index);
  }
  n.output(2, *sum);
  return success();
}

void fusion::addEmbeddingHandlers(HandlerMap &map) {
  map["com.microsoft::EmbedLayerNormalization"] = embedLayerNorm;
}
