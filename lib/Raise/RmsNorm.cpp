//===- RmsNorm.cpp - Root-mean-square norms -------------------------------===//
//
//   x * rsqrt(mean(x^2) + epsilon)            any side, any cast to fp32
//   ... * w                                   any side, cast before or after
//
// Each factor is a pattern of its own, so that every order of casts and
// operands is found without a list of them.
//
//===----------------------------------------------------------------------===//

#include "RmsNorm.h"
#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

//===----------------------------------------------------------------------===//
// The core
//===----------------------------------------------------------------------===//

/// The base of pow(base, exponent), when the exponent is that scalar.
static Value getBase(Value value, double exponent) {
  auto pow = value.getDefiningOp<PowOp>();
  if (!pow || getScalar(pow.getRhs()) != exponent ||
      pow.getLhs().getType() != pow.getType())
    return {};
  return pow.getLhs();
}

/// The value v of which `value` is the square root. A power of 0.5 differs from
/// it for -0 and -inf only, which no mean of squares with an epsilon is.
static Value getRoot(Value value) {
  if (auto sqrt = value.getDefiningOp<SqrtOp>())
    return sqrt.getInput();
  return getBase(value, 0.5);
}

/// The value v of which `value` is the reciprocal square root.
static Value getReciprocalRoot(Value value) {
  if (auto rsqrt = value.getDefiningOp<RsqrtOp>())
    return rsqrt.getInput();
  if (auto reciprocal = value.getDefiningOp<ReciprocalOp>())
    return getRoot(reciprocal.getInput());
  return getBase(value, -0.5);
}

/// mean(x^2) over the last axis: the squared value.
static FailureOr<Value> matchMeanSquare(Value value, unsigned bits,
                                        Trace &trace) {
  Operation *op = value.getDefiningOp();
  Value sum = value;
  double factor = 1;
  if (auto scaled = getScaled(value)) {
    sum = scaled->x;
    factor = scaled->factor;
  }
  ArrayRef<int64_t> axes;
  bool keepdims = false;
  Value reduced;
  if (auto mean = sum.getDefiningOp<ReduceMeanOp>(); mean && factor == 1) {
    axes = mean.getAxes(), keepdims = mean.getKeepdims();
    reduced = mean.getInput();
  } else if (auto total = sum.getDefiningOp<ReduceSumOp>()) {
    axes = total.getAxes(), keepdims = total.getKeepdims();
    reduced = total.getInput();
    if (!isNear(factor * lastSize(reduced), 1, 1e-6))
      return trace.fail("AXIS_NOT_LAST", total,
                        "a sum divided by the size of the last axis",
                        "a factor of " + Twine(std::to_string(factor)));
  } else {
    return trace.fail("PATTERN", op, "a mean of squares", describe(sum));
  }
  trace.step();
  int64_t last = getSymShape(reduced).size() - 1;
  if (axes != ArrayRef<int64_t>(last))
    return trace.fail("AXIS_NOT_LAST", sum.getDefiningOp(),
                      "a mean over axis " + Twine(last) + " only",
                      axes.empty() ? Twine("no axis")
                                   : "axis " + Twine(axes.front()) + " of " +
                                         Twine(axes.size()));
  if (!keepdims)
    return trace.fail("AXIS_NOT_LAST", sum.getDefiningOp(),
                      "a mean that keeps its axis", "keepdims = 0");
  trace.step();
  Value square = stripCasts(reduced, bits);
  auto squared = square.getDefiningOp<SquareOp>();
  if (!squared)
    return trace.fail("PATTERN", square.getDefiningOp(), "a square",
                      describe(square));
  trace.step();
  return squared.getInput();
}

