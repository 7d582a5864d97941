//===- RopeHalf.cpp - Rotations of sums and of halves ---------------------===//
//
//   x * cos + rotate(x) * sin                              -> rope(x, cos, sin)
//   concat(a*cos - b*sin, b*cos + a*sin), (a, b) = x       -> rope(x, cos, sin)
//
//===----------------------------------------------------------------------===//

#include "Parts.h"
#include "Patterns.h"
#include "Rope.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

namespace {
struct RaiseRopeSum final : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op,
                                PatternRewriter &rewriter) const override {
    Trace trace;
    auto match = matchRopeSum(op, trace);
    if (failed(match))
      return rewriter.notifyMatchFailure(op, trace.reason());
    reportMatch("rope", op.getLoc());
    Value x = createPart(rewriter, op.getLoc(), match->x);
    rewriter.replaceOpWithNewOp<RopeOp>(op, op.getType(), x, match->cos,
                                        match->sin, match->interleaved, 0);
    return success();
  }
};

struct RaiseRopeHalves final : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override {
    auto halves = getHalves(op.getResult());
    if (!halves)
      return rewriter.notifyMatchFailure(op, "no two halves of the last axis");
    Trace trace;
    auto match = matchRopePairs(halves->first, halves->second, false, trace);
    if (failed(match))
      return rewriter.notifyMatchFailure(op, trace.reason());
    reportMatch("rope", op.getLoc());
    Value x = createPart(rewriter, op.getLoc(), match->x);
    rewriter.replaceOpWithNewOp<RopeOp>(op, op.getType(), x, match->cos,
                                        match->sin, false, 0);
    return success();
  }
};
} // namespace

void raise::populateRopeHalf(RewritePatternSet &patterns) {
  patterns.add<RaiseRopeSum, RaiseRopeHalves>(patterns.getContext());
}
