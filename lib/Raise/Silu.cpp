//===- Silu.cpp - Products with a logistic function -----------------------===//
//
//   x * sigmoid(alpha * x) -> silu(x) {alpha}
//   x * sigmoid(2 * sqrt(2/pi) * (x + 0.044715 x^3)) -> gelu(x) {tanh}
//
// (the second because 1 + tanh(u) = 2 * sigmoid(2u)).
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"
#include "Polynomial.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

namespace {
struct RaiseSilu final : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult replace(MulOp op, Value x, SigmoidOp sigmoid,
                        PatternRewriter &rewriter) const {
    Value narrow = stripWidening(x);
    auto argument = getPolynomial(sigmoid.getInput(), narrow, Value());
    double tolerance = toleranceOf(elementType(op.getResult()));
    if (!argument)
      return rewriter.notifyMatchFailure(op, "argument is no polynomial of x");
    if (isPolynomial(*argument,
                     {{{1, 0}, 1.5957691216}, {{3, 0}, 0.0713548163}},
                     tolerance)) {
      reportMatch("gelu", op.getLoc());
      rewriter.replaceOpWithNewOp<GeluOp>(op, op.getType(), x, true);
      return success();
    }
    if (argument->size() != 1 || argument->begin()->first != Power{1, 0})
      return rewriter.notifyMatchFailure(op, "argument is not alpha * x");
    reportMatch("silu", op.getLoc());
    rewriter.replaceOpWithNewOp<SiluOp>(
        op, op.getType(), x,
        rewriter.getF32FloatAttr(argument->begin()->second));
    return success();
  }

  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    for (unsigned i : {0u, 1u}) {
      auto sigmoid =
          stripCasts(other(op, i), floatBits(op)).getDefiningOp<SigmoidOp>();
      Value x = op->getOperand(i);
      if (!sigmoid || x.getType() != op.getType() || !sameShape(sigmoid, x))
        continue;
      if (succeeded(replace(op, x, sigmoid, rewriter)))
        return success();
    }
    return rewriter.notifyMatchFailure(op, "no factor is sigmoid of the other");
  }
};
} // namespace

void raise::populateSilu(RewritePatternSet &patterns) {
  patterns.add<RaiseSilu>(patterns.getContext());
}
