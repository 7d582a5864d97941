//===- LowBitWeights.cpp - One form for quantised weights -----------------===//
//
// Exporters write the quantised weight of a product in many ways: blocks along
// the first axis of [K, N], a third axis of blocks, a cast behind. Here they
// become matrices [N, K] with scales [N, K / block] (or one a row, or one for
// all) that products read with transpose_rhs: what the packed layouts need.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

namespace {

bool isOneElement(Value value) {
  return numElements(value.getType()) == SymExpr(1);
}

//===----------------------------------------------------------------------===//
// Turning a matrix
//===----------------------------------------------------------------------===//

/// Whether the transpose of a matrix (or of a vector of scales, or a scalar) is
/// to be had for nothing: its bytes are turned when they are stored.
bool canTurn(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getRank() < 2 || isOneElement(value))
    return true;
  if (type.getRank() != 2)
    return false;
  Operation *op = value.getDefiningOp();
  if (auto transpose = dyn_cast_or_null<TransposeOp>(op))
    return transpose.getPerm() == ArrayRef<int64_t>{1, 0};
  if (isa_and_nonnull<WeightOp>(op))
    return value.hasOneUse();
  if (auto constant = dyn_cast_or_null<ConstantOp>(op))
    return isa<DenseElementsAttr>(constant.getValue());
  auto scales = dyn_cast_or_null<DequantizeOp>(op);
  return scales && value.hasOneUse() && isOneElement(scales.getScale()) &&
         scales.getBlockSize() == 0 && !scales.getZeroPoint() &&
         !scales.getGroupIndex() && canTurn(scales.getInput());
}

RankedTensorType turnedType(Value value) {
  SymShape shape = getSymShape(value);
  return cast<RankedTensorType>(
      getTensorType({shape[1], shape[0]}, elementType(value)));
}

DenseElementsAttr turnElements(DenseElementsAttr elements,
                               RankedTensorType type) {
  if (elements.isSplat())
    return elements.resizeSplat(type);
  // Elements of less than a byte have one each here.
  size_t bytes = std::max(1u, elementBits(type.getElementType()) / 8);
  size_t rows = size_t(type.getDimSize(1)),
         columns = size_t(type.getDimSize(0));
  ArrayRef<char> from = elements.getRawData();
  std::vector<char> to(from.size());
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c)
      std::copy_n(from.data() + (r * columns + c) * bytes, bytes,
                  to.data() + (c * rows + r) * bytes);
  return DenseElementsAttr::getFromRawBuffer(type, to);
}

Value turn(OpBuilder &builder, Value value) {
  if (!value || cast<RankedTensorType>(value.getType()).getRank() < 2)
    return value;
  Operation *op = value.getDefiningOp();
  RankedTensorType type = turnedType(value);
  Location loc = value.getLoc();
  if (auto transpose = dyn_cast_or_null<TransposeOp>(op))
    return transpose.getInput();
  if (auto weight = dyn_cast_or_null<WeightOp>(op)) {
    WeightRefAttr source = weight.getSource();
    bool turned = isa_and_nonnull<RankedTensorType>(source.getStored());
    RankedTensorType file = source.getFileType(weight.getType());
    Type stored = file;
    if (turned) // back to what the file holds
      stored = file.getElementType() == type.getElementType()
                   ? Type()
                   : file.getElementType();
    return WeightOp::create(
        builder, loc, type, weight.getName(),
        WeightRefAttr::get(builder.getContext(), source.getFile(),
                           source.getOffset(), source.getLength(), stored));
  }
  if (auto constant = dyn_cast_or_null<ConstantOp>(op))
    return ConstantOp::create(
        builder, loc,
        turnElements(cast<DenseElementsAttr>(constant.getValue()), type));
  if (auto scales = dyn_cast_or_null<DequantizeOp>(op))
    return DequantizeOp::create(
        builder, loc, type, turn(builder, scales.getInput()), scales.getScale(),
        Value(), Value(),
        /*axis=*/0, /*block_size=*/0, scales.getImplicitZeroPoint());
  return ReshapeOp::create(builder, loc, type, value); // one element
}

