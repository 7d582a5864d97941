//===- Softmax.cpp - Exponentials over their sum --------------------------===//
//
//   exp(x) / sum(exp(x))          -> softmax(x)
//   x - log(sum(exp(x)))          -> log softmax(x)
//   exp(log softmax(x))           -> softmax(x)
//   softmax(x - max(x))           -> softmax(x)
//   (exp(x) v) / sum(exp(x))      -> (exp(x) / sum(exp(x))) v
//
// A difference that is the same for all elements of a row changes nothing.
// The op takes the maximum off itself, and does not overflow without it.
//
//===----------------------------------------------------------------------===//

#include "Softmax.h"
#include "Factors.h"
#include "Patterns.h"

#include <limits>

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// exp(x), or where(c, exp(x), 0).
static ExpOp getExponential(Value value, Value &visible) {
  visible = {};
  if (auto where = value.getDefiningOp<WhereOp>()) {
    if (getScalar(where.getOnFalse()) != 0.0 ||
        where.getOnTrue().getType() != where.getType())
      return {};
    visible = where.getCondition();
    value = where.getOnTrue();
  }
  return value.getDefiningOp<ExpOp>();
}

FailureOr<SoftmaxMatch> raise::matchSoftmax(Operation *root, Trace &trace) {
  Value exponential, sum;
  if (auto quotient = dyn_cast<DivOp>(root)) {
    exponential = quotient.getLhs(), sum = quotient.getRhs();
  } else if (auto product = dyn_cast<MulOp>(root)) {
    for (unsigned i : {0u, 1u})
      if (auto inverse = other(product, i).getDefiningOp<ReciprocalOp>())
        exponential = product->getOperand(i), sum = inverse.getInput();
  }
  Value visible;
  ExpOp exp = exponential ? getExponential(exponential, visible) : ExpOp();
  if (!exp)
    return trace.fail("PATTERN", root, "exp(x) divided by its sum",
                      "another dividend");
  trace.step();
  auto reduce = sum.getDefiningOp<ReduceSumOp>();
  if (!reduce)
    return trace.fail("PATTERN", sum.getDefiningOp(),
                      "the sum of the exponentials", describe(sum));
  trace.step();
  if (reduce.getInput() != exponential)
    return trace.fail("PATTERN", reduce, "the sum of the dividend",
                      "a sum of " + Twine(describe(reduce.getInput())));
  if (reduce.getAxes().size() != 1)
    return trace.fail("AXIS_NOT_LAST", reduce, "a sum over one axis",
                      Twine(reduce.getAxes().size()) + " axes");
  if (!reduce.getKeepdims() || root->getResult(0).getType() != exp.getType())
    return trace.fail("LAYOUT", reduce, "a sum that keeps its axis",
                      "keepdims = 0");
  return SoftmaxMatch{exp.getInput(), reduce.getAxes()[0], visible};
}

namespace {
/// exp(x) / sum(exp(x)) -> softmax(x)
template <typename OpTy>
struct RaiseSoftmax final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    Trace trace;
    auto match = matchSoftmax(op, trace);
    if (failed(match))
      return rewriter.notifyMatchFailure(op, trace.reason());
    reportMatch("softmax", op.getLoc());
    Value x = match->input;
    if (match->visible) {
      auto type = RankedTensorType::get({}, elementType(x));
      Attribute hidden = FloatAttr::get(
          elementType(x), -std::numeric_limits<double>::infinity());
      Value low = ConstantOp::create(rewriter, op.getLoc(),
                                     DenseElementsAttr::get(type, hidden));
      x = WhereOp::create(rewriter, op.getLoc(), x.getType(), match->visible, x,
                          low);
    }
    rewriter.replaceOpWithNewOp<SoftmaxOp>(op, op.getType(), x, match->axis,
                                           false);
    return success();
  }
};
} // namespace

