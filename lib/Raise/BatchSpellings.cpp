//===- BatchSpellings.cpp - Axes merged for a product and split again -----===//
//
// Batched products over [batch * heads, ...] and transposes by way of a 3-D
// shape are spelled with four axes.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// The group of axes of `pieces` that each axis of `whole` is split into, when
/// `pieces` only splits axes of `whole`; else nullopt. A trailing axis of size
/// 1 belongs to the group before it, and with `unitsBefore` any that is one
/// too many.
static std::optional<SmallVector<SmallVector<int64_t>>>
getSplit(const SymShape &whole, const SymShape &pieces, bool unitsBefore) {
  SmallVector<SmallVector<int64_t>> groups;
  size_t next = 0;
  for (const SymExpr &size : whole) {
    SmallVector<int64_t> group;
    SymExpr product = 1;
    while (next < pieces.size() && (group.empty() || product != size)) {
      product = product * pieces[next];
      group.push_back(next++);
    }
    if (group.empty() || product != size)
      return std::nullopt;
    while (unitsBefore && next < pieces.size() && pieces[next] == SymExpr(1) &&
           pieces.size() - next > whole.size() - groups.size() - 1)
      group.push_back(next++);
    groups.push_back(group);
  }
  for (; next < pieces.size(); ++next) {
    if (pieces[next] != SymExpr(1) || groups.empty())
      return std::nullopt;
    groups.back().push_back(next);
  }
  return groups;
}

namespace {
/// reshape(transpose(x)) that splits the first axis -> transpose(reshape(x))
struct SplitBeforeTranspose final : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto transpose = op.getInput().getDefiningOp<TransposeOp>();
    if (!transpose)
      return rewriter.notifyMatchFailure(op, "input is no transpose");
    SymShape whole = getSymShape(transpose.getResult()),
             pieces = getSymShape(op.getResult());
    if (pieces.size() <= whole.size())
      return rewriter.notifyMatchFailure(op, "no axis is split");
    // One head: its axis was merged in front of the transpose.
    auto merge = transpose.getInput().getDefiningOp<ReshapeOp>();
    auto groups = getSplit(whole, pieces,
                           merge && getSymShape(merge.getInput()).size() ==
                                        pieces.size());
    if (!groups)
      return rewriter.notifyMatchFailure(op, "axes are not only split");
    // Merged batch axes come first. A split of the last axis says more where
    // it is (pairs of a rotation, heads of a projection).
    if ((*groups)[0].size() < 2 || (*groups).back().size() != 1)
      return rewriter.notifyMatchFailure(op, "the first axis is not split");
    // The shape before the transpose, and where each of its axes goes.
    SmallVector<int64_t> source(whole.size()), place(pieces.size());
    for (auto [to, from] : llvm::enumerate(transpose.getPerm()))
      source[from] = to;
    SymShape split;
    for (int64_t to : source)
      for (int64_t axis : (*groups)[to]) {
        place[axis] = split.size();
        split.push_back(pieces[axis]);
      }
    Value reshaped =
        ReshapeOp::create(rewriter, op.getLoc(),
                          getTensorType(split, elementType(op.getResult())),
                          transpose.getInput());
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), reshaped, place);
    return success();
  }
};

/// A batch of one that one operand of a product lacks is given to it.
struct UnitBatch final : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    SymShape left = getSymShape(op.getLhs()), right = getSymShape(op.getRhs());
    bool isLeft = left.size() < right.size();
    SymShape &shorter = isLeft ? left : right, &longer = isLeft ? right : left;
    // Two axes are a matrix for all of the batch.
    if (shorter.size() < 3 || shorter.size() + 1 != longer.size() ||
        longer.front() != SymExpr(1))
      return rewriter.notifyMatchFailure(op, "no batch of one is missing");
    OpOperand &operand = isLeft ? op.getLhsMutable() : op.getRhsMutable();
    shorter.insert(shorter.begin(), SymExpr(1));
    Value value = operand.get();
    Value batched =
        ReshapeOp::create(rewriter, op.getLoc(),
                          getTensorType(shorter, elementType(value)), value);
    rewriter.modifyOpInPlace(op, [&] { operand.set(batched); });
    return success();
  }
};