/// x * dequantize(q [K, N]) -> x * transpose(dequantize(q [N, K])).
struct RowsOfResults final : OpRewritePattern<DequantizeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DequantizeOp op,
                                PatternRewriter &rewriter) const override {
    if (getSymShape(op).size() != 2 || op->use_empty())
      return rewriter.notifyMatchFailure(op, "no matrix");
    for (OpOperand &use : op->getUses()) {
      auto product = dyn_cast<MatmulOp>(use.getOwner());
      if (!product || use.getOperandNumber() != 1 ||
          product.getTransposeRhs() || product.getLhs() == op.getResult())
        return rewriter.notifyMatchFailure(op, "others than products read it");
    }
    if (!canTurn(op.getInput()) || !canTurn(op.getScale()) ||
        (op.getZeroPoint() && !canTurn(op.getZeroPoint())))
      return rewriter.notifyMatchFailure(op, "its operands are no constants");
    bool single = isOneElement(op.getScale()) && op.getBlockSize() == 0;
    auto turned = DequantizeOp::create(
        rewriter, op.getLoc(), turnedType(op), turn(rewriter, op.getInput()),
        turn(rewriter, op.getScale()), turn(rewriter, op.getZeroPoint()),
        op.getGroupIndex(), single ? 0 : 1 - op.getAxis(), op.getBlockSize(),
        op.getImplicitZeroPoint());
    SmallVector<Operation *> products(op->getUsers());
    for (Operation *user : products)
      rewriter.modifyOpInPlace(user, [&] {
        auto product = cast<MatmulOp>(user);
        product.getRhsMutable().assign(turned.getResult());
        product.setTransposeRhs(true);
      });
    rewriter.eraseOp(op);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Views and casts behind
//===----------------------------------------------------------------------===//

/// A constant in another shape, or a reshape.
Value reshaped(OpBuilder &builder, Value value, SymShape shape) {
  if (!value)
    return value;
  auto type = cast<RankedTensorType>(getTensorType(shape, elementType(value)));
  Location loc = value.getLoc();
  if (auto weight = value.getDefiningOp<WeightOp>())
    if (!isa_and_nonnull<RankedTensorType>(weight.getSource().getStored()))
      return WeightOp::create(builder, loc, type, weight.getName(),
                              weight.getSource());
  if (auto constant = value.getDefiningOp<ConstantOp>())
    if (auto elements = dyn_cast<DenseElementsAttr>(constant.getValue()))
      return ConstantOp::create(builder, loc,
                                elements.isSplat() ? elements.resizeSplat(type)
                                                   : elements.reshape(type));
  return ReshapeOp::create(builder, loc, type, value);
}

/// reshape(dequantize(q [N, blocks, size], s [N, blocks, 1])) to [N, K]: blocks
/// of K.
struct BlocksAlongRows final : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<DequantizeOp>();
    if (!inner || inner.getGroupIndex() || !inner->hasOneUse())
      return rewriter.notifyMatchFailure(op, "no dequantised weight");
    SymShape blocks = getSymShape(inner.getInput()),
             scale = getSymShape(inner.getScale()), matrix = getSymShape(op);
    auto size = blocks.size() == 3 ? blocks[2].asConstant() : std::nullopt;
    if (!size || matrix.size() != 2 || matrix[0] != blocks[0] ||
        matrix[1] != blocks[1] * blocks[2] || scale.size() != 3 ||
        scale[2] != SymExpr(1) || inner.getAxis() != 2 ||
        inner.getBlockSize() < *size)
      return rewriter.notifyMatchFailure(op, "no axis of blocks is flattened");
    SymShape flat{blocks[0], blocks[1]};
    rewriter.replaceOpWithNewOp<DequantizeOp>(
        op, op.getType(), reshaped(rewriter, inner.getInput(), matrix),
        reshaped(rewriter, inner.getScale(), flat),
        reshaped(rewriter, inner.getZeroPoint(), flat), Value(), /*axis=*/1,
        *size, inner.getImplicitZeroPoint());
    return success();
  }
};

/// cast(dequantize(..)) to fewer bits: the one rounding is to the cast's type.
struct CastOfDequantize final : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(CastOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<DequantizeOp>();
    Type to = elementType(op);
    if (!inner || !inner->hasOneUse() || !(to.isBF16() || to.isF16()) ||
        !elementType(inner).isF32())
      return rewriter.notifyMatchFailure(op, "no fp32 weight is narrowed");
    rewriter.replaceOpWithNewOp<DequantizeOp>(
        op, op.getType(), inner.getInput(), inner.getScale(),
        inner.getZeroPoint(), inner.getGroupIndex(), inner.getAxis(),
        inner.getBlockSize(), inner.getImplicitZeroPoint());
    return success();
  }
};

} // namespace

void raise::populateLowBitWeights(RewritePatternSet &patterns) {
  patterns.add<RowsOfResults, BlocksAlongRows, CastOfDequantize>(
      patterns.getContext());
}