/// The sum of exponentials of which `value` is the logarithm.
static ReduceSumOp getLogOfSum(Value value) {
  auto log = value.getDefiningOp<LogOp>();
  auto sum = log ? log.getInput().getDefiningOp<ReduceSumOp>() : nullptr;
  return sum && sum.getKeepdims() && sum.getAxes().size() == 1 ? sum : nullptr;
}

/// The sum when `value` is log(sum(exp(x))), also spelled as
/// log(sum(exp(x - m))) + m.
static ReduceSumOp getLogSumExp(Value value, Value x) {
  if (ReduceSumOp sum = getLogOfSum(value)) {
    auto exp = sum.getInput().getDefiningOp<ExpOp>();
    return exp && exp.getInput() == x ? sum : nullptr;
  }
  auto add = value.getDefiningOp<AddOp>();
  for (unsigned i : {0u, 1u}) {
    ReduceSumOp sum = add ? getLogOfSum(add->getOperand(i)) : nullptr;
    auto exp = sum ? sum.getInput().getDefiningOp<ExpOp>() : nullptr;
    auto shifted = exp ? exp.getInput().getDefiningOp<SubOp>() : nullptr;
    if (shifted && shifted.getLhs() == x && shifted.getRhs() == other(add, i) &&
        sameShape(add, sum))
      return sum;
  }
  return {};
}

namespace {
/// x - log(sum(exp(x))) -> log softmax(x)
struct RaiseLogSoftmax final : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SubOp op,
                                PatternRewriter &rewriter) const override {
    Value x = op.getLhs();
    ReduceSumOp sum = getLogSumExp(op.getRhs(), x);
    if (!sum || x.getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "no logarithm of a sum of exp(x)");
    reportMatch("softmax", op.getLoc());
    rewriter.replaceOpWithNewOp<SoftmaxOp>(op, op.getType(), x,
                                           sum.getAxes()[0], true);
    return success();
  }
};

/// exp(log softmax(x)) -> softmax(x)
struct ExpOfLogSoftmax final : OpRewritePattern<ExpOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ExpOp op,
                                PatternRewriter &rewriter) const override {
    auto softmax = op.getInput().getDefiningOp<SoftmaxOp>();
    if (!softmax || !softmax.getLog())
      return rewriter.notifyMatchFailure(op, "input is no log softmax");
    rewriter.replaceOpWithNewOp<SoftmaxOp>(op, op.getType(), softmax.getInput(),
                                           softmax.getAxis(), false);
    return success();
  }
};

/// softmax(x - max(x)) -> softmax(x), also below a selection of some elements
struct ShiftedSoftmax final : OpRewritePattern<SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;

  /// x when `value` is x - max(x) over `axis` at least.
  static Value getUnshifted(Value value, int64_t axis) {
    auto sub = value.getDefiningOp<SubOp>();
    auto max = sub ? sub.getRhs().getDefiningOp<ReduceMaxOp>() : nullptr;
    if (!max || !max.getKeepdims() || max.getInput() != sub.getLhs() ||
        !llvm::is_contained(max.getAxes(), axis) ||
        sub.getType() != sub.getLhs().getType())
      return {};
    return sub.getLhs();
  }

  LogicalResult matchAndRewrite(SoftmaxOp op,
                                PatternRewriter &rewriter) const override {
    Value input = op.getInput();
    auto where = input.getDefiningOp<WhereOp>();
    if (where && getScalar(where.getOnFalse()) !=
                     -std::numeric_limits<double>::infinity())
      where = nullptr;
    Value x = getUnshifted(where ? where.getOnTrue() : input, op.getAxis());
    if (!x)
      return rewriter.notifyMatchFailure(op, "input is no difference from the "
                                             "maximum");
    if (where)
      x = WhereOp::create(rewriter, where.getLoc(), where.getType(),
                          where.getCondition(), x, where.getOnFalse());
    rewriter.modifyOpInPlace(op, [&] { op.getInputMutable().assign(x); });
    return success();
  }
};