/// matmul(reshape(a), reshape(b)) over merged batch axes
///   -> reshape(matmul(a, b))
struct UnmergeBatch final : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  /// The four-dimensional value of which `value` merges the first two axes.
  static Value getUnmerged(Value value) {
    auto reshape = value.getDefiningOp<ReshapeOp>();
    if (!reshape)
      return {};
    SymShape from = getSymShape(reshape.getInput()), to = getSymShape(value);
    if (from.size() != 4 || to.size() != 3 || from[2] != to[1] ||
        from[3] != to[2] || from[0] * from[1] != to[0])
      return {};
    return reshape.getInput();
  }

  /// What stands between a merged operand and the product: its last axes
  /// swapped, a division by one number. Null for anything else.
  static Value getSource(Value value) {
    Operation *op = value.getDefiningOp();
    if (auto transpose = dyn_cast_or_null<TransposeOp>(op))
      return transpose.getPerm() == ArrayRef<int64_t>{0, 2, 1}
                 ? transpose.getInput()
                 : Value();
    if (isa_and_nonnull<MulOp, DivOp>(op) && op->hasOneUse() &&
        getSymShape(op->getOperand(1)).empty())
      return op->getOperand(0);
    return {};
  }

  /// Whether `value` merges `batch` in one step with more axes: heads that a
  /// view repeats are merged with their groups.
  static bool mergesMore(Value value, ArrayRef<SymExpr> batch) {
    auto reshape = value.getDefiningOp<ReshapeOp>();
    SymShape shape = getSymShape(value);
    return reshape && shape.size() == 3 && batch[0] * batch[1] == shape[0] &&
           getSymShape(reshape.getInput()).size() > 3 &&
           getSymShape(reshape.getInput())[0] == batch[0];
  }

  /// Whether `value` is a merged one, behind what getSource() goes through;
  /// its four-dimensional value where that is there.
  static bool findUnmerged(Value value, Value &inner,
                           ArrayRef<SymExpr> batch = {}) {
    for (unsigned depth = 0; depth < 4 && value; ++depth) {
      if ((inner = getUnmerged(value)))
        return true;
      if (!batch.empty() && mergesMore(value, batch))
        return true;
      value = getSource(value);
    }
    return false;
  }

  /// The same with four axes; findUnmerged(value) is true.
  static Value unmerge(Value value, ArrayRef<SymExpr> batch,
                       PatternRewriter &rewriter) {
    if (Value inner = getUnmerged(value))
      return inner;
    Operation *op = value.getDefiningOp();
    if (mergesMore(value, batch)) {
      SymShape shape = getSymShape(value);
      SymShape to = {batch[0], batch[1], shape[1], shape[2]};
      return ReshapeOp::create(rewriter, op->getLoc(),
                               getTensorType(to, elementType(value)),
                               op->getOperand(0));
    }
    Value inner = unmerge(getSource(value), batch, rewriter);
    SmallVector<int64_t> perm = {0, 1, 3, 2};
    if (isa<TransposeOp>(op))
      return TransposeOp::create(rewriter, op->getLoc(), inner, perm);
    IRMapping map;
    map.map(op->getOperand(0), inner);
    Operation *moved = rewriter.clone(*op, map);
    moved->getResult(0).setType(inner.getType());
    return moved->getResult(0);
  }

  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    Value a, b;
    bool left4 = findUnmerged(op.getLhs(), a),
         right4 = findUnmerged(op.getRhs(), b);
    if (!left4 && !right4)
      return rewriter.notifyMatchFailure(op, "batch axes are not merged");
    SymShape batch = getSymShape(left4 ? a : b);
    batch.resize(2);
    if ((!left4 && !findUnmerged(op.getLhs(), a, batch)) ||
        (!right4 && !findUnmerged(op.getRhs(), b, batch)))
      return rewriter.notifyMatchFailure(op, "batch axes are not merged");
    for (Value whole : {a, b})
      if (whole && ArrayRef(getSymShape(whole)).take_front(2) !=
                       ArrayRef<SymExpr>(batch))
        return rewriter.notifyMatchFailure(op, "batch axes merge differently");
    a = unmerge(op.getLhs(), batch, rewriter);
    b = unmerge(op.getRhs(), batch, rewriter);
    SymShape result = getSymShape(op.getResult());
    SymShape shape = {batch[0], batch[1], result[1], result[2]};
    Value product =
        MatmulOp::create(rewriter, op.getLoc(),
                         getTensorType(shape, elementType(op.getResult())), a,
                         b, op.getTransposeLhs(), op.getTransposeRhs());
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), product);
    return success();
  }
};

