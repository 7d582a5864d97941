//===- RopeHalf.cpp - Rotations of sums and of halves ---------------------===//
//
//   x * cos + rotate(x) * sin                              -> rope(x, cos, sin)
//   x * cos - unrotate(x) * sin                            -> rope(x, cos, sin)
//   concat(a*cos - b*sin, b*cos + a*sin), (a, b) = x       -> rope(x, cos, sin)
//   the same, a and b the even and odd elements of x -> rope((a, b), cos, sin)
//
//===----------------------------------------------------------------------===//

#include "Parts.h"
#include "Patterns.h"
#include "Rope.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

namespace {
template <typename OpTy>
struct RaiseRopeSum final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    Trace trace;
    auto match = matchRopeSum(op, trace);
    if (failed(match))
      return rewriter.notifyMatchFailure(op, trace.reason());
    reportMatch("rope", op.getLoc());
    Value x = createPart(rewriter, op.getLoc(), match->x);
    auto [cos, sin] = createTables(rewriter, op.getLoc(), *match);
    rewriter.replaceOpWithNewOp<RopeOp>(op, op.getType(), x, cos, sin,
                                        match->interleaved, 0);
    return success();
  }
};
} // namespace

/// x with its even elements before its odd ones, by views alone.
static Value splitPairs(OpBuilder &builder, Location loc, Value x) {
  SymShape flat = getSymShape(x), pairs = flat;
  pairs.back() = SymExpr(lastSize(x) / 2);
  pairs.push_back(2);
  SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(pairs.size()));
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  Value split =
      ReshapeOp::create(builder, loc, getTensorType(pairs, elementType(x)), x);
  Value turned = TransposeOp::create(builder, loc, split, perm);
  return ReshapeOp::create(builder, loc, x.getType(), turned);
}

namespace {
/// Two neighbours among the inputs of a concatenation are the rotated halves;
/// what is not rotated may stand beside them.
struct RaiseRopeHalves final : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override {
    int64_t last = getSymShape(op.getResult()).size() - 1;
    if (op.getAxis() != last)
      return rewriter.notifyMatchFailure(op, "no pieces of the last axis");
    Trace trace;
    SmallVector<Value> inputs = op.getInputs();
    for (size_t i = 0; i + 1 < inputs.size(); ++i) {
      if (lastSize(inputs[i]) < 1 ||
          lastSize(inputs[i]) != lastSize(inputs[i + 1]))
        continue;
      auto match = matchRopePairs(inputs[i], inputs[i + 1], false, trace);
      if (failed(match))
        continue;
      reportMatch("rope", op.getLoc());
      inputs[i] = createRope(rewriter, op.getLoc(), *match);
      inputs.erase(inputs.begin() + i + 1);
      if (inputs.size() == 1)
        rewriter.replaceOp(op, inputs[0]);
      else
        rewriter.replaceOpWithNewOp<ConcatOp>(op, inputs, last);
      return success();
    }
    return rewriter.notifyMatchFailure(op, trace.reason());
  }

  static Value createRope(OpBuilder &builder, Location loc,
                          const RopeMatch &match) {
    Value x = createPart(builder, loc, match.x);
    if (match.splitsPairs)
      x = splitPairs(builder, loc, x);
    auto [cos, sin] = createTables(builder, loc, match);
    return RopeOp::create(builder, loc, x.getType(), x, cos, sin, false, 0);
  }
};
} // namespace

void raise::populateRopeHalf(RewritePatternSet &patterns) {
  patterns.add<RaiseRopeSum<AddOp>, RaiseRopeSum<SubOp>, RaiseRopeHalves>(
      patterns.getContext());
}
