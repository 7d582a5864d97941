//===- MomentSpellings.cpp - One spelling for means and variances ---------===//
//
//   sum(x) / n, x times a vector of 1/n              -> mean(x)
//   the product of each row with itself              -> sum(x^2)
//   mean(x^2) - mean(x)^2                            -> mean((x - mean(x))^2)
//   x * a - mean(x) * a, x * a + (b - mean(x) * a)   -> (x - mean(x)) * a + b
//
//===----------------------------------------------------------------------===//

#include "Factors.h"
#include "Patterns.h"
#include "Roots.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// The number of elements of `x` along `axes`, when it is constant.
static std::optional<int64_t> countAlong(Value x, ArrayRef<int64_t> axes) {
  int64_t count = 1;
  for (int64_t axis : axes) {
    auto size = getSymShape(x)[axis].asConstant();
    if (!size || *size == 0)
      return std::nullopt;
    count *= *size;
  }
  return count;
}

static ReduceSumOp getSum(Value value) {
  return value.getDefiningOp<ReduceSumOp>();
}

namespace {
/// c * sum(x) -> mean(x) where c is one over the number of elements
template <typename OpTy>
struct SumToMean final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    std::optional<Scaled> scaled = getScaled(op.getResult());
    ReduceSumOp sum = scaled ? getSum(scaled->x) : ReduceSumOp();
    auto count = sum ? countAlong(sum.getInput(), sum.getAxes()) : std::nullopt;
    if (!count || !isNear(scaled->factor * *count, 1, 2e-6))
      return rewriter.notifyMatchFailure(
          op, "no sum divided by the number of its elements");
    rewriter.replaceOpWithNewOp<ReduceMeanOp>(op, op.getType(), sum.getInput(),
                                              sum.getAxes(), sum.getKeepdims());
    return success();
  }
};

/// sum(c * x) -> mean(x) for the same c
struct SumOfScaled final : OpRewritePattern<ReduceSumOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceSumOp op,
                                PatternRewriter &rewriter) const override {
    auto scaled = getScaled(op.getInput());
    auto count = countAlong(op.getInput(), op.getAxes());
    if (!scaled || !count || !isNear(scaled->factor * *count, 1, 2e-6))
      return rewriter.notifyMatchFailure(
          op, "no terms divided by the number of elements");
    rewriter.replaceOpWithNewOp<ReduceMeanOp>(op, op.getType(), scaled->x,
                                              op.getAxes(), op.getKeepdims());
    return success();
  }
};

/// matmul(x, [n, 1] of one number c) -> c * sum(x)
struct ProductWithOnes final : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    auto scalar = getScalar(op.getRhs());
    SymShape shape = getSymShape(op.getRhs());
    Type element = elementType(op.getResult());
    if (!scalar || shape.size() != 2 || lastSize(op.getResult()) != 1 ||
        op.getTransposeLhs() || elementType(op.getLhs()) != element ||
        !isa<FloatType>(element) || getSymShape(op.getLhs()).size() < 2)
      return rewriter.notifyMatchFailure(op, "no sum of rows as a product");
    int64_t last = getSymShape(op.getLhs()).size() - 1;
    Value sum = ReduceSumOp::create(rewriter, op.getLoc(), op.getLhs(),
                                    ArrayRef<int64_t>(last), true);
    auto type = RankedTensorType::get({}, element);
    Attribute attr = FloatAttr::get(element, *scalar);
    Value factor = ConstantOp::create(rewriter, op.getLoc(),
                                      DenseElementsAttr::get(type, attr));
    rewriter.replaceOpWithNewOp<MulOp>(op, op.getType(), sum, factor);
    return success();
  }
};

/// matmul(rows of x [.., 1, n], the same as columns [.., n, 1]) -> sum(x^2)
struct ProductWithItself final : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  /// Whether `transpose` moves axes of size 1 alone.
  static bool keepsOrder(TransposeOp transpose) {
    int64_t last = -1;
    for (int64_t from : transpose.getPerm()) {
      if (getSymShape(transpose.getInput())[from] == SymExpr(1))
        continue;
      if (from < last)
        return false;
      last = from;
    }
    return true;
  }

  /// What `value` shows under another shape, in the same order.
  static Value getSource(Value value) {
    while (Operation *op = value.getDefiningOp()) {
      auto transpose = dyn_cast<TransposeOp>(op);
      if (!isa<ReshapeOp>(op) && !(transpose && keepsOrder(transpose)))
        break;
      value = op->getOperand(0);
    }
    return value;
  }

  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    SymShape left = getSymShape(op.getLhs()), right = getSymShape(op.getRhs()),
             result = getSymShape(op.getResult());
    size_t rank = result.size();
    if (rank < 2 || left.size() != rank || right.size() != rank ||
        result[rank - 1] != SymExpr(1) || result[rank - 2] != SymExpr(1))
      return rewriter.notifyMatchFailure(op, "no product of vectors");
    Value x = getSource(op.getLhs());
    SymExpr inner = left[rank - (op.getTransposeLhs() ? 2 : 1)];
    if (x != getSource(op.getRhs()) || !isFloat(x) ||
        getSymShape(x).back() != inner ||
        numElements(left) != numElements(right))
      return rewriter.notifyMatchFailure(op, "the vectors are not one");
    int64_t last = getSymShape(x).size() - 1;
    Value square = SquareOp::create(rewriter, op.getLoc(), x);
    Value sum = ReduceSumOp::create(rewriter, op.getLoc(), square,
                                    ArrayRef<int64_t>(last), true);
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), sum);
    return success();
  }
};

