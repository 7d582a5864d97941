//===- GroupSpellings.cpp - Query heads as rows of their key --------------===//
//
// Grouped heads without repeated keys: the queries of a group are more rows of
// one product. The rows are split where the scores are:
//
//   reshape(matmul(q [b, k, g*s, d], k), [b, k, g, s, t])
//     -> matmul(q [b, k, g, s, d], k [b, k, 1, d, t])
//   reshape(matmul(q [b, k, g*s, d], k), [b, k*g, s, t])
//     -> matmul(q [b, k*g, s, d], each k g times)
//   matmul(reshape(p [.., g, s, t]), v)       -> the same for the probabilities
//
// Rows that come before the heads are put behind them.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// How rows of a product are split.
namespace {
struct Split {
  SymExpr outer, inner;
  bool merges = false;   ///< the outer axis with the one before
  bool isShared = false; ///< that one is of size 1
};
} // namespace

static Value reshapeTo(OpBuilder &builder, Location loc, Value value,
                       const SymShape &shape) {
  if (getSymShape(value) == shape)
    return value;
  return ReshapeOp::create(builder, loc,
                           getTensorType(shape, elementType(value)), value);
}

/// How `pieces` splits the rows, the last axis but one, of `whole`: into two
/// axes, or into groups that become heads and rows.
static std::optional<Split> getSplit(const SymShape &whole,
                                     const SymShape &pieces) {
  size_t rank = whole.size();
  if (rank < 3 || pieces.size() < rank || pieces.back() != whole.back())
    return std::nullopt;
  SymExpr rows = whole[rank - 2];
  if (pieces.size() == rank + 1) {
    SymExpr outer = pieces[rank - 2], inner = pieces[rank - 1];
    if (ArrayRef(pieces).take_front(rank - 2) !=
            ArrayRef(whole).take_front(rank - 2) ||
        outer * inner != rows)
      return std::nullopt;
    return Split{outer, inner};
  }
  if (rank != 4 || pieces.size() != rank || pieces[0] != whole[0])
    return std::nullopt;
  if (whole[1] == SymExpr(1) && pieces[1] * pieces[2] == rows)
    return Split{pieces[1], pieces[2], true, true};
  auto heads = pieces[rank - 3].asConstant(),
       kvHeads = whole[rank - 3].asConstant();
  if (!heads || !kvHeads || *kvHeads == 0 || *heads % *kvHeads ||
      *heads == *kvHeads || SymExpr(*heads / *kvHeads) * pieces[2] != rows)
    return std::nullopt;
  return Split{SymExpr(*heads / *kvHeads), pieces[2], true};
}

/// The left operand's rows (or columns, when it is transposed) split.
static Value splitRows(OpBuilder &builder, Location loc, Value value,
                       const Split &split) {
  SymShape shape = getSymShape(value);
  size_t rank = shape.size();
  if (split.merges) {
    shape[rank - 3] = shape[rank - 3] * split.outer;
    shape[rank - 2] = split.inner;
  } else {
    shape[rank - 2] = split.inner;
    shape.insert(shape.begin() + rank - 2, split.outer);
  }
  return reshapeTo(builder, loc, value, shape);
}

/// The right operand, once for all of a group, or once for each head.
static Value spread(OpBuilder &builder, Location loc, Value value,
                    const Split &split) {
  if (split.isShared)
    return value;
  SymShape shape = getSymShape(value), wide = shape;
  size_t rank = shape.size();
  wide.insert(wide.begin() + rank - 2, SymExpr(1));
  value = reshapeTo(builder, loc, value, wide);
  if (!split.merges)
    return value;
  wide[rank - 2] = split.outer;
  value = ExpandOp::create(builder, loc,
                           getTensorType(wide, elementType(value)), value);
  shape[rank - 3] = shape[rank - 3] * split.outer;
  return reshapeTo(builder, loc, value, shape);
}

/// Whether the rows can be split: both operands are batched alike, and neither
/// is a weight.
static bool isBatched(MatmulOp product) {
  SymShape left = getSymShape(product.getLhs()),
           right = getSymShape(product.getRhs());
  size_t rank = left.size();
  return rank >= 3 && right.size() == rank && !product.getTransposeLhs() &&
         ArrayRef(left).take_front(rank - 2) ==
             ArrayRef(right).take_front(rank - 2) &&
         !isConstantDerived(product.getRhs());
}

static MatmulOp createSplit(OpBuilder &builder, Location loc, Value left,
                            MatmulOp product, const Split &split) {
  Value right = spread(builder, loc, product.getRhs(), split);
  SymShape shape = getSymShape(left);
  shape.back() = getSymShape(product.getResult()).back();
  return MatmulOp::create(
      builder, loc, getTensorType(shape, elementType(product.getResult())),
      left, right, false, product.getTransposeRhs());
}

