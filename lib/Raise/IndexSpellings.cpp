//===- IndexSpellings.cpp - Gathers and pieces that are views -------------===//
//
// Elements picked by constant indices, and pieces put together again: slices
// where they follow each other, repeats where each is there several times.
//
//===----------------------------------------------------------------------===//

#include "Parts.h"
#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

static Value createSlice(OpBuilder &builder, Location loc, Value x,
                         int64_t axis, int64_t start, int64_t count,
                         int64_t step = 1) {
  SymShape shape = getSymShape(x);
  SymShape starts(shape.size(), SymExpr(0));
  SmallVector<int64_t> steps(shape.size(), 1);
  starts[axis] = start, shape[axis] = count, steps[axis] = step;
  return SliceOp::create(builder, loc, getTensorType(shape, elementType(x)), x,
                         getExprsAttr(builder.getContext(), starts), steps);
}

/// `x` with each element of `axis` `groups` times in a row.
static Value createRepeat(OpBuilder &builder, Location loc, Value x,
                          int64_t axis, int64_t groups) {
  Type element = elementType(x);
  SymShape wide = getSymShape(x), flat = wide;
  wide.insert(wide.begin() + axis + 1, SymExpr(1));
  Value split =
      ReshapeOp::create(builder, loc, getTensorType(wide, element), x);
  wide[axis + 1] = groups;
  Value copies =
      ExpandOp::create(builder, loc, getTensorType(wide, element), split);
  flat[axis] = flat[axis] * SymExpr(groups);
  return ReshapeOp::create(builder, loc, getTensorType(flat, element), copies);
}

namespace {
/// Constant indices into an axis of a value that is no table.
struct Indices {
  SmallVector<int64_t> values;
  int64_t axis, size;

  int64_t count() const { return values.size(); }
  /// Whether values[i] is start + step * i for all i below `until`.
  bool isProgression(int64_t start, int64_t step, int64_t from,
                     int64_t until) const {
    for (int64_t i = from; i < until; ++i)
      if (values[i] != start + step * (i - from))
        return false;
    return true;
  }
};
} // namespace

static std::optional<Indices> getIndices(GatherOp op) {
  int64_t axis = op.getAxis();
  auto size = getSymShape(op.getData())[axis].asConstant();
  auto constant = op.getIndices().getDefiningOp<ConstantOp>();
  auto dense =
      constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : nullptr;
  if (!size || !dense || dense.getType().getRank() != 1 || dense.size() < 2 ||
      isConstantDerived(op.getData()))
    return std::nullopt;
  Indices indices{{}, axis, *size};
  for (const APInt &value : dense.getValues<APInt>()) {
    int64_t i = value.getSExtValue();
    indices.values.push_back(i < 0 ? i + *size : i);
    if (indices.values.back() < 0 || indices.values.back() >= *size)
      return std::nullopt;
  }
  return indices;
}

namespace {
/// gather(x, [a, a + s, a + 2s, ..]) -> slice(x)
struct GatherOfSteps final : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    auto indices = getIndices(op);
    int64_t step = indices ? indices->values[1] - indices->values[0] : 0;
    if (step < 1 ||
        !indices->isProgression(indices->values[0], step, 0, indices->count()))
      return rewriter.notifyMatchFailure(op, "indices do not ascend evenly");
    rewriter.replaceOp(op, createSlice(rewriter, op.getLoc(), op.getData(),
                                       indices->axis, indices->values[0],
                                       indices->count(), step));
    return success();
  }
};

/// gather(x, [h, .., n - 1, 0, .., h - 1]) -> concat of two slices
struct GatherOfTwoRuns final : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    auto indices = getIndices(op);
    if (!indices || indices->count() != indices->size)
      return rewriter.notifyMatchFailure(op, "not all elements once");
    int64_t first = indices->values[0], rest = indices->size - first;
    if (first == 0 || !indices->isProgression(first, 1, 0, rest) ||
        !indices->isProgression(0, 1, rest, indices->count()))
      return rewriter.notifyMatchFailure(op, "the parts do not change places");
    Value x = op.getData();
    Value upper =
        createSlice(rewriter, op.getLoc(), x, indices->axis, first, rest);
    Value lower =
        createSlice(rewriter, op.getLoc(), x, indices->axis, 0, first);
    rewriter.replaceOpWithNewOp<ConcatOp>(op, ValueRange{upper, lower},
                                          indices->axis);
    return success();
  }
};

