//===- LayerNorm.cpp - Norms of x - mean(x) -------------------------------===//
//
//   rms_norm(x - mean(x), w) -> layer_norm(x, w)
//   layer_norm(x, w) + b     -> layer_norm(x, w, b)
//
// Decomposed layer norms and a mean subtracted before an RMSNormalization are
// the same algebra.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// The value x when `value` is x - mean(x) over the last axis.
static Value getCentred(Value value, unsigned bits) {
  auto sub = stripCasts(value, bits).getDefiningOp<SubOp>();
  if (!sub)
    return {};
  auto mean = stripCasts(sub.getRhs(), bits).getDefiningOp<ReduceMeanOp>();
  if (!mean || !mean.getKeepdims())
    return {};
  Value x = stripWidening(sub.getLhs());
  int64_t last = getSymShape(x).size() - 1;
  if (mean.getAxes() != ArrayRef<int64_t>(last) ||
      stripWidening(mean.getInput()) != x)
    return {};
  return x;
}

static Value createOnes(PatternRewriter &rewriter, Location loc, Value like) {
  auto type = RankedTensorType::get({lastSize(like)}, rewriter.getF32Type());
  return ConstantOp::create(rewriter, loc, DenseElementsAttr::get(type, 1.0f));
}

namespace {
struct RaiseLayerNorm final : OpRewritePattern<RmsNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RmsNormOp op,
                                PatternRewriter &rewriter) const override {
    Value x = getCentred(op.getInput(), floatBits(op));
    if (!x)
      return rewriter.notifyMatchFailure(op, "input is not x - mean(x)");
    Value weight = op.getWeight();
    if (!weight && lastSize(x) < 0)
      return rewriter.notifyMatchFailure(op, "size of the last axis is open");
    reportMatch("layer_norm", op.getLoc());
    if (!weight)
      weight = createOnes(rewriter, op.getLoc(), x);
    rewriter.replaceOpWithNewOp<LayerNormOp>(op, op.getType(), x, weight,
                                             Value(), op.getEpsilonAttr(),
                                             rewriter.getI64IntegerAttr(-1));
    return success();
  }
};

struct AbsorbBias final : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op,
                                PatternRewriter &rewriter) const override {
    for (unsigned i : {0u, 1u}) {
      auto norm = op->getOperand(i).getDefiningOp<LayerNormOp>();
      if (!norm || norm.getBias() || !norm->hasOneUse())
        continue;
      Value bias = other(op, i);
      int64_t rank = getSymShape(norm.getResult()).size();
      if (norm.getType() != op.getType() ||
          normalizeAxis(norm.getAxis(), rank) != rank - 1)
        return rewriter.notifyMatchFailure(op, "the sum widens the norm");
      if (!isVectorAlongLast(bias, norm) || !isConstantDerived(bias))
        return rewriter.notifyMatchFailure(
            op, "the addend is no constant along the last axis");
      rewriter.replaceOpWithNewOp<LayerNormOp>(
          op, op.getType(), norm.getInput(), norm.getWeight(), bias,
          norm.getEpsilonAttr(), norm.getAxisAttr());
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no operand is a norm without bias");
  }
};
} // namespace

void raise::populateLayerNorm(RewritePatternSet &patterns) {
  patterns.add<RaiseLayerNorm, AbsorbBias>(patterns.getContext());
}
