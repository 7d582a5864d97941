//===- RowSpellings.cpp - Rows flattened and split again ------------------===//
//
// Layers over [batch * seq, width] between a reshape that merges the leading
// axes and one that splits them are spelled over the axes as they were: the
// merging reshape goes behind each op that works row by row, until it meets
// the one that undoes it.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// The value of which `value` merges all axes but the last.
static Value getUnflattened(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape)
    return {};
  SymShape from = getSymShape(reshape.getInput()), to = getSymShape(value);
  if (to.size() != 2 || from.size() < 3 || from.back() != to.back())
    return {};
  return reshape.getInput();
}

/// True when `op` reduces the last of two axes and keeps it.
static bool getReducedRow(Operation *op) {
  auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes");
  return axes && axes.asArrayRef() == ArrayRef<int64_t>{1} &&
         getSymShape(op->getResult(0)).size() == 2;
}

/// The axis of rows of two axes becomes the last of `rank` ones.
static void moveAxis(Operation *op, int64_t rank) {
  if (auto norm = dyn_cast<LayerNormOp>(op))
    norm.setAxis(rank - 1);
  else if (auto softmax = dyn_cast<SoftmaxOp>(op))
    softmax.setAxis(rank - 1);
  else if (auto mean = dyn_cast<ReduceMeanOp>(op))
    mean.setAxes({rank - 1});
  else if (auto sum = dyn_cast<ReduceSumOp>(op))
    sum.setAxes({rank - 1});
  else if (auto max = dyn_cast<ReduceMaxOp>(op))
    max.setAxes({rank - 1});
}

/// True when `op` computes each row of its first operand on its own, and
/// every other operand either goes along the rows too or is the same for all.
static bool isRowwise(Operation *op) {
  Value x = op->getOperand(0);
  if (auto product = dyn_cast<MatmulOp>(op))
    return !product.getTransposeLhs() &&
           getSymShape(product.getRhs()).size() == 2;
  if (auto norm = dyn_cast<LayerNormOp>(op))
    return norm.getReducedAxes() == ArrayRef<int64_t>{1} &&
           getSymShape(norm.getWeight()).size() == 1;
  if (auto norm = dyn_cast<RmsNormOp>(op))
    return !norm.getWeight() || getSymShape(norm.getWeight()).size() == 1;
  if (isa<ReduceMeanOp, ReduceSumOp, ReduceMaxOp>(op))
    return getReducedRow(op);
  if (auto softmax = dyn_cast<SoftmaxOp>(op))
    return softmax.getAxis() == 1;
  return op->getNumOperands() == 1 &&
         isa<CastOp, GeluOp, SiluOp, ReluOp, SigmoidOp, TanhOp, ErfOp>(op) &&
         sameShape(x, op->getResult(0));
}

/// True when `value` broadcasts along the last axis of rows at most.
static bool isSameForAllRows(Value value) {
  return getSymShape(value).size() <= 1;
}

namespace {
struct FlattenBehind final : RewritePattern {
  explicit FlattenBehind(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (op->getNumResults() != 1 || op->getNumOperands() == 0)
      return rewriter.notifyMatchFailure(op, "no op on rows");
    bool arithmetic = isa<AddOp, SubOp, MulOp, DivOp>(op);
    if (!arithmetic && !isRowwise(op))
      return rewriter.notifyMatchFailure(op, "does not work row by row");
    IRMapping map;
    SymShape rows;
    for (Value operand : op->getOperands().take_front(arithmetic ? 2 : 1)) {
      if (arithmetic && isSameForAllRows(operand))
        continue;
      Value inner = getUnflattened(operand);
      if (!inner)
        return rewriter.notifyMatchFailure(op, "operand flattens no rows");
      SymShape leading(ArrayRef(getSymShape(inner)).drop_back());
      if (!rows.empty() && leading != rows)
        return rewriter.notifyMatchFailure(op,
                                           "rows are flattened differently");
      rows = leading;
      map.map(operand, inner);
    }
    if (rows.empty())
      return rewriter.notifyMatchFailure(op, "no operand flattens rows");
    Value result = op->getResult(0);
    SymShape shape = rows;
    shape.push_back(getSymShape(result).back());
    Operation *moved = rewriter.clone(*op, map);
    moved->getResult(0).setType(getTensorType(shape, elementType(result)));
    moveAxis(moved, shape.size());
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, result.getType(),
                                           moved->getResult(0));
    return success();
  }
};
} // namespace

void raise::populateRowSpellings(RewritePatternSet &patterns) {
  patterns.add<FlattenBehind>(patterns.getContext());
}