/// The softmax that `value` is, behind what may stand between it and a product.
static bool isProbabilities(Value value, unsigned depth = 8) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return false;
  if (isa<SoftmaxOp>(op))
    return true;
  return isa<CastOp, WhereOp, ReshapeOp, TransposeOp, MulOp, DivOp>(op) &&
         llvm::any_of(op->getOperands(), [&](Value operand) {
           return isProbabilities(operand, depth - 1);
         });
}

namespace {
/// reshape(c * x) -> c * reshape(x), where the reshape splits rows of scores
struct ScaleBehindSplit final : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    Operation *inner = op.getInput().getDefiningOp();
    if (!isa_and_nonnull<MulOp, DivOp, CastOp, TanhOp>(inner) ||
        !inner->hasOneUse() ||
        !getSplit(getSymShape(op.getInput()), getSymShape(op.getResult())))
      return rewriter.notifyMatchFailure(op, "splits no rows of one use");
    auto scaled = getScaled(op.getInput());
    Value x = inner->getOperand(0);
    if (isa<MulOp, DivOp>(inner)) {
      if (!scaled)
        return rewriter.notifyMatchFailure(op, "input is no multiple");
      x = scaled->x;
    }
    if (!x.getDefiningOp() || !leadsToSoftmax(op.getResult()))
      return rewriter.notifyMatchFailure(op, "no scores");
    for (Value operand : inner->getOperands())
      if (operand != x && numElements(operand.getType()) != SymExpr(1))
        return rewriter.notifyMatchFailure(op, "the number has a shape");
    IRMapping map;
    for (Value operand : inner->getOperands())
      map.map(operand, reshapeTo(rewriter, op.getLoc(), operand,
                                 operand == x ? getSymShape(op.getResult())
                                              : SymShape()));
    Operation *moved = rewriter.clone(*inner, map);
    moved->getResult(0).setType(op.getType());
    rewriter.replaceOp(op, moved);
    return success();
  }
};

struct SplitScores final : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto product = op.getInput().getDefiningOp<MatmulOp>();
    if (!product || !product->hasOneUse() || !isBatched(product))
      return rewriter.notifyMatchFailure(op, "input is no batched scores");
    auto split =
        getSplit(getSymShape(product.getResult()), getSymShape(op.getResult()));
    if (!split || !leadsToSoftmax(op.getResult()))
      return rewriter.notifyMatchFailure(op, "no rows of scores are split");
    Value left = splitRows(rewriter, op.getLoc(), product.getLhs(), *split);
    rewriter.replaceOp(
        op, createSplit(rewriter, product.getLoc(), left, product, *split));
    return success();
  }
};

struct SplitProbabilities final : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    auto merge = op.getLhs().getDefiningOp<ReshapeOp>();
    auto split = merge ? getSplit(getSymShape(merge.getResult()),
                                  getSymShape(merge.getInput()))
                       : std::nullopt;
    if (!split || !isBatched(op) || !isProbabilities(merge.getInput()))
      return rewriter.notifyMatchFailure(op, "merges no rows of probabilities");
    Value product =
        createSplit(rewriter, op.getLoc(), merge.getInput(), op, *split);
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), product);
    return success();
  }
};
} // namespace

/// The last axes but one and but two change places.
static Value swapRows(OpBuilder &builder, Location loc, Value value) {
  int64_t rank = getSymShape(value).size();
  SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(rank));
  std::swap(perm[rank - 2], perm[rank - 3]);
  return TransposeOp::create(builder, loc, value, perm);
}

static bool swapsRows(TransposeOp op) {
  ArrayRef<int64_t> perm = op.getPerm();
  int64_t rank = perm.size();
  if (rank < 3)
    return false;
  for (int64_t i = 0; i < rank; ++i)
    if (perm[i] != (i == rank - 2 ? rank - 3 : i == rank - 3 ? rank - 2 : i))
      return false;
  return true;
}

/// Whether the right operand is the same along the axis before the rows.
static bool isSharedBeforeRows(MatmulOp op) {
  SymShape left = getSymShape(op.getLhs()), right = getSymShape(op.getRhs());
  size_t rank = left.size();
  return rank >= 4 && right.size() == rank && !op.getTransposeLhs() &&
         right[rank - 3] == SymExpr(1);
}

/// Whether a selection of `scores` goes along the axis before the rows and not
/// along the rows: a mask knows queries, not heads.
static bool isSelectedBeforeRows(Value scores, unsigned depth = 6) {
  return llvm::any_of(scores.getUsers(), [&](Operation *user) {
    if (auto where = dyn_cast<WhereOp>(user)) {
      SymShape shape = getSymShape(where.getCondition());
      size_t rank = shape.size();
      return rank >= 3 && shape[rank - 2] == SymExpr(1) &&
             shape[rank - 3] != SymExpr(1);
    }
    return depth > 0 && isa<MulOp, DivOp, AddOp, CastOp, TanhOp>(user) &&
           sameShape(user->getResult(0), scores) &&
           isSelectedBeforeRows(user->getResult(0), depth - 1);
  });
}

