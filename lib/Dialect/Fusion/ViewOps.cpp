//===- ViewOps.cpp - Verification, inference and folds of views -----------===//

#include "AxisRules.h"

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

LogicalResult WeightOp::verify() {
  auto transposed = dyn_cast_or_null<RankedTensorType>(getSource().getStored());
  auto type = cast<RankedTensorType>(getType());
  if (transposed && (type.getRank() != 2 || transposed.getRank() != 2 ||
                     transposed.getDimSize(0) != type.getDimSize(1) ||
                     transposed.getDimSize(1) != type.getDimSize(0)))
    return emitOpError("expected bytes of the transposed matrix, found ")
           << transposed << " for " << type;
  Type stored = getSource().getStored()
                    ? getElementTypeOrSelf(getSource().getStored())
                    : Type();
  if (stored && stored != elementType(type)) {
    Type element = elementType(type);
    if (!stored.isF32() || !(element.isBF16() || element.isF16()))
      return emitOpError("expected f32 bytes to be read as bf16 or f16, found ")
             << stored << " and " << element;
  }
  RankedTensorType file = getSource().getFileType(getType());
  auto bytes = numBytes(file).asConstant();
  if (!bytes)
    return emitOpError("expected a static type, found ") << getType();
  if (static_cast<uint64_t>(*bytes) != getSource().getLength())
    return emitOpError("expected ") << *bytes << " bytes for " << file
                                    << ", found " << getSource().getLength();
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

static LogicalResult verifyExprs(Operation *op, ArrayRef<Attribute> exprs) {
  for (Attribute attr : exprs) {
    StringRef text = cast<StringAttr>(attr).getValue();
    if (!SymExpr::parse(std::string_view(text.data(), text.size())))
      return op->emitOpError("expected a size expression, found '")
             << text << "'";
  }
  return success();
}

LogicalResult ShapeValueOp::verify() {
  auto count = numElements(getType()).asConstant();
  if (!count || *count != static_cast<int64_t>(getValues().size()))
    return emitOpError("expected one expression for each element of ")
           << getType();
  if (!elementType(getType()).isIntOrIndex())
    return emitOpError("expected an integer tensor, found ") << getType();
  return verifyExprs(*this, getValues().getValue());
}

LogicalResult IotaOp::verify() {
  if (getSymShape(getType()).size() != 1)
    return emitOpError("expected a result of rank 1, found ") << getType();
  return verifyExprs(*this, {getStartAttr(), getStepAttr()});
}

//===----------------------------------------------------------------------===//
// Reshape
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  if (elementType(getInput()) != elementType(getResult()))
    return emitOpError("expected the element type of the input");
  auto from = numElements(getInput().getType()).asConstant();
  auto to = numElements(getType()).asConstant();
  if (from && to && *from != *to)
    return emitOpError("expected ") << *from << " elements, found " << *to;
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  auto dense = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput());
  if (dense && getType().hasStaticShape() &&
      dense.getNumElements() == getType().getNumElements())
    return dense.reshape(getType());
  return {};
}

namespace {
/// reshape(reshape(x)) -> reshape(x)
struct MergeReshapes final : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<ReshapeOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "input is no reshape");
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), inner.getInput());
    return success();
  }
};

/// transpose(transpose(x)) -> transpose(x)
struct MergeTransposes final : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<TransposeOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "input is no transpose");
    SmallVector<int64_t> perm;
    for (int64_t axis : op.getPerm())
      perm.push_back(inner.getPerm()[axis]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, inner.getInput(), perm);
    return success();
  }
};

/// A transpose that moves only axes of size 1 keeps the order of elements:
/// transpose(x) -> reshape(x)
struct TransposeToReshape final : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    SymShape shape = getSymShape(op.getInput());
    int64_t last = -1;
    for (int64_t axis : op.getPerm()) {
      if (shape[axis] == SymExpr(1))
        continue;
      if (axis < last)
        return rewriter.notifyMatchFailure(op, "axes change their order");
      last = axis;
    }
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getInput());
    return success();
  }
};

/// expand(expand(x)) -> expand(x)
struct MergeExpands final : OpRewritePattern<ExpandOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ExpandOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<ExpandOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "input is no expand");
    rewriter.replaceOpWithNewOp<ExpandOp>(op, op.getType(), inner.getInput());
    return success();
  }
};

