//===- ArithmeticSpellings.cpp - One spelling for arithmetic --------------===//

#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

namespace {
/// pow(x, 2) -> square(x); pow(x, 1) -> x; pow(x, -1) -> reciprocal(x)
struct PowOfConstant final : OpRewritePattern<PowOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PowOp op,
                                PatternRewriter &rewriter) const override {
    auto exponent = getScalar(op.getRhs());
    if (!exponent || !isFloat(op.getLhs()))
      return rewriter.notifyMatchFailure(op, "exponent is no known scalar");
    if (op.getLhs().getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "exponent widens the result");
    if (*exponent == 2)
      rewriter.replaceOpWithNewOp<SquareOp>(op, op.getType(), op.getLhs());
    else if (*exponent == 1)
      rewriter.replaceOp(op, op.getLhs());
    else if (*exponent == -1)
      rewriter.replaceOpWithNewOp<ReciprocalOp>(op, op.getType(), op.getLhs());
    else
      return rewriter.notifyMatchFailure(op, "exponent is not 2, 1 or -1");
    return success();
  }
};

/// x * x -> square(x); x * -1 -> neg(x)
struct MulSpelling final : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    if (!isFloat(op.getResult()))
      return rewriter.notifyMatchFailure(op, "not a float");
    if (op.getLhs() == op.getRhs()) {
      rewriter.replaceOpWithNewOp<SquareOp>(op, op.getType(), op.getLhs());
      return success();
    }
    for (unsigned i : {0u, 1u}) {
      Value x = op->getOperand(i);
      if (getScalar(other(op, i)) == -1.0 && x.getType() == op.getType()) {
        rewriter.replaceOpWithNewOp<NegOp>(op, op.getType(), x);
        return success();
      }
    }
    return rewriter.notifyMatchFailure(op, "neither a square nor a negation");
  }
};

/// 1 / x -> reciprocal(x)
struct DivToReciprocal final : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op,
                                PatternRewriter &rewriter) const override {
    if (!isFloat(op.getResult()) || getScalar(op.getLhs()) != 1.0)
      return rewriter.notifyMatchFailure(op, "dividend is not 1");
    if (op.getRhs().getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "dividend widens the result");
    rewriter.replaceOpWithNewOp<ReciprocalOp>(op, op.getType(), op.getRhs());
    return success();
  }
};

/// reciprocal(sqrt(x)) -> rsqrt(x);
/// reciprocal(1 + exp(-x)) -> sigmoid(x)
struct ReciprocalSpelling final : OpRewritePattern<ReciprocalOp> {
  using OpRewritePattern::OpRewritePattern;

  static Value getSigmoidArgument(Value denominator) {
    auto add = denominator.getDefiningOp<AddOp>();
    if (!add)
      return {};
    for (unsigned i : {0u, 1u}) {
      auto exp = add->getOperand(i).getDefiningOp<ExpOp>();
      if (!exp || exp.getType() != add.getType() ||
          getScalar(other(add, i)) != 1.0)
        continue;
      if (auto neg = exp.getInput().getDefiningOp<NegOp>())
        return neg.getInput();
    }
    return {};
  }

  LogicalResult matchAndRewrite(ReciprocalOp op,
                                PatternRewriter &rewriter) const override {
    if (auto root = op.getInput().getDefiningOp<SqrtOp>()) {
      rewriter.replaceOpWithNewOp<RsqrtOp>(op, op.getType(), root.getInput());
      return success();
    }
    if (Value x = getSigmoidArgument(op.getInput())) {
      rewriter.replaceOpWithNewOp<SigmoidOp>(op, op.getType(), x);
      return success();
    }
    return rewriter.notifyMatchFailure(op, "input is neither a root nor a "
                                           "logistic denominator");
  }
};

/// x / (1 + exp(-x')) -> x * sigmoid(x')
struct DivByLogistic final : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op,
                                PatternRewriter &rewriter) const override {
    Value x = ReciprocalSpelling::getSigmoidArgument(op.getRhs());
    if (!x)
      return rewriter.notifyMatchFailure(op, "divisor is no 1 + exp(-x)");
    Value sigmoid =
        SigmoidOp::create(rewriter, op.getLoc(), op.getRhs().getType(), x);
    rewriter.replaceOpWithNewOp<MulOp>(op, op.getType(), op.getLhs(), sigmoid);
    return success();
  }
};

/// and(x, true) -> x
struct AndTrue final : OpRewritePattern<AndOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AndOp op,
                                PatternRewriter &rewriter) const override {
    if (!elementType(op.getResult()).isInteger(1))
      return rewriter.notifyMatchFailure(op, "not boolean");
    for (unsigned i : {0u, 1u})
      if (getScalar(other(op, i)) == 1.0 &&
          op->getOperand(i).getType() == op.getType()) {
        rewriter.replaceOp(op, op->getOperand(i));
        return success();
      }
    return rewriter.notifyMatchFailure(op, "no operand is true everywhere");
  }
};

/// where(not(c), a, b) -> where(c, b, a)
struct WhereOfNot final : OpRewritePattern<WhereOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(WhereOp op,
                                PatternRewriter &rewriter) const override {
    auto complement = op.getCondition().getDefiningOp<NotOp>();
    if (!complement)
      return rewriter.notifyMatchFailure(op, "condition is no complement");
    rewriter.replaceOpWithNewOp<WhereOp>(op, op.getType(),
                                         complement.getInput(), op.getOnFalse(),
                                         op.getOnTrue());
    return success();
  }
};

/// cast(cast(x)) -> cast(x) where the first loses nothing
struct MergeCasts final : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CastOp op,
                                PatternRewriter &rewriter) const override {
    Value source = stripWidening(op.getInput());
    if (source == op.getInput())
      return rewriter.notifyMatchFailure(op, "input is no widening cast");
    rewriter.replaceOpWithNewOp<CastOp>(op, op.getType(), source,
                                        op.getNoSaturate());
    return success();
  }
};
} // namespace

void raise::populateArithmeticSpellings(RewritePatternSet &patterns) {
  patterns.add<PowOfConstant, MulSpelling, DivToReciprocal, ReciprocalSpelling,
               DivByLogistic, AndTrue, WhereOfNot, MergeCasts>(
      patterns.getContext());
}