/// gather(x, [1, 0, 3, 2, ..]) along the last axis: the odd elements and the
/// even ones, alternating
struct GatherOfSwappedPairs final : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    auto indices = getIndices(op);
    SymShape shape = getSymShape(op.getData());
    if (!indices || indices->count() != indices->size || indices->size % 2 ||
        indices->size < 4 ||
        indices->axis + 1 != static_cast<int64_t>(shape.size()))
      return rewriter.notifyMatchFailure(op, "not all elements once");
    for (int64_t i = 0; i < indices->size; ++i)
      if (indices->values[i] != (i ^ 1))
        return rewriter.notifyMatchFailure(op, "no pairs are swapped");
    shape.back() = indices->size / 2;
    shape.push_back(1);
    SmallVector<Value> pieces;
    for (int64_t start : {1, 0}) {
      Value part = createSlice(rewriter, op.getLoc(), op.getData(),
                               indices->axis, start, indices->size / 2, 2);
      pieces.push_back(
          ReshapeOp::create(rewriter, op.getLoc(),
                            getTensorType(shape, elementType(part)), part));
    }
    Value pairs =
        ConcatOp::create(rewriter, op.getLoc(), pieces, indices->axis + 1);
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), pairs);
    return success();
  }
};

/// gather(x, [0, 0, 1, 1, ..]) -> each element several times in a row
struct GatherOfRepeats final : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    auto indices = getIndices(op);
    if (!indices || indices->count() % indices->size ||
        indices->count() == indices->size)
      return rewriter.notifyMatchFailure(op, "elements are not repeated");
    int64_t groups = indices->count() / indices->size;
    for (auto [i, value] : llvm::enumerate(indices->values))
      if (value != static_cast<int64_t>(i) / groups)
        return rewriter.notifyMatchFailure(op, "elements do not repeat alike");
    rewriter.replaceOp(op, createRepeat(rewriter, op.getLoc(), op.getData(),
                                        indices->axis, groups));
    return success();
  }
};
} // namespace

namespace {
/// matmul(x, a matrix of one 1 or -1 in each column) -> gather(x) * signs
struct ProductWithPermutation final : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  /// For each column the row of its only element, and the element.
  static bool getColumns(DenseFPElementsAttr matrix, bool transposed,
                         SmallVectorImpl<int64_t> &rows,
                         SmallVectorImpl<Attribute> &signs) {
    int64_t size = matrix.getType().getDimSize(0);
    Type element = matrix.getElementType();
    rows.assign(size, -1);
    signs.assign(size, Attribute());
    int64_t i = 0;
    for (const APFloat &value : matrix.getValues<APFloat>()) {
      int64_t row = i / size, column = i % size;
      ++i;
      if (value.isZero())
        continue;
      if (transposed)
        std::swap(row, column);
      if (rows[column] >= 0 ||
          (!value.isExactlyValue(1) && !value.isExactlyValue(-1)))
        return false;
      rows[column] = row;
      signs[column] = FloatAttr::get(element, value);
    }
    return !llvm::is_contained(rows, -1);
  }

  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    auto constant = op.getRhs().getDefiningOp<ConstantOp>();
    auto matrix =
        constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : nullptr;
    if (!matrix || matrix.isSplat() || matrix.getType().getRank() != 2 ||
        matrix.getType().getDimSize(0) != matrix.getType().getDimSize(1) ||
        matrix.getType().getDimSize(0) > 512 || op.getTransposeLhs() ||
        op.getLhs().getType() != op.getType())
      return rewriter.notifyMatchFailure(op, "no small square matrix");
    SmallVector<int64_t> rows;
    SmallVector<Attribute> signs;
    if (!getColumns(matrix, op.getTransposeRhs(), rows, signs))
      return rewriter.notifyMatchFailure(op, "no permutation with signs");
    Location loc = op.getLoc();
    int64_t size = rows.size(), last = getSymShape(op.getLhs()).size() - 1;
    auto indexType = RankedTensorType::get({size}, rewriter.getI64Type());
    Value indices = ConstantOp::create(
        rewriter, loc, DenseElementsAttr::get(indexType, ArrayRef(rows)));
    Value picked = GatherOp::create(rewriter, loc, op.getLhs(), indices, last);
    auto signType = RankedTensorType::get({size}, matrix.getElementType());
    Value factor = ConstantOp::create(rewriter, loc,
                                      DenseElementsAttr::get(signType, signs));
    rewriter.replaceOpWithNewOp<MulOp>(op, op.getType(), picked, factor);
    return success();
  }
};
} // namespace

