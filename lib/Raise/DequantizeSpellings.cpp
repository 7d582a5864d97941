//===- DequantizeSpellings.cpp - Gathers before dequantisation ------------===//
//
// A table of quantised rows (an embedding) is read row by row: only the rows
// that are read are worth decoding.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

namespace {
/// gather(dequantize(q, s, z), i) -> dequantize(gather(q, i), gather(s, i),
/// gather(z, i)), where s and z are per tensor or vary along another axis and
/// the gathered one. Exact: each element keeps its scale.
struct GatherOfDequantize final : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getData().getDefiningOp<DequantizeOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "data is not dequantised");
    if (inner.getGroupIndex())
      return rewriter.notifyMatchFailure(op, "blocks are found by an index");
    int64_t axis = inner.getAxis(), block = inner.getBlockSize();
    bool perTensor =
        numElements(inner.getScale().getType()) == SymExpr(1) && block == 0;
    if (!perTensor && axis == op.getAxis())
      return rewriter.notifyMatchFailure(op, "scales vary along the gathered "
                                             "axis as blocks or rows");
    int64_t shift =
        static_cast<int64_t>(getSymShape(op.getIndices()).size()) - 1;
    int64_t newAxis = axis > op.getAxis() ? axis + shift : axis;
    if (perTensor)
      newAxis = 0;
    auto gather = [&](Value data) -> Value {
      return data ? GatherOp::create(rewriter, op.getLoc(), data,
                                     op.getIndices(), op.getAxis())
                        .getResult()
                  : Value();
    };
    // Block scales have an entry for each gathered row, others do not.
    auto pick = [&](Value scale) -> Value {
      return block > 0 ? gather(scale) : scale;
    };
    rewriter.replaceOpWithNewOp<DequantizeOp>(
        op, op.getType(), gather(inner.getInput()), pick(inner.getScale()),
        pick(inner.getZeroPoint()), Value(), newAxis, block,
        inner.getImplicitZeroPoint());
    return success();
  }
};

/// A scale for each row of a table, as blocks that are a row long:
/// dequantize(q [n, d], s [n]) -> dequantize(q, reshape(s, [n, 1])), blocks of
/// d
struct RowScalesAsBlocks final : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getData().getDefiningOp<DequantizeOp>();
    if (!inner || inner.getBlockSize() != 0 || inner.getGroupIndex())
      return rewriter.notifyMatchFailure(op, "data has no scale an element of "
                                             "an axis");
    SymShape shape = getSymShape(inner.getInput());
    SymShape scale = getSymShape(inner.getScale());
    auto width = shape.size() == 2 ? shape[1].asConstant() : std::nullopt;
    if (!width || *width < 1 || op.getAxis() != 0 || inner.getAxis() != 0 ||
        scale.size() != 1 || scale[0] == SymExpr(1))
      return rewriter.notifyMatchFailure(op, "no table with a scale a row");
    auto column = [&](Value value) -> Value {
      if (!value)
        return value;
      Type type = getTensorType({shape[0], SymExpr(1)}, elementType(value));
      return ReshapeOp::create(rewriter, op.getLoc(), type, value);
    };
    auto blocks = DequantizeOp::create(
        rewriter, inner.getLoc(), inner.getType(), inner.getInput(),
        column(inner.getScale()), column(inner.getZeroPoint()), Value(),
        /*axis=*/1, /*block_size=*/*width, inner.getImplicitZeroPoint());
    rewriter.modifyOpInPlace(
        op, [&] { op.getDataMutable().assign(blocks.getResult()); });
    return success();
  }
};
} // namespace

void raise::populateDequantizeSpellings(RewritePatternSet &patterns) {
  patterns.add<GatherOfDequantize, RowScalesAsBlocks>(patterns.getContext());
}