/// (exp(x) v) / sum(exp(x)) -> (exp(x) / sum(exp(x))) v
template <typename OpTy>
struct DeferredSum final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  /// The product and the sum when `op` divides one by the other.
  static std::pair<MatmulOp, ReduceSumOp> getQuotient(OpTy op) {
    for (unsigned i : {0u, 1u}) {
      auto product = op->getOperand(i).template getDefiningOp<MatmulOp>();
      Value by = op->getOperand(1 - i);
      if (isa<DivOp>(op) && i == 1)
        break;
      if (isa<MulOp>(op)) {
        auto inverse = by.getDefiningOp<ReciprocalOp>();
        by = inverse ? inverse.getInput() : Value();
      }
      auto sum = by ? by.getDefiningOp<ReduceSumOp>() : nullptr;
      if (product && sum)
        return {product, sum};
    }
    return {};
  }

  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    auto [product, sum] = getQuotient(op);
    Value visible;
    if (!product || product.getLhs() != sum.getInput() ||
        !getExponential(sum.getInput(), visible))
      return rewriter.notifyMatchFailure(op, "no product of exponentials over "
                                             "their sum");
    int64_t last = sum.getInput().getType().getRank() - 1;
    if (product.getTransposeLhs() || !product->hasOneUse() ||
        !sum.getKeepdims() || sum.getAxes() != ArrayRef<int64_t>(last) ||
        product.getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "the sum is not of whole rows");
    Value probabilities =
        DivOp::create(rewriter, op.getLoc(), product.getLhs(), sum);
    rewriter.replaceOpWithNewOp<MatmulOp>(op, op.getType(), probabilities,
                                          product.getRhs(), false,
                                          product.getTransposeRhs());
    return success();
  }
};

/// (c * softmax(x)) v -> c * (softmax(x) v)
struct ScaledProbabilities final : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    Operation *scale = op.getLhs().getDefiningOp();
    auto scaled = getScaled(op.getLhs());
    if (!scaled || !scaled->x.getDefiningOp<SoftmaxOp>() ||
        !scale->hasOneUse() || !isFloat(op.getResult()))
      return rewriter.notifyMatchFailure(op, "no probabilities times a number");
    Location loc = op.getLoc();
    Value product =
        MatmulOp::create(rewriter, loc, op.getType(), scaled->x, op.getRhs(),
                         op.getTransposeLhs(), op.getTransposeRhs());
    rewriter.replaceOp(op,
                       createMultiple(rewriter, loc, product, scaled->factor));
    return success();
  }
};

/// transpose(softmax(transpose(x))) -> softmax(x) over the axis where it was
struct SoftmaxBetweenTransposes final : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto softmax = op.getInput().getDefiningOp<SoftmaxOp>();
    auto inner = softmax ? softmax.getInput().getDefiningOp<TransposeOp>()
                         : TransposeOp();
    if (!inner || !softmax->hasOneUse())
      return rewriter.notifyMatchFailure(op, "no softmax between transposes");
    int64_t axis = inner.getPerm()[softmax.getAxis()];
    if (axis + 1 != static_cast<int64_t>(op.getPerm().size()))
      return rewriter.notifyMatchFailure(op, "it was not over the last axis");
    Value moved = SoftmaxOp::create(rewriter, softmax.getLoc(),
                                    inner.getInput(), axis, softmax.getLog());
    SmallVector<int64_t> perm;
    for (int64_t to : op.getPerm())
      perm.push_back(inner.getPerm()[to]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), moved, perm);
    return success();
  }
};
} // namespace

void raise::populateSoftmaxSpellings(RewritePatternSet &patterns) {
  patterns.add<RaiseSoftmax<DivOp>, RaiseSoftmax<MulOp>, DeferredSum<DivOp>,
               DeferredSum<MulOp>, RaiseLogSoftmax, ExpOfLogSoftmax,
               ShiftedSoftmax, ScaledProbabilities, SoftmaxBetweenTransposes>(
      patterns.getContext());
}