namespace {
/// x[.., ::-1] of two elements -> concat(x[.., 1:2], x[.., 0:1])
struct ReversedPair final : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    SymShape shape = getSymShape(op.getResult()),
             source = getSymShape(op.getInput()),
             starts = getExprs(op.getStarts());
    std::optional<int64_t> axis;
    for (auto [i, step] : llvm::enumerate(op.getSteps())) {
      if (step == 1 && shape[i] == source[i])
        continue;
      if (axis || step != -1 || shape[i] != SymExpr(2) ||
          source[i] != SymExpr(2) || starts[i] != SymExpr(1))
        return rewriter.notifyMatchFailure(op, "no two elements reversed");
      axis = i;
    }
    if (!axis)
      return rewriter.notifyMatchFailure(op, "no axis is reversed");
    Value x = op.getInput();
    Value second = createSlice(rewriter, op.getLoc(), x, *axis, 1, 1);
    Value first = createSlice(rewriter, op.getLoc(), x, *axis, 0, 1);
    rewriter.replaceOpWithNewOp<ConcatOp>(op, ValueRange{second, first}, *axis);
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

static bool isSamePart(Value a, Value b) {
  if (a == b)
    return true;
  Part x = getPart(a), y = getPart(b);
  return x.base == y.base && x.starts == y.starts && x.sizes == y.sizes &&
         x.steps == y.steps;
}

namespace {
/// concat(a, a, b, b) of pieces of size 1 -> concat(a, b), each twice
struct ConcatOfRepeats final : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override {
    int64_t axis = op.getAxis(), count = op.getInputs().size(), groups = 1;
    auto inputs = op.getInputs();
    while (groups < count && isSamePart(inputs[groups], inputs[0]))
      ++groups;
    if (groups == 1 || count % groups)
      return rewriter.notifyMatchFailure(op, "pieces are not repeated");
    SmallVector<Value> once;
    for (int64_t i = 0; i < count; ++i) {
      if (getSymShape(inputs[i])[axis] != SymExpr(1) ||
          !isSamePart(inputs[i], inputs[i / groups * groups]))
        return rewriter.notifyMatchFailure(op, "pieces do not repeat alike");
      if (i % groups == 0)
        once.push_back(inputs[i]);
    }
    Location loc = op.getLoc();
    if (once.size() == 1) {
      rewriter.replaceOpWithNewOp<ExpandOp>(op, op.getType(), once[0]);
      return success();
    }
    Value all = ConcatOp::create(rewriter, loc, once, axis);
    rewriter.replaceOp(op, createRepeat(rewriter, loc, all, axis, groups));
    return success();
  }
};

/// concat(x[0:a], x[a:b]) -> x[0:b]
struct ConcatOfNeighbours final : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override {
    int64_t axis = op.getAxis();
    Part whole = getPart(op.getInputs()[0]);
    for (Value input : op.getInputs().drop_front()) {
      Part part = getPart(input), next = whole;
      next.starts[axis] = whole.starts[axis] + whole.sizes[axis];
      next.sizes[axis] = part.sizes[axis];
      if (part.base != whole.base || part.starts != next.starts ||
          part.sizes != next.sizes || part.steps != next.steps ||
          part.steps[axis] != 1)
        return rewriter.notifyMatchFailure(op, "pieces are no neighbours");
      whole.sizes[axis] = whole.sizes[axis] + part.sizes[axis];
    }
    if (whole.base == op.getInputs()[0])
      return rewriter.notifyMatchFailure(op, "no parts of one value");
    if (whole.sizes == getSymShape(whole.base)) {
      rewriter.replaceOp(op, whole.base);
      return success();
    }
    rewriter.replaceOpWithNewOp<SliceOp>(
        op, op.getType(), whole.base,
        getExprsAttr(op.getContext(), whole.starts), whole.steps);
    return success();
  }
};

