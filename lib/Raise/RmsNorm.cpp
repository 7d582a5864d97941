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
#include "Factors.h"
#include "Patterns.h"
#include "Roots.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

//===----------------------------------------------------------------------===//
// The core
//===----------------------------------------------------------------------===//

/// Whether a factor is 1 but for the rounding of the constants it is made of.
static bool isOne(double factor, Type element) {
  double rounding = element.isBF16()  ? 0x1p-8
                    : element.isF16() ? 0x1p-11
                                      : 2e-6;
  return isNear(factor, 1, rounding);
}

/// x with the squared value `squared`: one may be a multiple of the other,
/// which enters the factors of the variance and of the result.
static Value getCommon(Value x, Value squared, double &variance,
                       double &result) {
  if (x == squared)
    return x;
  if (auto scaled = getScaled(squared);
      scaled && stripWidening(scaled->x) == x) {
    variance *= scaled->factor * scaled->factor;
    return x;
  }
  if (auto scaled = getScaled(x);
      scaled && stripWidening(scaled->x) == squared) {
    result *= scaled->factor;
    return squared;
  }
  return {};
}

FailureOr<RmsNormMatch> raise::matchRmsNorm(Operation *root, Trace &trace) {
  // The precision of the graph: casts to less round on purpose.
  unsigned bits = floatBits(root->getResult(0));
  for (unsigned i : {0u, 1u}) {
    if (!isa<MulOp, DivOp>(root) || (isa<DivOp>(root) && i == 1))
      break;
    auto scale = getRoot(other(root, i), bits);
    if (!scale || scale->inverse == isa<DivOp>(root))
      continue;
    trace.step();
    auto variance = matchVariance(scale->radicand, bits, trace);
    if (failed(variance))
      return failure();
    double factor = isa<DivOp>(root) ? 1 / scale->factor : scale->factor;
    Value squared = stripWidening(variance->x);
    Value x = getCommon(stripWidening(root->getOperand(i)), squared,
                        variance->factor, factor);
    if (!x)
      return trace.fail("PATTERN", root,
                        "a product with the squared value, " +
                            Twine(describe(squared)),
                        describe(stripWidening(root->getOperand(i))));
    if (!sameShape(x, root->getResult(0)))
      return trace.fail("PATTERN", root, "a product of the input's shape",
                        "a wider one");
    if (floatBits(root->getResult(0)) > 32)
      return trace.fail("CAST_ORDER", root, "a norm computed in fp32", "fp64");
    if (!(variance->factor > 0))
      return trace.fail("PATTERN", root, "a positive factor of the mean",
                        std::to_string(variance->factor));
    factor /= std::sqrt(variance->factor);
    if (isOne(factor, elementType(root->getResult(0))))
      factor = 1;
    if (factor != 1 && lastSize(x) < 1)
      return trace.fail("AXIS_NOT_LAST", root,
                        "a root of the mean over an axis of open size",
                        "a multiple of it");
    return RmsNormMatch{x, variance->epsilon / variance->factor, factor};
  }
  return trace.fail("PATTERN", root, "a product with a reciprocal root",
                    "none");
}

/// A weight that is the same number everywhere.
static Value createWeight(PatternRewriter &rewriter, Location loc, Value x,
                          double factor) {
  auto type = RankedTensorType::get({lastSize(x)}, rewriter.getF32Type());
  return ConstantOp::create(
      rewriter, loc, DenseElementsAttr::get(type, static_cast<float>(factor)));
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
    Value weight = match->factor == 1 ? Value()
                                      : createWeight(rewriter, op.getLoc(),
                                                     match->x, match->factor);
    rewriter.replaceOpWithNewOp<RmsNormOp>(
        op, op.getType(), match->x, weight,
        rewriter.getF32FloatAttr(match->epsilon), UnitAttr());
    return success();
  }
};

