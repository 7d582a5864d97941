//===- ChannelSpellings.cpp - Norms over an axis that is not the last -----===//
//
// Rows that are normalised between two transposes, channels first, are
// normalised where they lie: the transpose goes behind each op of the norm,
// until it meets the one that undoes it.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

static bool isPointwise(Operation *op) {
  return isa<AddOp, SubOp, MulOp, DivOp, PowOp, SquareOp, SqrtOp, RsqrtOp,
             ReciprocalOp, NegOp, CastOp, MaxOp>(op);
}

/// The axes over which `op` takes a mean or a sum, if they stay.
static std::optional<ArrayRef<int64_t>> getReduced(Operation *op) {
  if (auto mean = dyn_cast<ReduceMeanOp>(op))
    return mean.getKeepdims() ? std::optional(mean.getAxes()) : std::nullopt;
  if (auto sum = dyn_cast<ReduceSumOp>(op))
    return sum.getKeepdims() ? std::optional(sum.getAxes()) : std::nullopt;
  return std::nullopt;
}

/// Whether a mean or sum over `axis` is taken of `value`, or of what is
/// computed from it element by element.
static bool isReducedOver(Value value, int64_t axis, unsigned depth = 4) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (auto axes = getReduced(user))
      return *axes == ArrayRef<int64_t>(axis);
    return depth > 0 && isPointwise(user) &&
           sameShape(value, user->getResult(0)) &&
           isReducedOver(user->getResult(0), axis, depth - 1);
  });
}

/// Whether `value` is computed from a mean or sum over the last axis.
static bool isFromRows(Value value, unsigned depth = 8) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return false;
  if (auto axes = getReduced(op))
    return axes->size() == 1 &&
           axes->front() + 1 == static_cast<int64_t>(getSymShape(value).size());
  return isPointwise(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
           return isFromRows(operand, depth - 1);
         });
}

namespace {
struct TransposeBehindNorm final : RewritePattern {
  explicit TransposeBehindNorm(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  /// Whether `value` is one number a row, which a reshape transposes.
  static bool isStatistic(Value value) {
    auto reshape = value.getDefiningOp<ReshapeOp>();
    return reshape && lastSize(reshape.getInput()) == 1 &&
           isFromRows(reshape.getInput());
  }

  /// The transpose that puts rows first which `op` takes part in normalising.
  static TransposeOp getTranspose(Operation *op) {
    for (Value operand : op->getOperands()) {
      auto transpose = operand.getDefiningOp<TransposeOp>();
      if (!transpose)
        continue;
      ArrayRef<int64_t> perm = transpose.getPerm();
      int64_t last = perm.size() - 1;
      if (last < 1 || perm[last] == last)
        continue;
      int64_t axis = llvm::find(perm, last) - perm.begin();
      if (isReducedOver(transpose.getResult(), axis) ||
          isFromRows(transpose.getInput()) ||
          llvm::any_of(op->getOperands(), isStatistic))
        return transpose;
    }
    return {};
  }

  static bool isTransposed(Value value, ArrayRef<int64_t> perm) {
    auto transpose = value.getDefiningOp<TransposeOp>();
    return transpose && transpose.getPerm() == perm;
  }

  /// Whether `value` is transposed by `perm`, or so that only axes of size 1
  /// change places.
  static bool canMoveBack(Value value, ArrayRef<int64_t> perm) {
    if (isTransposed(value, perm))
      return true;
    SymShape shape = getSymShape(value);
    int64_t last = -1;
    for (auto [i, size] : llvm::enumerate(shape)) {
      if (size == SymExpr(1))
        continue;
      int64_t from = perm[i + perm.size() - shape.size()];
      if (from < last)
        return false;
      last = from;
    }
    return true;
  }

  /// `value` with its axes as they were before a transpose by `perm`.
  static Value moveBack(OpBuilder &builder, Location loc, Value value,
                        ArrayRef<int64_t> perm) {
    if (isTransposed(value, perm))
      return value.getDefiningOp<TransposeOp>().getInput();
    SymShape shape = getSymShape(value), moved(perm.size(), SymExpr(1));
    size_t offset = perm.size() - shape.size();
    for (auto [i, size] : llvm::enumerate(shape))
      moved[perm[i + offset]] = size;
    while (!moved.empty() && moved.front() == SymExpr(1))
      moved.erase(moved.begin());
    if (moved == shape)
      return value;
    return ReshapeOp::create(builder, loc,
                             getTensorType(moved, elementType(value)), value);
  }

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    auto reduced = getReduced(op);
    if (!reduced && !isPointwise(op))
      return rewriter.notifyMatchFailure(op, "no op of a norm");
    TransposeOp transpose = getTranspose(op);
    if (!transpose)
      return rewriter.notifyMatchFailure(op, "no operand has its rows first");
    ArrayRef<int64_t> perm = transpose.getPerm();
    SymShape shape = getSymShape(op->getResult(0)), moved = shape;
    if (shape.size() != perm.size())
      return rewriter.notifyMatchFailure(op, "another rank");
    for (auto [to, from] : llvm::enumerate(perm))
      moved[from] = shape[to];
    if (!llvm::all_of(op->getOperands(),
                      [&](Value v) { return canMoveBack(v, perm); }))
      return rewriter.notifyMatchFailure(op, "another operand would have to be "
                                             "transposed");
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(moveBack(rewriter, op->getLoc(), operand, perm));
    Operation *inner = rewriter.clone(*op);
    inner->setOperands(operands);
    inner->getResult(0).setType(
        getTensorType(moved, elementType(op->getResult(0))));
    if (reduced) {
      SmallVector<int64_t> axes;
      for (int64_t axis : *reduced)
        axes.push_back(perm[axis]);
      llvm::sort(axes);
      if (auto mean = dyn_cast<ReduceMeanOp>(inner))
        mean.setAxes(axes);
      else
        cast<ReduceSumOp>(inner).setAxes(axes);
    }
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op->getResult(0).getType(),
                                             inner->getResult(0), perm);
    return success();
  }
};

/// op(reshape(r)) -> reshape(op(r)) for what is computed from rows: the
/// transpose of one number a row is a reshape.
struct ReshapeBehindStatistic final : RewritePattern {
  explicit ReshapeBehindStatistic(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isPointwise(op))
      return rewriter.notifyMatchFailure(op, "no op of a norm");
    ReshapeOp reshape;
    for (Value operand : op->getOperands()) {
      if (numElements(operand.getType()) == SymExpr(1))
        continue;
      if (reshape || !operand.getDefiningOp<ReshapeOp>())
        return rewriter.notifyMatchFailure(op, "no reshape and numbers alone");
      reshape = operand.getDefiningOp<ReshapeOp>();
    }
    if (!reshape || lastSize(reshape.getInput()) != 1 ||
        lastSize(reshape) == 1 || !sameShape(reshape, op->getResult(0)) ||
        !isFromRows(reshape.getInput()))
      return rewriter.notifyMatchFailure(op, "no number a row");
    Operation *inner = rewriter.clone(*op);
    inner->replaceUsesOfWith(reshape, reshape.getInput());
    inner->getResult(0).setType(withElementType(reshape.getInput().getType(),
                                                elementType(op->getResult(0))));
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op->getResult(0).getType(),
                                           inner->getResult(0));
    return success();
  }
};
} // namespace

void raise::populateChannelSpellings(RewritePatternSet &patterns) {
  patterns.add<TransposeBehindNorm, ReshapeBehindStatistic>(
      patterns.getContext());
}