/// concat(a, b) * [1.., -1..] -> concat(a, -b), the signs along the same axis
struct SignsOfConcat final : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;

  /// The signs of `factor` along `axis` of a value of `rank` axes.
  static std::optional<SmallVector<int>> getSigns(Value factor, int64_t axis,
                                                  int64_t rank) {
    auto constant = factor.getDefiningOp<ConstantOp>();
    auto dense =
        constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : nullptr;
    if (!dense || dense.isSplat())
      return std::nullopt;
    ArrayRef<int64_t> shape = dense.getType().getShape();
    int64_t place = axis - (rank - static_cast<int64_t>(shape.size()));
    for (auto [i, size] : llvm::enumerate(shape))
      if (static_cast<int64_t>(i) != place && size != 1)
        return std::nullopt;
    SmallVector<int> signs;
    for (const APFloat &value : dense.getValues<APFloat>()) {
      if (!value.isExactlyValue(1) && !value.isExactlyValue(-1))
        return std::nullopt;
      signs.push_back(value.isNegative() ? -1 : 1);
    }
    return signs;
  }

  static LogicalResult split(MulOp op, ConcatOp concat, ArrayRef<int> signs,
                             PatternRewriter &rewriter) {
    SmallVector<std::pair<Value, bool>> pieces;
    int64_t begin = 0;
    for (Value input : concat.getInputs()) {
      auto size = getSymShape(input)[concat.getAxis()].asConstant();
      if (!size || begin + *size > static_cast<int64_t>(signs.size()))
        return rewriter.notifyMatchFailure(op, "sizes are not known");
      ArrayRef<int> own = signs.slice(begin, *size);
      if (!llvm::all_equal(own))
        return rewriter.notifyMatchFailure(op, "a piece has several signs");
      pieces.push_back({input, !own.empty() && own[0] < 0});
      begin += *size;
    }
    SmallVector<Value> signedPieces;
    for (auto [piece, negative] : pieces)
      signedPieces.push_back(
          negative ? NegOp::create(rewriter, op.getLoc(), piece).getResult()
                   : piece);
    rewriter.replaceOpWithNewOp<ConcatOp>(op, signedPieces, concat.getAxis());
    return success();
  }

  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    for (unsigned i : {0u, 1u}) {
      auto concat = op->getOperand(i).getDefiningOp<ConcatOp>();
      if (!concat || concat.getType() != op.getType())
        continue;
      auto signs = getSigns(other(op, i), concat.getAxis(),
                            getSymShape(op.getResult()).size());
      if (signs)
        return split(op, concat, *signs, rewriter);
    }
    return rewriter.notifyMatchFailure(op, "no pieces times their signs");
  }
};
} // namespace

namespace {
/// Alternating elements times alternating signs: the signs go to the pieces.
struct SignsOfPairs final : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override {
    for (unsigned i : {0u, 1u}) {
      Value x = op->getOperand(i);
      int64_t rank = getSymShape(op.getResult()).size();
      auto pieces = getInterleaved(x);
      auto signs = pieces && x.getType() == op.getType()
                       ? SignsOfConcat::getSigns(other(op, i), rank - 1, rank)
                       : std::nullopt;
      if (!signs || signs->size() < 2 || signs->size() % 2)
        continue;
      for (auto [at, sign] : llvm::enumerate(*signs))
        if (sign != (*signs)[at % 2])
          return rewriter.notifyMatchFailure(op, "signs do not alternate");
      Location loc = op.getLoc();
      SymShape column = getSymShape(x.getDefiningOp()->getOperand(0));
      column.back() = 1;
      SmallVector<Value> columns, halves = {pieces->first, pieces->second};
      for (auto [at, piece] : llvm::enumerate(halves)) {
        Value value = piece;
        if ((*signs)[at] < 0)
          value = NegOp::create(rewriter, loc, value);
        columns.push_back(ReshapeOp::create(
            rewriter, loc, getTensorType(column, elementType(value)), value));
      }
      Value pairs = ConcatOp::create(rewriter, loc, columns, rank);
      rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), pairs);
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no pairs times their signs");
  }
};
} // namespace

void raise::populateIndexSpellings(RewritePatternSet &patterns) {
  patterns
      .add<GatherOfSteps, GatherOfTwoRuns, GatherOfSwappedPairs,
           GatherOfRepeats, ProductWithPermutation, ReversedPair,
           ConcatOfRepeats, ConcatOfNeighbours, SignsOfConcat, SignsOfPairs>(
          patterns.getContext());
}
