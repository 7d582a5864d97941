//===- ScatterSpellings.cpp - Assignments to parts as concatenations ------===//
//
// An exporter writes x[.., a:b] = y as a scatter with the indices of every
// element. Where these are all of the other axes and consecutive along one,
// the result is the rest of x and y, concatenated.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// The number of axes of `value` that are not of size 1; `axis` becomes the
/// last of them.
static int64_t countVarying(Value value, int64_t &axis) {
  int64_t count = 0;
  for (auto [i, size] : llvm::enumerate(getSymShape(value)))
    if (size != SymExpr(1))
      ++count, axis = i;
  return count;
}

/// The first of consecutive numbers that `value` holds, as one row.
static std::optional<SymExpr> getFirst(Value value) {
  if (auto iota = value.getDefiningOp<IotaOp>()) {
    if (getExpr(iota.getStepAttr()) != SymExpr(1))
      return std::nullopt;
    return getExpr(iota.getStartAttr());
  }
  auto constant = value.getDefiningOp<ConstantOp>();
  auto dense =
      constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : nullptr;
  if (!dense || dense.empty())
    return std::nullopt;
  int64_t first = (*dense.getValues<APInt>().begin()).getSExtValue(), i = 0;
  for (const APInt &element : dense.getValues<APInt>())
    if (element.getSExtValue() != first + i++)
      return std::nullopt;
  return SymExpr(first);
}

/// The first index where `column`, of the shape `dims`, holds consecutive ones
/// along `axis` and the same ones along all others.
static std::optional<SymExpr> getRun(Value column, const SymShape &dims,
                                     int64_t axis) {
  auto reshape = column.getDefiningOp<ReshapeOp>();
  if (!reshape || getSymShape(reshape.getInput()) != dims)
    return std::nullopt;
  Value value = reshape.getInput();
  while (auto expand = value.getDefiningOp<ExpandOp>())
    value = expand.getInput();
  int64_t rank = dims.size(), place = 0, varying = countVarying(value, place);
  int64_t own = getSymShape(value).size();
  if (varying > 1 || (varying == 1 && place + rank - own != axis) ||
      (varying == 1 ? getSymShape(value)[place] : SymExpr(1)) != dims[axis])
    return std::nullopt;
  while (auto view = value.getDefiningOp<ReshapeOp>())
    value = view.getInput();
  return getFirst(value);
}

static Value createPart(OpBuilder &builder, Location loc, Value x, int64_t axis,
                        SymExpr start, SymExpr size) {
  SymShape shape = getSymShape(x);
  SymShape starts(shape.size(), SymExpr(0));
  starts[axis] = start, shape[axis] = size;
  return SliceOp::create(builder, loc, getTensorType(shape, elementType(x)), x,
                         getExprsAttr(builder.getContext(), starts),
                         SmallVector<int64_t>(shape.size(), 1));
}

namespace {
struct ScatterToConcat final : OpRewritePattern<ScatterNdOp> {
  using OpRewritePattern::OpRewritePattern;

  /// Whole rows, by one index each.
  static std::optional<std::pair<int64_t, int64_t>> getRows(ScatterNdOp op) {
    Value indices = op.getIndices();
    while (auto view = indices.getDefiningOp<ReshapeOp>())
      indices = view.getInput();
    auto first = getFirst(indices);
    auto start = first ? first->asConstant() : std::nullopt;
    if (lastSize(op.getIndices()) != 1 || !start || *start < 0 ||
        !getSymShape(op.getData())[0].isConstant() ||
        !getSymShape(op.getUpdates())[0].isConstant())
      return std::nullopt;
    return std::make_pair(0, *start);
  }

  /// The only axis along which not all elements are replaced, and the first
  /// one that is.
  static std::optional<std::pair<int64_t, int64_t>> getPlace(ScatterNdOp op) {
    SymShape whole = getSymShape(op.getData()),
             dims = getSymShape(op.getUpdates());
    if (getSymShape(op.getIndices()).size() == 2)
      return getRows(op);
    auto columns = op.getIndices().getDefiningOp<ConcatOp>();
    size_t rank = whole.size();
    if (!columns || columns.getInputs().size() != rank || dims.size() != rank ||
        columns.getAxis() != static_cast<int64_t>(rank))
      return std::nullopt;
    std::optional<std::pair<int64_t, int64_t>> place;
    for (auto [axis, column] : llvm::enumerate(columns.getInputs())) {
      auto first = getRun(column, dims, axis);
      auto start = first ? first->asConstant() : std::nullopt;
      if (!start || *start < 0)
        return std::nullopt;
      if (dims[axis] == whole[axis] && *start == 0)
        continue;
      if (place || !whole[axis].isConstant() || !dims[axis].isConstant())
        return std::nullopt;
      place = std::make_pair(static_cast<int64_t>(axis), *start);
    }
    return place;
  }

  LogicalResult matchAndRewrite(ScatterNdOp op,
                                PatternRewriter &rewriter) const override {
    auto place = op.getReduction() == "none" ? getPlace(op) : std::nullopt;
    if (!place)
      return rewriter.notifyMatchFailure(op, "no part along one axis");
    auto [axis, start] = *place;
    int64_t size = *getSymShape(op.getData())[axis].asConstant(),
            end = start + *getSymShape(op.getUpdates())[axis].asConstant();
    if (end > size)
      return rewriter.notifyMatchFailure(op, "indices are out of range");
    SmallVector<Value> pieces;
    if (start > 0)
      pieces.push_back(createPart(rewriter, op.getLoc(), op.getData(), axis,
                                  SymExpr(0), SymExpr(start)));
    pieces.push_back(op.getUpdates());
    if (end < size)
      pieces.push_back(createPart(rewriter, op.getLoc(), op.getData(), axis,
                                  SymExpr(end), SymExpr(size - end)));
    rewriter.replaceOpWithNewOp<ConcatOp>(op, pieces, axis);
    return success();
  }
};
} // namespace

namespace {
/// concat(transpose(a), transpose(b)) -> transpose(concat(a, b)), as pieces
/// that are assigned along the first axis are turned
struct ConcatOfTransposes final : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override {
    bool isTurnedBack =
        op->hasOneUse() && isa<TransposeOp>(*op->getUsers().begin());
    SmallVector<Value> pieces;
    SmallVector<int64_t> perm;
    for (Value input : op.getInputs()) {
      auto transpose = input.getDefiningOp<TransposeOp>();
      if (!transpose || !isTurnedBack ||
          (!perm.empty() && transpose.getPerm() != ArrayRef<int64_t>(perm)))
        return rewriter.notifyMatchFailure(op, "pieces are not turned alike");
      perm.assign(transpose.getPerm().begin(), transpose.getPerm().end());
      pieces.push_back(transpose.getInput());
    }
    Value whole =
        ConcatOp::create(rewriter, op.getLoc(), pieces, perm[op.getAxis()]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), whole, perm);
    return success();
  }
};
} // namespace

void raise::populateScatterSpellings(RewritePatternSet &patterns) {
  patterns.add<ScatterToConcat, ConcatOfTransposes>(patterns.getContext());
}