/// (x * w) * r, x * (r * w), x / (s / w) -> (x * r) * w, where r is the root
/// of the mean of x^2: the core first, as the other patterns want it.
template <typename OpTy>
struct GatherNorm final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  /// The factor that is x, where `factor` divides by the root of mean(x^2).
  static std::optional<Factor> getNormalised(Operation *op,
                                             const Factor &factor) {
    unsigned bits = floatBits(op->getResult(0));
    auto root = getRoot(factor.value, bits);
    Trace trace;
    if (!root || root->inverse == factor.inverse)
      return std::nullopt;
    auto variance = matchVariance(root->radicand, bits, trace);
    if (failed(variance))
      return std::nullopt;
    // The squared value may be a multiple of what is normalised.
    Value squared = stripWidening(variance->x);
    auto scaled = getScaled(squared);
    Value unscaled = scaled ? stripWidening(scaled->x) : squared;
    auto isSquared = [&](Value value) {
      Value narrow = stripWidening(value);
      return narrow == squared || narrow == unscaled;
    };
    for (const Factor &x : getFactors(op->getResult(0), isSquared))
      if (isSquared(x.value) && !x.inverse &&
          meetIn(op, x.value, factor.value, isSquared))
        return x;
    return std::nullopt;
  }

  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    for (const Factor &root : getFactors(op.getResult())) {
      auto x = getNormalised(op, root);
      if (!x || !isFloat(x->value))
        continue;
      // The two alone are what the core is matched as.
      for (unsigned i : {0u, 1u})
        if (op->getOperand(i) == x->value && (i == 0 || isa<MulOp>(op)) &&
            getRoot(other(op, i), floatBits(op)))
          return rewriter.notifyMatchFailure(op, "the core is together");
      gather(op, *x, root, rewriter);
      return success();
    }
    return rewriter.notifyMatchFailure(
        op, "no factors are a value and its reciprocal root");
  }

  static void gather(OpTy op, const Factor &x, const Factor &root,
                     PatternRewriter &rewriter) {
    SmallVector<Factor> numbers, vectors, others;
    bool hasX = false, hasRoot = false;
    for (const Factor &factor :
         getFactors(op.getResult(), [&](Value v) { return v == x.value; })) {
      // Each once: further ones are factors of the norm.
      bool &taken = factor.value == x.value ? hasX : hasRoot;
      if (!taken && (factor.value == x.value || factor.value == root.value))
        taken = true;
      else if (getScalar(factor.value))
        numbers.push_back({factor.value, factor.inverse != root.inverse});
      else if (isVectorAlongLast(factor.value, x.value))
        vectors.push_back(factor);
      else
        others.push_back(factor);
    }
    Location loc = op.getLoc();
    // The numbers are the root's: where they are one over its size, the core
    // is a norm without a factor.
    Factor scaled = {createProduct(rewriter, loc, root.value, numbers),
                     root.inverse};
    Value result = createProduct(rewriter, loc, x.value, scaled);
    result = createProduct(rewriter, loc, result, vectors);
    result = createProduct(rewriter, loc, result, others);
    if (result.getType() != op.getType())
      result = ReshapeOp::create(rewriter, loc, op.getType(), result);
    rewriter.replaceOp(op, result);
  }
};

/// rms_norm(x) * w -> rms_norm(x, w); rms_norm(x, c) * w -> rms_norm(x, c * w)
/// of a number c. A normalised value that was rounded to
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
      auto number =
          norm && norm.getWeight() ? getScalar(norm.getWeight()) : std::nullopt;
      if (!norm || (norm.getWeight() && !number))
        continue;
      if (!llvm::all_of(norm->getUsers(), [&](Operation *user) {
            return isWeighting(user, norm);
          }))
        return rewriter.notifyMatchFailure(
            op, "a user of the norm is no product with a vector along the "
                "last axis, of the norm's type");
      Value weight = other(op, i);
      if (number)
        weight = createMultiple(rewriter, op.getLoc(), weight, *number);
      rewriter.replaceOpWithNewOp<RmsNormOp>(
          op, op.getType(), norm.getInput(), weight, norm.getEpsilonAttr(),
          floatBits(norm) < 32 ? rewriter.getUnitAttr() : UnitAttr());
      return success();
    }
    return rewriter.notifyMatchFailure(op,
                                       "no factor is a norm without weight");
  }
};
} // namespace

void raise::populateRmsNorm(RewritePatternSet &patterns) {
  patterns.add<RaiseRmsNorm<MulOp>, RaiseRmsNorm<DivOp>, GatherNorm<MulOp>,
               GatherNorm<DivOp>, AbsorbWeight>(patterns.getContext());
}