namespace {
/// Scores [.., s, g, t] of one key -> the transpose of [.., g, s, t].
struct HeadsBeforeRows final : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    SymShape shape = getSymShape(op.getResult());
    size_t rank = shape.size();
    if (!isSharedBeforeRows(op) || !shape[rank - 2].isConstant() ||
        !leadsToSoftmax(op.getResult()) ||
        (shape[rank - 3].isConstant() && !isSelectedBeforeRows(op.getResult())))
      return rewriter.notifyMatchFailure(op, "rows do not come before heads");
    Value left = swapRows(rewriter, op.getLoc(), op.getLhs());
    std::swap(shape[rank - 2], shape[rank - 3]);
    Value product =
        MatmulOp::create(rewriter, op.getLoc(),
                         getTensorType(shape, elementType(op.getResult())),
                         left, op.getRhs(), false, op.getTransposeRhs());
    rewriter.replaceOp(op, swapRows(rewriter, op.getLoc(), product));
    return success();
  }
};

/// matmul(transpose(p), v) -> transpose(matmul(p, v)) for a v of all heads
struct ProbabilitiesSwapped final : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    auto transpose = op.getLhs().getDefiningOp<TransposeOp>();
    if (!transpose || !swapsRows(transpose) || !isSharedBeforeRows(op) ||
        !isProbabilities(transpose.getInput()))
      return rewriter.notifyMatchFailure(op, "no transposed probabilities");
    SymShape shape = getSymShape(transpose.getInput());
    shape.back() = getSymShape(op.getResult()).back();
    Value product = MatmulOp::create(
        rewriter, op.getLoc(),
        getTensorType(shape, elementType(op.getResult())), transpose.getInput(),
        op.getRhs(), false, op.getTransposeRhs());
    rewriter.replaceOp(op, swapRows(rewriter, op.getLoc(), product));
    return success();
  }
};

/// op(transpose(scores), mask) -> transpose(op(scores, transpose(mask)))
struct SwapBehindScores final : RewritePattern {
  explicit SwapBehindScores(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  /// Whether `value` is scores or probabilities of a product.
  static bool isScores(Value value, unsigned depth = 10) {
    Operation *op = value.getDefiningOp();
    if (!op || depth == 0)
      return false;
    if (auto product = dyn_cast<MatmulOp>(op))
      return isSharedBeforeRows(product);
    return isa<AddOp, MulOp, DivOp, WhereOp, TanhOp, CastOp, MaxOp, SoftmaxOp>(
               op) &&
           llvm::any_of(op->getOperands(), [&](Value operand) {
             return isScores(operand, depth - 1);
           });
  }

  /// An operand of scores for the transposed ones.
  static Value swap(OpBuilder &builder, Location loc, Value value,
                    size_t rank) {
    SymShape shape = getSymShape(value);
    if (shape.size() < 2 || (shape.size() == 2 && shape[0] == SymExpr(1)))
      return value;
    while (shape.size() < std::min<size_t>(rank, 3))
      shape.insert(shape.begin(), SymExpr(1));
    if (shape[shape.size() - 2] == SymExpr(1) &&
        shape[shape.size() - 3] == SymExpr(1))
      return value;
    return swapRows(builder, loc, reshapeTo(builder, loc, value, shape));
  }

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa<AddOp, MulOp, DivOp, WhereOp, TanhOp, CastOp, MaxOp, SoftmaxOp>(
            op))
      return rewriter.notifyMatchFailure(op, "no op on scores");
    Value result = op->getResult(0);
    TransposeOp transpose;
    for (Value operand : op->getOperands())
      if (auto found = operand.getDefiningOp<TransposeOp>())
        if (found->hasOneUse() && swapsRows(found) &&
            sameShape(found.getResult(), result) && isScores(found.getInput()))
          transpose = found;
    if (!transpose)
      return rewriter.notifyMatchFailure(op, "no operand is transposed scores");
    auto softmax = dyn_cast<SoftmaxOp>(op);
    size_t rank = getSymShape(result).size();
    if (softmax && softmax.getAxis() + 1 != static_cast<int64_t>(rank))
      return rewriter.notifyMatchFailure(op, "softmax is not over the keys");
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(operand == transpose.getResult()
                             ? transpose.getInput()
                             : swap(rewriter, op->getLoc(), operand, rank));
    Operation *moved = rewriter.clone(*op);
    moved->setOperands(operands);
    moved->getResult(0).setType(
        withElementType(transpose.getInput().getType(), elementType(result)));
    rewriter.replaceOp(op,
                       swapRows(rewriter, op->getLoc(), moved->getResult(0)));
    return success();
  }
};
} // namespace

void raise::populateGroupSpellings(RewritePatternSet &patterns) {
  patterns.add<ScaleBehindSplit, SplitScores, SplitProbabilities,
               HeadsBeforeRows, ProbabilitiesSwapped, SwapBehindScores>(
      patterns.getContext());
}