/// mean(x^2) + epsilon: x and epsilon.
static FailureOr<RmsNormMatch> matchVariance(Value value, unsigned bits,
                                             Trace &trace) {
  value = stripCasts(value, bits);
  auto add = value.getDefiningOp<AddOp>();
  if (!add)
    return trace.fail("PATTERN", value.getDefiningOp(),
                      "epsilon added inside the root", describe(value));
  trace.step();
  for (unsigned i : {0u, 1u}) {
    auto epsilon = getScalar(other(add, i));
    if (!epsilon)
      continue;
    trace.step();
    if (*epsilon < 0 || add->getOperand(i).getType() != add.getType())
      return trace.fail("EPS_NOT_CONST", add, "a scalar epsilon of 0 or more",
                        std::to_string(*epsilon));
    auto x = matchMeanSquare(stripCasts(add->getOperand(i), bits), bits, trace);
    if (failed(x))
      return failure();
    return RmsNormMatch{*x, *epsilon};
  }
  return trace.fail("EPS_NOT_CONST", add, "a constant epsilon",
                    describe(add.getLhs()) + " and " + describe(add.getRhs()));
}

FailureOr<RmsNormMatch> raise::matchRmsNorm(Operation *root, Trace &trace) {
  // The precision of the graph: casts to less round on purpose.
  unsigned bits = floatBits(root->getResult(0));
  for (unsigned i : {0u, 1u}) {
    if (isa<DivOp>(root) && i == 1)
      break;
    if (!isa<MulOp, DivOp>(root))
      break;
    Value scale = stripCasts(other(root, i), bits);
    Value variance =
        isa<DivOp>(root) ? getRoot(scale) : getReciprocalRoot(scale);
    if (!variance)
      continue;
    trace.step();
    auto match = matchVariance(variance, bits, trace);
    if (failed(match))
      return failure();
    Value x = stripWidening(root->getOperand(i));
    if (x != stripWidening(match->x))
      return trace.fail("PATTERN", root,
                        "a product with the squared value, " +
                            Twine(describe(match->x)),
                        describe(x));
    if (!sameShape(x, root->getResult(0)))
      return trace.fail("PATTERN", root, "a product of the input's shape",
                        "a wider one");
    if (floatBits(root->getResult(0)) > 32)
      return trace.fail("CAST_ORDER", root, "a norm computed in fp32", "fp64");
    return RmsNormMatch{x, match->epsilon};
  }
  return trace.fail("PATTERN", root, "a product with a reciprocal root",
                    "none");
}

namespace {
/// x * rsqrt(mean(x^2) + epsilon) -> rms_norm(x)
template <typename OpTy>
struct RaiseRmsNorm final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    Trace trace;
    auto match = matchRmsNorm(op, trace);
    if (failed(match))
      return rewriter.notifyMatchFailure(op, trace.reason());
    reportMatch("rms_norm", op.getLoc());
    rewriter.replaceOpWithNewOp<RmsNormOp>(
        op, op.getType(), match->x, Value(),
        rewriter.getF32FloatAttr(match->epsilon), UnitAttr());
    return success();
  }
};

/// rms_norm(x) * w -> rms_norm(x, w). A normalised value that was rounded to
/// 16 bits before the product stays so in strict numerics. One normalised
/// value with several weights is as many norms; one with another use as well
/// is computed once and stays without weight.
struct AbsorbWeight final : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;

  static bool isWeighting(Operation *user, RmsNormOp norm) {
    auto mul = dyn_cast<MulOp>(user);
    if (!mul || mul.getType() != norm.getType())
      return false;
    return isVectorAlongLast(
        other(mul, mul.getLhs() == norm.getResult() ? 0 : 1), norm);
  }

  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    for (unsigned i : {0u, 1u}) {
      auto norm = op->getOperand(i).getDefiningOp<RmsNormOp>();
      if (!norm || norm.getWeight())
        continue;
      if (!llvm::all_of(norm->getUsers(), [&](Operation *user) {
            return isWeighting(user, norm);
          }))
        return rewriter.notifyMatchFailure(
            op, "a user of the norm is no product with a vector along the "
                "last axis, of the norm's type");
      rewriter.replaceOpWithNewOp<RmsNormOp>(
          op, op.getType(), norm.getInput(), other(op, i),
          norm.getEpsilonAttr(),
          floatBits(norm) < 32 ? rewriter.getUnitAttr() : UnitAttr());
      return success();
    }
    return rewriter.notifyMatchFailure(op,
                                       "no factor is a norm without weight");
  }
};
} // namespace

void raise::populateRmsNorm(RewritePatternSet &patterns) {
  patterns.add<RaiseRmsNorm<MulOp>, RaiseRmsNorm<DivOp>, AbsorbWeight>(
      patterns.getContext());
}
