//===- RopeInterleaved.cpp - Rotations of alternating elements ------------===//
//
//   stack(a*cos - b*sin, b*cos + a*sin), a and b the even and odd elements of x
//     -> rope(x, cos, sin) {interleaved}
//
//===----------------------------------------------------------------------===//

#include "Parts.h"
#include "Patterns.h"
#include "Rope.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

namespace {
struct RaiseRopeStack final : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto pieces = getInterleaved(op.getResult());
    if (!pieces)
      return rewriter.notifyMatchFailure(op, "no two alternating pieces");
    Trace trace;
    auto match = matchRopePairs(pieces->first, pieces->second, true, trace);
    if (failed(match))
      return rewriter.notifyMatchFailure(op, trace.reason());
    reportMatch("rope", op.getLoc());
    Value x = createPart(rewriter, op.getLoc(), match->x);
    rewriter.replaceOpWithNewOp<RopeOp>(op, op.getType(), x, match->cos,
                                        match->sin, true, 0);
    return success();
  }
};
} // namespace

void raise::populateRopeInterleaved(RewritePatternSet &patterns) {
  patterns.add<RaiseRopeStack>(patterns.getContext());
}
