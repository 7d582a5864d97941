//===- Attention.cpp - Softmax between two products -----------------------===//
//
//   softmax(cap(scale * q k^T) + mask) v -> attention(q, k, v, mask)
//
// Query, key and value are taken as they are; AttentionOperands.cpp then moves
// scalar factors and repeated heads out of them.
//
//===----------------------------------------------------------------------===//

#include "Attention.h"
#include "Patterns.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

namespace {
struct RaiseAttention final : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  /// Heads and their groups are one axis.
  static void mergeGroups(SymShape &shape) {
    shape[1] = shape[1] * shape[2];
    shape.erase(shape.begin() + 2);
  }

  /// [batch, heads, rows, columns]: three axes are one head.
  static Value toFourAxes(OpBuilder &builder, Location loc, Value value) {
    SymShape shape = getSymShape(value);
    if (shape.size() == 4)
      return value;
    if (shape.size() == 5)
      mergeGroups(shape);
    else
      shape.insert(shape.begin() + 1, SymExpr(1));
    return ReshapeOp::create(builder, loc,
                             getTensorType(shape, elementType(value)), value);
  }

  static Value swapLast(OpBuilder &builder, Location loc, Value value) {
    SmallVector<int64_t> perm = {0, 1, 3, 2};
    return TransposeOp::create(builder, loc, value, perm);
  }

  /// A mask with four axes, or three with the head's axis put in.
  static Value toMask(OpBuilder &builder, Location loc, Value mask,
                      size_t rank) {
    SymShape shape = getSymShape(mask);
    if (rank == 5) {
      while (shape.size() < 5)
        shape.insert(shape.begin(), SymExpr(1));
      mergeGroups(shape);
    }
    if (shape.size() == 4 && shape == getSymShape(mask))
      return mask;
    if (rank == 3 && shape.size() == 3)
      shape.insert(shape.begin() + 1, SymExpr(1));
    while (shape.size() < 4)
      shape.insert(shape.begin(), SymExpr(1));
    return ReshapeOp::create(builder, loc,
                             getTensorType(shape, elementType(mask)), mask);
  }

  /// `value` with as many heads as `like` has, where it has one for all.
  static Value spreadHead(OpBuilder &builder, Location loc, Value value,
                          Value like) {
    SymShape shape = getSymShape(value);
    SymExpr heads = getSymShape(like)[1];
    if (shape[1] == heads || shape[1] != SymExpr(1))
      return value;
    shape[1] = heads;
    return ExpandOp::create(builder, loc,
                            getTensorType(shape, elementType(value)), value);
  }

  /// A number of the element type of `like`.
  static Value createScalar(OpBuilder &builder, Location loc, double value,
                            Value like) {
    auto type = RankedTensorType::get({}, elementType(like));
    Attribute attr = FloatAttr::get(elementType(like), value);
    return ConstantOp::create(builder, loc, DenseElementsAttr::get(type, attr));
  }

  /// The one bias that says what the masks say.
  static Value createBias(OpBuilder &builder, Location loc, size_t rank,
                          const AttentionMatch &match) {
    Value sum;
    for (const Scaled &added : match.added) {
      Value mask = toMask(builder, loc, added.x, rank);
      if (added.factor != 1)
        mask = MulOp::create(builder, loc, mask.getType(), mask,
                             createScalar(builder, loc, added.factor, mask));
      sum = sum ? AddOp::create(builder, loc, sum, mask).getResult() : mask;
    }
    if (sum && match.floor)
      sum = MaxOp::create(builder, loc, sum,
                          createScalar(builder, loc, *match.floor, sum));
    if (!match.visible)
      return sum;
    Value visible = toMask(builder, loc, match.visible, rank);
    if (!sum) {
      if (match.visibleWhen)
        return visible;
      return NotOp::create(builder, loc, visible.getType(), visible);
    }
    double low = std::max(match.hidden, match.floor.value_or(match.hidden));
    // Scores are added to the least number of fp16 without a rounding, and
    // would tell apart keys in rows that see none: fp32 has a lower one. So
    // they are to a number that hides in a score's place only.
    if (elementType(sum).isF16()) {
      auto wide = withElementType(sum.getType(), builder.getF32Type());
      sum = CastOp::create(builder, loc, wide, sum);
    }
    Type element = elementType(sum);
    if (std::isfinite(low) && !isHidden(low, element))
      low = APFloat::getLargest(cast<FloatType>(element).getFloatSemantics(),
                                /*Negative=*/true)
                .convertToDouble();
    Value hidden = createScalar(builder, loc, low, sum);
    return match.visibleWhen
               ? WhereOp::create(builder, loc, visible, sum, hidden)
               : WhereOp::create(builder, loc, visible, hidden, sum);
  }

  static StringRef maskedRows(const AttentionMatch &match) {
    if (match.visible && (match.floor || std::isfinite(match.hidden)))
      return "uniform";
    return match.guarded ? "zero" : "nan";
  }

  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    Trace trace;
    auto match = matchAttention(op, trace);
    if (failed(match))
      return rewriter.notifyMatchFailure(op, trace.reason());
    reportMatch("attention", op.getLoc());
    Location loc = op.getLoc();
    size_t rank = getSymShape(op.getResult()).size();
    Value q = toFourAxes(rewriter, loc, match->scores.getLhs());
    Value k = toFourAxes(rewriter, loc, match->scores.getRhs());
    Value v = toFourAxes(rewriter, loc, op.getRhs());
    if (match->scores.getTransposeLhs())
      q = swapLast(rewriter, loc, q);
    if (!match->scores.getTransposeRhs())
      k = swapLast(rewriter, loc, k);
    if (op.getTransposeRhs())
      v = swapLast(rewriter, loc, v);
    k = spreadHead(rewriter, loc, k, v);
    v = spreadHead(rewriter, loc, v, k);
    Value bias = createBias(rewriter, loc, rank, *match);
    SymShape shape = getSymShape(q);
    shape.back() = getSymShape(v).back();
    Value result = AttentionOp::create(
        rewriter, loc, getTensorType(shape, elementType(op.getResult())), q, k,
        v, bias, Value(), Value(), Value(),
        rewriter.getF32FloatAttr(match->scale),
        rewriter.getF32FloatAttr(match->softcap), UnitAttr(),
        rewriter.getStringAttr("0"), rewriter.getI64IntegerAttr(-1),
        rewriter.getI64IntegerAttr(-1),
        rewriter.getStringAttr(maskedRows(*match)));
    if (result.getType() != op.getType())
      result = ReshapeOp::create(rewriter, loc, op.getType(), result);
    rewriter.replaceOp(op, result);
    return success();
  }
};
} // namespace

void raise::populateAttention(RewritePatternSet &patterns) {
  patterns.add<RaiseAttention>(patterns.getContext());
}
