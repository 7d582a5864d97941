//===- AttentionOperands.cpp - What stands before an attention ------------===//
//
//   attention(c * q, k, v) {scale}       -> attention(q, k, v) {c * scale}
//   attention(q, repeat(k), repeat(v))   -> attention(q, k, v), grouped heads
//   attention(.., bias expand(b))        -> attention(.., bias b)
//
// The same for decomposed attention and for the operator.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// The op of `view` (a transpose, reshape or cast) on another input.
static Value rebuild(OpBuilder &builder, Operation *view, Value input) {
  if (auto transpose = dyn_cast<TransposeOp>(view))
    return TransposeOp::create(builder, view->getLoc(), input,
                               transpose.getPerm());
  if (auto cast = dyn_cast<CastOp>(view))
    return CastOp::create(
        builder, view->getLoc(),
        withElementType(input.getType(), elementType(cast.getResult())), input,
        cast.getNoSaturate());
  return ReshapeOp::create(builder, view->getLoc(),
                           view->getResult(0).getType(), input);
}

//===----------------------------------------------------------------------===//
// Scale
//===----------------------------------------------------------------------===//

/// `value` without scalar factors, also those below views; `factor` is their
/// product.
static Value peelScale(OpBuilder &builder, Value value, double &factor,
                       unsigned depth = 6) {
  if (auto scaled = getScaled(value)) {
    factor *= scaled->factor;
    return peelScale(builder, scaled->x, factor, depth);
  }
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<TransposeOp, ReshapeOp>(op) || depth == 0)
    return value;
  double inner = 1;
  Value input = peelScale(builder, op->getOperand(0), inner, depth - 1);
  if (inner == 1)
    return value;
  factor *= inner;
  return rebuild(builder, op, input);
}

namespace {
struct ScaleOfOperands final : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    double factor = 1;
    Value q = peelScale(rewriter, op.getQuery(), factor);
    Value k = peelScale(rewriter, op.getKey(), factor);
    if (q == op.getQuery() && k == op.getKey())
      return rewriter.notifyMatchFailure(op, "no scalar factor on an operand");
    double scale = op.getScale().convertToDouble() * factor;
    rewriter.modifyOpInPlace(op, [&] {
      op.getQueryMutable().assign(q);
      op.getKeyMutable().assign(k);
      op.setScaleAttr(rewriter.getF32FloatAttr(scale));
    });
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Repeated heads
//===----------------------------------------------------------------------===//

namespace {
/// Heads that are each repeated `groups` times in a row: h0, h0, h1, h1.
struct Repeat {
  Value source;   ///< the heads, once
  SymShape shape; ///< of `value` with the heads once
  int64_t groups;
};
} // namespace

/// A repeat by broadcasting a single head: expand(x, [.., heads, ..]).
static std::optional<Repeat> getExpanded(ExpandOp expand, int64_t axis) {
  SymShape shape = getSymShape(expand.getResult());
  auto heads = shape[axis].asConstant();
  shape[axis] = 1;
  if (!heads || *heads == 1 || getSymShape(expand.getInput()) != shape)
    return std::nullopt;
  return Repeat{expand.getInput(), shape, *heads};
}

/// A repeat along `axis` of `value`, or nullopt. A repeat of the whole
/// (h0, h1, h0, h1) is one only for a single head.
static std::optional<Repeat> getRepeat(Value value, int64_t axis) {
  if (auto expand = value.getDefiningOp<ExpandOp>())
    return getExpanded(expand, axis);
  auto merge = value.getDefiningOp<ReshapeOp>();
  auto expand = merge ? merge.getInput().getDefiningOp<ExpandOp>() : nullptr;
  SymShape shape = getSymShape(value);
  auto heads = shape[axis].asConstant();
  if (!expand || !heads)
    return std::nullopt;
  SymShape from = getSymShape(expand.getInput()),
           to = getSymShape(expand.getResult());
  size_t first = axis, next = axis + 1;
  if (to.size() != shape.size() + 1 || from.size() != to.size())
    return std::nullopt;
  for (size_t i = 0; i < to.size(); ++i)
    if (i != first && i != next &&
        (from[i] != to[i] || to[i] != shape[i < next ? i : i - 1]))
      return std::nullopt;
  auto outer = to[first].asConstant(), inner = to[next].asConstant();
  if (!outer || !inner || *outer * *inner != *heads)
    return std::nullopt;
  bool single = from[first] == SymExpr(1) && from[next] == SymExpr(1);
  if (!single && (from[first] != to[first] || from[next] != SymExpr(1)))
    return std::nullopt;
  int64_t groups = single ? *heads : *inner;
  if (groups == 1)
    return std::nullopt;
  shape[axis] = SymExpr(*heads / groups);
  return Repeat{expand.getInput(), shape, groups};
}

/// The number of times that heads are repeated, also below transposes and
/// casts; 1 when they are not.
static int64_t countRepeats(Value value, int64_t axis) {
  while (true) {
    if (auto repeat = getRepeat(value, axis))
      return repeat->groups;
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<TransposeOp, CastOp>(op))
      return 1;
    if (auto transpose = dyn_cast<TransposeOp>(op))
      axis = transpose.getPerm()[axis];
    value = op->getOperand(0);
  }
}

/// `value` with its heads once.
static Value peelRepeat(OpBuilder &builder, Value value, int64_t axis) {
  if (auto repeat = getRepeat(value, axis)) {
    if (getSymShape(repeat->source) == repeat->shape)
      return repeat->source;
    return ReshapeOp::create(builder, value.getLoc(),
                             getTensorType(repeat->shape, elementType(value)),
                             repeat->source);
  }
  Operation *op = value.getDefiningOp();
  if (auto transpose = dyn_cast<TransposeOp>(op))
    axis = transpose.getPerm()[axis];
  return rebuild(builder, op, peelRepeat(builder, op->getOperand(0), axis));
}

namespace {
struct RepeatedHeads final : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    int64_t groups = countRepeats(op.getKey(), 1);
    if (groups == 1 || groups != countRepeats(op.getValue(), 1))
      return rewriter.notifyMatchFailure(
          op, "key and value do not repeat their heads alike");
    Value k = peelRepeat(rewriter, op.getKey(), 1);
    Value v = peelRepeat(rewriter, op.getValue(), 1);
    rewriter.modifyOpInPlace(op, [&] {
      op.getKeyMutable().assign(k);
      op.getValueMutable().assign(v);
    });
    return success();
  }
};

struct ExpandedBias final : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override {
    auto expand =
        op.getBias() ? op.getBias().getDefiningOp<ExpandOp>() : nullptr;
    if (!expand || getSymShape(expand.getInput()).size() != 4)
      return rewriter.notifyMatchFailure(op, "bias is no expand of four axes");
    rewriter.modifyOpInPlace(
        op, [&] { op.getBiasMutable().assign(expand.getInput()); });
    return success();
  }
};
} // namespace

void raise::populateAttentionOperands(RewritePatternSet &patterns) {
  patterns.add<ScaleOfOperands, RepeatedHeads, ExpandedBias>(
      patterns.getContext());
}
