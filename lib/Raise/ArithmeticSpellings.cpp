//===- ArithmeticSpellings.cpp - One spelling for arithmetic --------------===//

#include "Factors.h"
#include "Patterns.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

namespace {
/// pow(x, 2) -> square(x); pow(x, 1) -> x; pow(x, -1) -> reciprocal(x);
/// pow(e, x) -> exp(x)
struct PowOfConstant final : OpRewritePattern<PowOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PowOp op,
                                PatternRewriter &rewriter) const override {
    auto base = getScalar(op.getLhs());
    if (base && isNear(*base, std::exp(1.0), 2e-7) &&
        op.getRhs().getType() == op.getType()) {
      rewriter.replaceOpWithNewOp<ExpOp>(op, op.getType(), op.getRhs());
      return success();
    }
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
} // namespace

/// x when `value` is 1 + exp(-x).
static Value getLogisticArgument(Value value, PatternRewriter &rewriter) {
  auto add = value.getDefiningOp<AddOp>();
  for (unsigned i : {0u, 1u}) {
    auto exp = add ? add->getOperand(i).getDefiningOp<ExpOp>() : ExpOp();
    if (!exp || exp.getType() != add.getType() ||
        getScalar(other(add, i)) != 1.0)
      continue;
    if (auto neg = exp.getInput().getDefiningOp<NegOp>())
      return neg.getInput();
    return NegOp::create(rewriter, exp.getLoc(), exp.getInput());
  }
  return {};
}

namespace {
/// reciprocal(sqrt(x)) -> rsqrt(x); reciprocal(exp(x)) -> exp(-x);
/// reciprocal(1 + exp(-x)) -> sigmoid(x)
struct ReciprocalSpelling final : OpRewritePattern<ReciprocalOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReciprocalOp op,
                                PatternRewriter &rewriter) const override {
    if (auto root = op.getInput().getDefiningOp<SqrtOp>()) {
      rewriter.replaceOpWithNewOp<RsqrtOp>(op, op.getType(), root.getInput());
      return success();
    }
    if (auto exp = op.getInput().getDefiningOp<ExpOp>()) {
      Value negated = NegOp::create(rewriter, op.getLoc(), exp.getInput());
      rewriter.replaceOpWithNewOp<ExpOp>(op, op.getType(), negated);
      return success();
    }
    if (Value x = getLogisticArgument(op.getInput(), rewriter)) {
      rewriter.replaceOpWithNewOp<SigmoidOp>(op, op.getType(), x);
      return success();
    }
    return rewriter.notifyMatchFailure(op, "input is neither a root nor a "
                                           "logistic denominator");
  }
};

/// (exp(x) - 1) / (1 + exp(x)) -> tanh(x / 2), and the same of the other sign
struct TanhOfExponentials final : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op,
                                PatternRewriter &rewriter) const override {
    auto difference = op.getLhs().getDefiningOp<SubOp>();
    auto sum = op.getRhs().getDefiningOp<AddOp>();
    for (unsigned i : {0u, 1u}) {
      auto exp = sum ? sum->getOperand(i).getDefiningOp<ExpOp>() : ExpOp();
      if (!exp || !difference || getScalar(other(sum, i)) != 1.0 ||
          exp.getType() != op.getType())
        continue;
      for (unsigned j : {0u, 1u}) {
        if (difference->getOperand(j) != exp.getResult() ||
            getScalar(other(difference, j)) != 1.0)
          continue;
        Value argument = createMultiple(rewriter, op.getLoc(), exp.getInput(),
                                        j == 0 ? 0.5 : -0.5);
        rewriter.replaceOpWithNewOp<TanhOp>(op, op.getType(), argument);
        return success();
      }
    }
    return rewriter.notifyMatchFailure(op, "no quotient of exp(x) -+ 1");
  }
};