/// An expand that only adds leading axes of size 1: expand(x) -> reshape(x)
struct ExpandToReshape final : OpRewritePattern<ExpandOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ExpandOp op,
                                PatternRewriter &rewriter) const override {
    if (numElements(op.getInput().getType()) != numElements(op.getType()))
      return rewriter.notifyMatchFailure(op, "the number of elements changes");
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), op.getInput());
    return success();
  }
};
} // namespace

void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                            MLIRContext *context) {
  patterns.add<MergeReshapes>(context);
}

void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<MergeTransposes, TransposeToReshape>(context);
}

void ExpandOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<MergeExpands, ExpandToReshape>(context);
}

//===----------------------------------------------------------------------===//
// Transpose, expand, slice
//===----------------------------------------------------------------------===//

static bool isPermutation(ArrayRef<int64_t> perm, size_t rank) {
  llvm::SmallVector<bool> seen(rank, false);
  for (int64_t axis : perm) {
    if (axis < 0 || axis >= static_cast<int64_t>(rank) || seen[axis])
      return false;
    seen[axis] = true;
  }
  return perm.size() == rank;
}

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  SymShape from = getSymShape(adaptor.getInput()), shape;
  if (!isPermutation(adaptor.getPerm(), from.size()))
    return emitOptionalError(loc, "expected perm to be a permutation of ",
                             from.size(), " axes");
  for (int64_t axis : adaptor.getPerm())
    shape.push_back(from[axis]);
  types.push_back(getTensorType(shape, elementType(adaptor.getInput())));
  return success();
}

LogicalResult TransposeOp::verify() {
  if (!isPermutation(getPerm(), getSymShape(getInput()).size()))
    return emitOpError("expected perm to be a permutation of the axes");
  return success();
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  for (auto [i, axis] : llvm::enumerate(getPerm()))
    if (axis != static_cast<int64_t>(i))
      return {};
  return getInput().getType() == getType() ? getInput() : Value();
}

std::optional<AffineMap> TransposeOp::getOperandMap(unsigned) {
  auto permutation = AffineMap::getPermutationMap(getPerm(), getContext());
  return inversePermutation(permutation);
}

LogicalResult ExpandOp::verify() {
  auto shape = broadcastShapes(getSymShape(getInput()), getSymShape(getType()));
  if (!shape || !compatibleShapes(*shape, getSymShape(getType())))
    return emitOpError("cannot broadcast ")
           << getInput().getType() << " to " << getType();
  if (elementType(getInput()) != elementType(getType()))
    return emitOpError("expected the element type of the input");
  return success();
}

OpFoldResult ExpandOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? getInput() : Value();
}

LogicalResult SliceOp::verify() {
  size_t rank = getSymShape(getInput()).size();
  if (getStarts().size() != rank || getSteps().size() != rank ||
      getSymShape(getType()).size() != rank)
    return emitOpError("expected ") << rank << " starts, steps and sizes";
  if (llvm::is_contained(getSteps(), 0))
    return emitOpError("expected non-zero steps");
  if (elementType(getInput()) != elementType(getType()))
    return emitOpError("expected the element type of the input");
  if (failed(verifyExprs(*this, getStarts().getValue())))
    return failure();
  // Where all is constant, the last element must lie inside.
  SymShape from = getSymShape(getInput()), to = getSymShape(getType());
  for (auto [axis, start] : llvm::enumerate(getExprs(getStarts()))) {
    auto first = start.asConstant(), size = from[axis].asConstant(),
         count = to[axis].asConstant();
    if (!first || !size || !count || *count == 0)
      continue;
    int64_t last = *first + (*count - 1) * getSteps()[axis];
    if (*first < 0 || *first >= *size || last < 0 || last >= *size)
      return emitOpError("reads elements ")
             << *first << " to " << last << " of axis " << axis
             << ", which has " << *size;
  }
  return success();
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  if (getInput().getType() != getType())
    return {};
  for (auto [start, step] : llvm::zip(getExprs(getStarts()), getSteps()))
    if (start != SymExpr(0) || step != 1)
      return {};
  return getInput();
}

