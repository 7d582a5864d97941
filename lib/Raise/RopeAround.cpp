//===- RopeAround.cpp - What stands around a rotation ---------------------===//
//
//   concat(rope(x[.., :r]), x[.., r:])   -> rope(x) {rotary_dim = r}
//   cast(rope(cast(x)))                  -> rope(x), computed in fp32 anyway
//
//===----------------------------------------------------------------------===//

#include "Parts.h"
#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

namespace {
struct PartialRope final : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override {
    int64_t last = getSymShape(op.getResult()).size() - 1;
    if (op.getInputs().size() != 2 || op.getAxis() != last)
      return rewriter.notifyMatchFailure(op, "no two pieces of the last axis");
    auto rope = op.getInputs()[0].getDefiningOp<RopeOp>();
    if (!rope || rope.getRotaryDim() != 0)
      return rewriter.notifyMatchFailure(op, "the first piece is no rotation");
    Part rotated = getPart(rope.getInput()), rest = getPart(op.getInputs()[1]);
    int64_t width = lastSize(rope.getInput()),
            tail = lastSize(op.getInputs()[1]);
    Part whole = rotated, expected = rotated;
    if (width < 0 || tail < 0 || rotated.steps.back() != 1)
      return rewriter.notifyMatchFailure(op, "sizes are not known");
    expected.starts.back() = expected.starts.back() + SymExpr(width);
    expected.sizes.back() = SymExpr(tail);
    if (rest.base != expected.base || rest.starts != expected.starts ||
        rest.sizes != expected.sizes || rest.steps != expected.steps)
      return rewriter.notifyMatchFailure(
          op, "the second piece does not follow the first in one value");
    whole.sizes.back() = SymExpr(width + tail);
    Value x = createPart(rewriter, op.getLoc(), whole);
    rewriter.replaceOpWithNewOp<RopeOp>(op, op.getType(), x, rope.getCos(),
                                        rope.getSin(), rope.getInterleaved(),
                                        width);
    return success();
  }
};

struct RopeBetweenCasts final : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CastOp op,
                                PatternRewriter &rewriter) const override {
    auto rope = op.getInput().getDefiningOp<RopeOp>();
    if (!rope || !rope->hasOneUse())
      return rewriter.notifyMatchFailure(op, "input is no rotation of one use");
    Value x = stripWidening(rope.getInput());
    if (x.getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "the casts do not cancel");
    rewriter.replaceOpWithNewOp<RopeOp>(op, op.getType(), x, rope.getCos(),
                                        rope.getSin(), rope.getInterleaved(),
                                        rope.getRotaryDim());
    return success();
  }
};
} // namespace

void raise::populateRopeAround(RewritePatternSet &patterns) {
  patterns.add<PartialRope, RopeBetweenCasts>(patterns.getContext());
}