/// exp(x) / (1 + exp(x)) -> sigmoid(x);
/// x / (1 + exp(-x')) -> x * sigmoid(x')
struct DivByLogistic final : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;

  static bool isExp(Value value) {
    return value.getDefiningOp<ExpOp>() != nullptr;
  }

  LogicalResult matchAndRewrite(DivOp op,
                                PatternRewriter &rewriter) const override {
    auto exp = op.getLhs().getDefiningOp<ExpOp>();
    auto add = op.getRhs().getDefiningOp<AddOp>();
    for (unsigned i : {0u, 1u})
      if (exp && add && add->getOperand(i) == exp.getResult() &&
          exp.getType() == op.getType() && getScalar(other(add, i)) == 1.0) {
        rewriter.replaceOpWithNewOp<SigmoidOp>(op, op.getType(),
                                               exp.getInput());
        return success();
      }
    // The quotient of a difference of exponentials is a hyperbolic tangent.
    auto difference = op.getLhs().getDefiningOp<SubOp>();
    Value x = difference && llvm::any_of(difference->getOperands(), isExp)
                  ? Value()
                  : getLogisticArgument(op.getRhs(), rewriter);
    if (!x)
      return rewriter.notifyMatchFailure(op, "divisor is no 1 + exp(-x)");
    Value sigmoid =
        SigmoidOp::create(rewriter, op.getLoc(), op.getRhs().getType(), x);
    rewriter.replaceOpWithNewOp<MulOp>(op, op.getType(), op.getLhs(), sigmoid);
    return success();
  }
};

/// a + -b -> a - b
struct AddOfNegation final : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op,
                                PatternRewriter &rewriter) const override {
    for (unsigned i : {1u, 0u}) {
      auto neg = op->getOperand(i).getDefiningOp<NegOp>();
      if (!neg || !isFloat(op.getResult()))
        continue;
      rewriter.replaceOpWithNewOp<SubOp>(op, op.getType(), other(op, i),
                                         neg.getInput());
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no addend is a negation");
  }
};

/// 2 * sigmoid(x) - 1 -> tanh(x / 2)
struct TanhOfSigmoid final : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SubOp op,
                                PatternRewriter &rewriter) const override {
    auto scaled = getScaled(op.getLhs());
    SigmoidOp sigmoid =
        scaled ? scaled->x.getDefiningOp<SigmoidOp>() : SigmoidOp();
    if (!sigmoid || scaled->factor != 2 || getScalar(op.getRhs()) != 1.0 ||
        sigmoid.getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "not 2 * sigmoid(x) - 1");
    Value argument =
        createMultiple(rewriter, op.getLoc(), sigmoid.getInput(), 0.5);
    rewriter.replaceOpWithNewOp<TanhOp>(op, op.getType(), argument);
    return success();
  }
};

/// a - -b -> a + b
struct SubOfNegation final : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SubOp op,
                                PatternRewriter &rewriter) const override {
    auto neg = op.getRhs().getDefiningOp<NegOp>();
    if (!neg || !isFloat(op.getResult()))
      return rewriter.notifyMatchFailure(op, "subtrahend is no negation");
    rewriter.replaceOpWithNewOp<AddOp>(op, op.getType(), op.getLhs(),
                                       neg.getInput());
    return success();
  }
};

/// x * 1, x / 1 -> x, as large as the ones made it
template <typename OpTy>
struct FactorOfOnes final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    for (unsigned i : {0u, 1u}) {
      Value x = op->getOperand(i);
      if ((isa<DivOp>(op) && i == 1) || getScalar(other(op, i)) != 1.0 ||
          getScalar(x))
        continue;
      if (x.getType() == op.getType())
        rewriter.replaceOp(op, x);
      else
        rewriter.replaceOpWithNewOp<ExpandOp>(op, op.getType(), x);
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no factor is 1 everywhere");
  }
};

/// reciprocal(expand(x)) -> expand(reciprocal(x)), and so for roots
template <typename OpTy>
struct UnaryOfExpand final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    ExpandOp expand = getExpand(op.getInput());
    if (!expand)
      return rewriter.notifyMatchFailure(op, "input is no expand");
    Value inner = OpTy::create(rewriter, op.getLoc(), expand.getInput());
    rewriter.replaceOpWithNewOp<ExpandOp>(op, op.getType(), inner);
    return success();
  }
  static ExpandOp getExpand(Value value) {
    return value.getDefiningOp<ExpandOp>();
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
               TanhOfExponentials, DivByLogistic, AddOfNegation, SubOfNegation,
               TanhOfSigmoid, FactorOfOnes<MulOp>, FactorOfOnes<DivOp>,
               UnaryOfExpand<ReciprocalOp>, UnaryOfExpand<SqrtOp>,
               UnaryOfExpand<RsqrtOp>, AndTrue, WhereOfNot, MergeCasts>(
      patterns.getContext());
}