//===----------------------------------------------------------------------===//
// Concat, pad, tile, gather, scatter, trilu
//===----------------------------------------------------------------------===//

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  if (adaptor.getInputs().empty())
    return emitOptionalError(loc, "expected at least one input");
  SymShape shape = getSymShape(adaptor.getInputs().front());
  int64_t axis = adaptor.getAxis();
  if (failed(checkAxis(loc, axis, shape.size())))
    return failure();
  for (Value input : adaptor.getInputs().drop_front()) {
    SymShape next = getSymShape(input);
    if (next.size() != shape.size())
      return emitOptionalError(loc, "expected inputs of equal rank");
    for (size_t i = 0; i < shape.size(); ++i) {
      if (static_cast<int64_t>(i) == axis)
        shape[i] = shape[i] + next[i];
      else if (!compatibleShapes(ArrayRef(&shape[i], 1), ArrayRef(&next[i], 1)))
        return emitOptionalError(loc, "inputs differ along axis ", i);
      else if (next[i].isConstant())
        shape[i] = next[i];
    }
  }
  types.push_back(
      getTensorType(shape, elementType(adaptor.getInputs().front())));
  return success();
}

LogicalResult ConcatOp::verify() {
  for (Value input : getInputs())
    if (elementType(input) != elementType(getType()))
      return emitOpError("expected inputs of one element type");
  return success();
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  return getInputs().size() == 1 && getInputs().front().getType() == getType()
             ? getInputs().front()
             : Value();
}

LogicalResult PadOp::verify() {
  size_t rank = getSymShape(getInput()).size();
  if (getLow().size() != rank || getSymShape(getType()).size() != rank)
    return emitOpError("expected ") << rank << " low paddings and sizes";
  if (!llvm::is_contained({"constant", "edge", "reflect", "wrap"}, getMode()))
    return emitOpError("unknown mode '") << getMode() << "'";
  return verifyExprs(*this, getLow().getValue());
}

LogicalResult TileOp::verify() {
  if (getSymShape(getInput()).size() != getSymShape(getType()).size())
    return emitOpError("expected equal ranks");
  return success();
}

LogicalResult GatherOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  SymShape data = getSymShape(adaptor.getData());
  SymShape indices = getSymShape(adaptor.getIndices());
  int64_t axis = adaptor.getAxis();
  if (failed(checkAxis(loc, axis, data.size())))
    return failure();
  SymShape shape(data.begin(), data.begin() + axis);
  shape.append(indices.begin(), indices.end());
  shape.append(data.begin() + axis + 1, data.end());
  types.push_back(getTensorType(shape, elementType(adaptor.getData())));
  return success();
}

static LogicalResult verifyIndices(Operation *op, Value indices) {
  if (!elementType(indices).isIntOrIndex())
    return op->emitOpError("expected integer indices, found ")
           << indices.getType();
  return success();
}

LogicalResult GatherOp::verify() { return verifyIndices(*this, getIndices()); }

LogicalResult GatherElementsOp::inferReturnTypes(MLIRContext *,
                                                 std::optional<Location> loc,
                                                 Adaptor adaptor,
                                                 SmallVectorImpl<Type> &types) {
  int64_t axis = adaptor.getAxis();
  int64_t rank = getSymShape(adaptor.getData()).size();
  if (axis < 0 || axis >= rank ||
      rank != static_cast<int64_t>(getSymShape(adaptor.getIndices()).size()))
    return emitOptionalError(loc, "expected data and indices of equal rank, "
                                  "and an axis below it");
  types.push_back(withElementType(adaptor.getIndices().getType(),
                                  elementType(adaptor.getData())));
  return success();
}

LogicalResult GatherElementsOp::verify() {
  return verifyIndices(*this, getIndices());
}

LogicalResult ScatterNdOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location>,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  types.push_back(logicalType(adaptor.getData().getType()));
  return success();
}

LogicalResult
ScatterElementsOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                    Adaptor adaptor,
                                    SmallVectorImpl<Type> &types) {
  types.push_back(logicalType(adaptor.getData().getType()));
  return success();
}

LogicalResult TriluOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  if (getSymShape(adaptor.getInput()).size() < 2)
    return emitOptionalError(loc, "expected an input of rank 2 or more");
  types.push_back(logicalType(adaptor.getInput().getType()));
  return success();
}
