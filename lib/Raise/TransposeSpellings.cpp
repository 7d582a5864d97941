//===- TransposeSpellings.cpp - Products and scores the other way round ---===//
//
//   transpose(a b)                          -> transpose(b) transpose(a)
//   v^T p^T, p a softmax                     -> transpose(p v)
//   softmax over the rows of transposed scores, as the transposed
//   probabilities are multiplied             -> softmax over their columns
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// Whether `op` swaps the last two axes only.
static bool swapsLast(TransposeOp op) {
  ArrayRef<int64_t> perm = op.getPerm();
  size_t rank = perm.size();
  if (rank < 3)
    return false;
  for (size_t i = 0; i + 2 < rank; ++i)
    if (perm[i] != static_cast<int64_t>(i))
      return false;
  return perm[rank - 2] == static_cast<int64_t>(rank - 1);
}

static Value swapLast(OpBuilder &builder, Location loc, Value value) {
  int64_t rank = getSymShape(value).size();
  SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(rank));
  std::swap(perm[rank - 1], perm[rank - 2]);
  return TransposeOp::create(builder, loc, value, perm);
}

/// Whether `value` is scores: a product, with numbers and masks around it.
static bool isScores(Value value, unsigned depth = 6) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return false;
  if (auto product = dyn_cast<MatmulOp>(op))
    return getSymShape(product.getRhs()).size() > 2 &&
           !isConstantDerived(product.getLhs()) &&
           !isConstantDerived(product.getRhs());
  return isa<AddOp, MulOp, DivOp, WhereOp, TanhOp, CastOp, MaxOp>(op) &&
         op->hasOneUse() && llvm::any_of(op->getOperands(), [&](Value operand) {
           return isScores(operand, depth - 1);
         });
}

/// The probabilities of attention, behind casts.
static bool isSoftmax(Value value) {
  return stripCasts(value).getDefiningOp<SoftmaxOp>() != nullptr;
}

namespace {
struct TransposeOfProduct final : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto product = op.getInput().getDefiningOp<MatmulOp>();
    if (!product || !swapsLast(op) || !product->hasOneUse() ||
        getSymShape(product.getLhs()).size() != op.getPerm().size() ||
        getSymShape(product.getRhs()).size() != op.getPerm().size())
      return rewriter.notifyMatchFailure(op, "input is no batched product");
    if (isSoftmax(product.getLhs()) && !product.getTransposeLhs())
      return rewriter.notifyMatchFailure(op, "probabilities are to the left");
    // Angles are products of positions and frequencies.
    SymShape left = getSymShape(product.getLhs());
    if (left[left.size() - (product.getTransposeLhs() ? 2 : 1)] == SymExpr(1))
      return rewriter.notifyMatchFailure(op, "an outer product");
    rewriter.replaceOpWithNewOp<MatmulOp>(
        op, op.getType(), product.getRhs(), product.getLhs(),
        !product.getTransposeRhs(), !product.getTransposeLhs());
    return success();
  }
};

/// Values channels first: v^T p^T -> transpose(p v)
struct ProbabilitiesToTheRight final : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    SymShape shape = getSymShape(op.getResult());
    size_t rank = shape.size();
    if (!isSoftmax(op.getRhs()) || !op.getTransposeRhs() || rank < 3 ||
        isSoftmax(op.getLhs()) || getSymShape(op.getLhs()).size() != rank ||
        getSymShape(op.getRhs()).size() != rank)
      return rewriter.notifyMatchFailure(op, "no product with probabilities");
    std::swap(shape[rank - 1], shape[rank - 2]);
    Value product = MatmulOp::create(
        rewriter, op.getLoc(),
        getTensorType(shape, elementType(op.getResult())), op.getRhs(),
        op.getLhs(), false, !op.getTransposeLhs());
    rewriter.replaceOp(op, swapLast(rewriter, op.getLoc(), product));
    return success();
  }
};

/// transpose(scores * c + mask) -> transpose(scores) * c + transpose(mask)
struct TransposeOfScores final : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    Operation *inner = op.getInput().getDefiningOp();
    if (!isa_and_nonnull<AddOp, MulOp, DivOp, WhereOp, TanhOp, CastOp, MaxOp>(
            inner) ||
        !swapsLast(op) || !isScores(op.getInput()))
      return rewriter.notifyMatchFailure(op, "input is no scores");
    SmallVector<Value> operands;
    for (Value operand : inner->getOperands()) {
      SymShape shape = getSymShape(operand);
      if (shape.size() == 1 && shape[0] != SymExpr(1)) {
        shape.insert(shape.begin(), SymExpr(1));
        operand = ReshapeOp::create(rewriter, op.getLoc(),
                                    getTensorType(shape, elementType(operand)),
                                    operand);
      }
      // Of two axes the transpose is that of the axes themselves.
      operands.push_back(shape.size() < 2
                             ? operand
                             : swapLast(rewriter, op.getLoc(), operand));
    }
    Operation *moved = rewriter.clone(*inner);
    moved->setOperands(operands);
    moved->getResult(0).setType(op.getType());
    rewriter.replaceOp(op, moved);
    return success();
  }
};

/// softmax(x) over the rows -> transpose(softmax(transpose(x)))
struct SoftmaxOverRows final : OpRewritePattern<SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;

  /// Whether `user` multiplies the transposed probabilities.
  static bool usesTransposed(Operation *user, Value probabilities) {
    if (auto transpose = dyn_cast<TransposeOp>(user))
      return swapsLast(transpose);
    auto product = dyn_cast<MatmulOp>(user);
    if (!product)
      return false;
    return product.getLhs() == probabilities ? product.getTransposeLhs()
                                             : !product.getTransposeRhs();
  }

  LogicalResult matchAndRewrite(SoftmaxOp op,
                                PatternRewriter &rewriter) const override {
    int64_t rank = getSymShape(op.getInput()).size();
    if (rank < 3 || op.getAxis() != rank - 2 || !isScores(op.getInput()))
      return rewriter.notifyMatchFailure(op, "no softmax over rows of scores");
    if (!op->hasOneUse() || !usesTransposed(*op->getUsers().begin(), op))
      return rewriter.notifyMatchFailure(op, "probabilities are used as rows");
    Value turned = swapLast(rewriter, op.getLoc(), op.getInput());
    Value softmax =
        SoftmaxOp::create(rewriter, op.getLoc(), turned, rank - 1, op.getLog());
    rewriter.replaceOp(op, swapLast(rewriter, op.getLoc(), softmax));
    return success();
  }
};
} // namespace

void raise::populateTransposeSpellings(RewritePatternSet &patterns) {
  patterns.add<TransposeOfProduct, ProbabilitiesToTheRight, TransposeOfScores,
               SoftmaxOverRows>(patterns.getContext());
}