/// unary(reshape(x)), reshape(x) with a scalar and reshape(x) + mask, where the
/// reshape merges batch axes: the reshape goes behind, to meet the one that
/// splits them.
struct MergeBehind final : RewritePattern {
  explicit MergeBehind(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  /// `mask`, which is added to scores over merged axes, for scores over the
  /// axes `split`; null when it can not be.
  static Value getUnmergedMask(Value mask, const SymShape &split, Location loc,
                               PatternRewriter &rewriter) {
    SymShape shape = getSymShape(mask);
    if (shape.size() < 3 || shape[0] == SymExpr(1))
      return mask;
    if (shape.size() != 3 || shape[0] != split[0] * split[1])
      return {};
    SymShape to = {split[0], split[1], shape[1], shape[2]};
    return ReshapeOp::create(rewriter, loc,
                             getTensorType(to, elementType(mask)), mask);
  }

  /// Which operand of `op` are the scores.
  static unsigned getScores(Operation *op) {
    return isa<AddOp>(op) && !UnmergeBatch::getUnmerged(op->getOperand(0)) ? 1
                                                                           : 0;
  }

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa<AddOp, MulOp, DivOp, CastOp, SoftmaxOp, TanhOp, MaxOp>(op))
      return rewriter.notifyMatchFailure(op, "no op on attention scores");
    unsigned at = getScores(op);
    Value result = op->getResult(0), x = op->getOperand(at);
    if (isa<MulOp, DivOp>(op)) {
      auto scaled = getScaled(result);
      if (!scaled || scaled->x != x)
        return rewriter.notifyMatchFailure(op, "no product with a scalar");
    }
    if (isa<MaxOp>(op) && !getScalar(op->getOperand(1)))
      return rewriter.notifyMatchFailure(op, "no maximum with a scalar");
    Value inner = UnmergeBatch::getUnmerged(x);
    if (!inner || !x.hasOneUse() || !sameShape(x, result) ||
        !isa_and_nonnull<MatmulOp, AddOp, MulOp, DivOp, CastOp, SoftmaxOp,
                         TanhOp, MaxOp>(inner.getDefiningOp()))
      return rewriter.notifyMatchFailure(op, "input merges no product");
    auto softmax = dyn_cast<SoftmaxOp>(op);
    if (softmax && softmax.getAxis() != 2)
      return rewriter.notifyMatchFailure(op, "softmax is not over the keys");
    IRMapping map;
    map.map(x, inner);
    if (isa<AddOp>(op)) {
      Value mask = getUnmergedMask(other(op, at), getSymShape(inner),
                                   op->getLoc(), rewriter);
      if (!mask)
        return rewriter.notifyMatchFailure(op, "the mask's axes do not split");
      map.map(other(op, at), mask);
    }
    Operation *moved = rewriter.clone(*op, map);
    moved->getResult(0).setType(
        withElementType(inner.getType(), elementType(result)));
    if (softmax)
      cast<SoftmaxOp>(moved).setAxis(3);
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, result.getType(),
                                           moved->getResult(0));
    return success();
  }
};
} // namespace

void raise::populateBatchSpellings(RewritePatternSet &patterns) {
  patterns.add<SplitBeforeTranspose, UnitBatch, UnmergeBatch, MergeBehind>(
      patterns.getContext());
}
