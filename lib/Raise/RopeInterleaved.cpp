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

/// Whether the last axes of `table` are those of the first of `pairs`.
static bool hasRows(Value table, ConcatOp pairs) {
  SymShape shape = getSymShape(table), whole = getSymShape(pairs.getResult());
  return shape.size() >= 2 && shape.back() == SymExpr(1) &&
         shape[shape.size() - 2] == whole[whole.size() - 2];
}

/// `value` with its last two axes as one.
static Value mergeLast(OpBuilder &builder, Location loc, Value value) {
  SymShape shape = getSymShape(value);
  SymExpr last = shape.pop_back_val();
  shape.back() = shape.back() * last;
  return ReshapeOp::create(builder, loc,
                           getTensorType(shape, elementType(value)), value);
}

namespace {
/// The root is the concatenation of the pairs, [.., n, 2]: whatever shape they
/// are flattened to.
struct RaiseRopeStack final : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override {
    auto pieces = getStacked(op.getResult());
    if (!pieces)
      return rewriter.notifyMatchFailure(op, "no two alternating pieces");
    Trace trace;
    auto match = matchRopePairs(pieces->first, pieces->second, true, trace);
    if (failed(match))
      return rewriter.notifyMatchFailure(op, trace.reason());
    // Pieces that are columns of pairs: the rows of pairs are one axis.
    Location loc = op.getLoc();
    bool areColumns = match->x.sizes == getSymShape(op.getResult());
    if (areColumns && (!hasRows(match->cos, op) || !hasRows(match->sin, op)))
      return rewriter.notifyMatchFailure(op, "tables are no columns of pairs");
    reportMatch("rope", loc);
    Value x = createPart(rewriter, loc, match->x);
    Value cos = match->cos, sin = match->sin;
    if (areColumns) {
      x = mergeLast(rewriter, loc, x);
      cos = mergeLast(rewriter, loc, cos), sin = mergeLast(rewriter, loc, sin);
    }
    Value rope =
        RopeOp::create(rewriter, loc, x.getType(), x, cos, sin, true, 0);
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), rope);
    return success();
  }
};
} // namespace

void raise::populateRopeInterleaved(RewritePatternSet &patterns) {
  patterns.add<RaiseRopeStack>(patterns.getContext());
  // What the pairs are flattened by undoes the rotation's own reshape.
  ReshapeOp::getCanonicalizationPatterns(patterns, patterns.getContext());
}