/// mean(x^2) - mean(x)^2 -> mean((x - mean(x))^2), which loses no digits
struct VarianceOfMoments final : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SubOp op,
                                PatternRewriter &rewriter) const override {
    auto second = op.getLhs().getDefiningOp<ReduceMeanOp>();
    auto squared = op.getRhs().getDefiningOp<SquareOp>();
    auto first =
        squared ? squared.getInput().getDefiningOp<ReduceMeanOp>() : nullptr;
    auto square =
        second ? second.getInput().getDefiningOp<SquareOp>() : nullptr;
    if (!first || !square || square.getInput() != first.getInput() ||
        first.getAxes() != second.getAxes() || !first.getKeepdims() ||
        !second.getKeepdims())
      return rewriter.notifyMatchFailure(op, "no difference of moments");
    Value x = first.getInput();
    Value centred = SubOp::create(rewriter, op.getLoc(), x.getType(), x, first);
    Value deviation = SquareOp::create(rewriter, op.getLoc(), centred);
    rewriter.replaceOpWithNewOp<ReduceMeanOp>(
        op, op.getType(), deviation, first.getAxes(), first.getKeepdims());
    return success();
  }
};

/// (c * sqrt(sum(x^2)))^2 -> c^2 * sum(x^2)
struct SquareOfLength final : OpRewritePattern<SquareOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SquareOp op,
                                PatternRewriter &rewriter) const override {
    auto root = getRoot(op.getInput(), floatBits(op));
    Operation *sum = root ? root->radicand.getDefiningOp() : nullptr;
    if (!isa_and_nonnull<ReduceSumOp, ReduceMeanOp>(sum) || root->inverse ||
        !sum->getOperand(0).getDefiningOp<SquareOp>() ||
        root->radicand.getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "no square of a length");
    Type element = elementType(op.getResult());
    Attribute factor = FloatAttr::get(element, root->factor * root->factor);
    Value constant = ConstantOp::create(
        rewriter, op.getLoc(),
        DenseElementsAttr::get(RankedTensorType::get({}, element), factor));
    rewriter.replaceOpWithNewOp<MulOp>(op, op.getType(), root->radicand,
                                       constant);
    return success();
  }
};

/// max(mean(x^2), 0) -> mean(x^2)
struct FloorOfSquares final : OpRewritePattern<MaxOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MaxOp op,
                                PatternRewriter &rewriter) const override {
    for (unsigned i : {0u, 1u}) {
      auto mean = op->getOperand(i).getDefiningOp<ReduceMeanOp>();
      if (!mean || !mean.getInput().getDefiningOp<SquareOp>() ||
          mean.getType() != op.getType() || getScalar(other(op, i)) != 0.0)
        continue;
      rewriter.replaceOp(op, mean);
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no maximum of a variance and 0");
  }
};
} // namespace

/// The value a for which `of` is x * a and `with` is mean(x) * a.
static Value getCommonFactor(Value of, Value with, Value &x, Value &mean) {
  auto left = of.getDefiningOp<MulOp>(), right = with.getDefiningOp<MulOp>();
  for (unsigned i : {0u, 1u})
    for (unsigned j : {0u, 1u}) {
      if (!left || !right || other(left, i) != other(right, j))
        continue;
      x = left->getOperand(i), mean = right->getOperand(j);
      auto reduced = mean.getDefiningOp<ReduceMeanOp>();
      if (reduced && reduced.getInput() == x && reduced.getKeepdims() &&
          x.getType() == of.getType())
        return other(left, i);
    }
  return {};
}

static Value createCentred(PatternRewriter &rewriter, Location loc, Value x,
                           Value mean, Value factor) {
  Value centred = SubOp::create(rewriter, loc, x.getType(), x, mean);
  return MulOp::create(rewriter, loc, x.getType(), centred, factor);
}

namespace {
struct CentredProduct final : OpRewritePattern<SubOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SubOp op,
                                PatternRewriter &rewriter) const override {
    Value x, mean;
    Value factor = getCommonFactor(op.getLhs(), op.getRhs(), x, mean);
    if (!factor || x.getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "no x and its mean times one");
    rewriter.replaceOp(op,
                       createCentred(rewriter, op.getLoc(), x, mean, factor));
    return success();
  }
};

struct CentredProductWithBias final : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op,
                                PatternRewriter &rewriter) const override {
    for (unsigned i : {0u, 1u}) {
      auto shift = other(op, i).getDefiningOp<SubOp>();
      Value x, mean;
      Value factor =
          shift ? getCommonFactor(op->getOperand(i), shift.getRhs(), x, mean)
                : Value();
      if (!factor || x.getType() != op.getType())
        continue;
      Value product = createCentred(rewriter, op.getLoc(), x, mean, factor);
      rewriter.replaceOpWithNewOp<AddOp>(op, op.getType(), product,
                                         shift.getLhs());
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no shifted product of x");
  }
};
} // namespace

void raise::populateMomentSpellings(RewritePatternSet &patterns) {
  patterns.add<SumToMean<MulOp>, SumToMean<DivOp>, SumOfScaled, ProductWithOnes,
               ProductWithItself, VarianceOfMoments, FloorOfSquares,
               SquareOfLength, CentredProduct, CentredProductWithBias>(
      patterns.getContext());
}
