//===- NormCasts.cpp - Casts around norms ---------------------------------===//
//
// Norms compute in fp32 whatever their types, so a cast to a wider type before
// one changes nothing, and a cast to a narrower type behind one is its only
// rounding.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

namespace {
/// norm(cast(x)) -> norm(x) where the cast loses nothing
template <typename OpTy>
struct WidenedInput final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    Value x = stripWidening(op.getInput());
    if (x == op.getInput() || floatBits(op.getInput()) > 32)
      return rewriter.notifyMatchFailure(op, "input is no widening cast");
    rewriter.modifyOpInPlace(op, [&] { op.getInputMutable().assign(x); });
    return success();
  }
};

/// cast(norm(x)) -> norm(x) of the narrower type
template <typename OpTy>
struct NarrowedResult final : OpRewritePattern<CastOp> {
  using OpRewritePattern<CastOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(CastOp op,
                                PatternRewriter &rewriter) const override {
    auto norm = op.getInput().getDefiningOp<OpTy>();
    unsigned bits = floatBits(op.getResult());
    if (!norm || !norm->hasOneUse())
      return rewriter.notifyMatchFailure(op, "input is no norm of one use");
    if (!elementType(norm).isF32() || (bits != 16))
      return rewriter.notifyMatchFailure(op,
                                         "the cast does not narrow to 16 bits");
    rewriter.modifyOpInPlace(norm,
                             [&] { norm.getResult().setType(op.getType()); });
    rewriter.replaceOp(op, norm);
    return success();
  }
};
} // namespace

void raise::populateNormCasts(RewritePatternSet &patterns) {
  patterns.add<WidenedInput<RmsNormOp>, WidenedInput<LayerNormOp>,
               NarrowedResult<RmsNormOp>, NarrowedResult<LayerNormOp>>(
      patterns.getContext());
}
