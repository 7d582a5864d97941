//===- ViewSpellings.cpp - One spelling for views -------------------------===//
//
// Exporters reach the same elements by different ways: slices of slices, a
// dimension that is split and indexed, pieces stacked and flattened. Each of
// these patterns keeps every element in its place.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

static bool isUnit(const SymExpr &e) { return e == SymExpr(1); }

namespace {
/// slice(slice(x)) -> slice(x)
struct MergeSlices final : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getInput().getDefiningOp<SliceOp>())
      return rewriter.notifyMatchFailure(op, "input is no slice");
    Part part = getPart(op.getResult());
    rewriter.replaceOpWithNewOp<SliceOp>(
        op, op.getType(), part.base, getExprsAttr(op.getContext(), part.starts),
        part.steps);
    return success();
  }
};

/// gather(x, i) of one known index, or of a constant i, i + 1, ... -> slice;
/// without the axis when the index has rank 0. Rows of a constant table, be it
/// quantised, are left to the patterns of embeddings.
struct GatherToSlice final : OpRewritePattern<GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  /// The first of consecutive indices into an axis of `size` elements.
  static std::optional<int64_t> getFirst(Value indices, int64_t size) {
    auto wrap = [&](int64_t i) { return i < 0 ? i + size : i; };
    if (numElements(indices.getType()) == SymExpr(1)) {
      auto index = getScalar(indices);
      return index ? std::optional(wrap(static_cast<int64_t>(*index)))
                   : std::nullopt;
    }
    auto constant = indices.getDefiningOp<ConstantOp>();
    auto dense = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue())
                          : nullptr;
    if (!dense || dense.empty())
      return std::nullopt;
    auto values = dense.getValues<APInt>();
    int64_t first = wrap((*values.begin()).getSExtValue()), next = first;
    if (first < 0 || first >= size)
      return std::nullopt;
    for (const APInt &value : values)
      if (wrap(value.getSExtValue()) != next++)
        return std::nullopt;
    return first;
  }

  LogicalResult matchAndRewrite(GatherOp op,
                                PatternRewriter &rewriter) const override {
    SymShape shape = getSymShape(op.getData());
    int64_t axis = op.getAxis();
    auto size = shape[axis].asConstant(),
         count = numElements(op.getIndices().getType()).asConstant();
    if (!size || !count)
      return rewriter.notifyMatchFailure(op, "size of the axis is not known");
    if (*count != 1 && isConstantDerived(op.getData()))
      return rewriter.notifyMatchFailure(op, "rows of a table stay a gather");
    auto first = getFirst(op.getIndices(), *size);
    if (!first)
      return rewriter.notifyMatchFailure(
          op, "indices are not known to be consecutive");
    if (*first < 0 || *first > *size - *count)
      return rewriter.notifyMatchFailure(op, "index is out of range");
    SymShape starts(shape.size(), SymExpr(0));
    starts[axis] = SymExpr(*first);
    shape[axis] = *count;
    Value slice = SliceOp::create(
        rewriter, op.getLoc(), getTensorType(shape, elementType(op.getData())),
        op.getData(), getExprsAttr(op.getContext(), starts),
        SmallVector<int64_t>(shape.size(), 1));
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), slice);
    return success();
  }
};

/// A dimension split in two of which one is indexed:
/// reshape(slice(reshape(x, [.., a, b]), [.., :, i])) -> slice(x, i, step b)
/// reshape(slice(reshape(x, [.., a, b]), [.., i, :])) -> slice(x, i*b, b long)
struct IndexOfSplit final : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto slice = op.getInput().getDefiningOp<SliceOp>();
    auto split = slice ? slice.getInput().getDefiningOp<ReshapeOp>() : nullptr;
    if (!split)
      return rewriter.notifyMatchFailure(op, "no slice of a split dimension");
    SymShape pieces = getSymShape(split.getResult()),
             part = getSymShape(slice.getResult());
    size_t rank = pieces.size();
    if (rank < 2)
      return rewriter.notifyMatchFailure(op, "no axis is split");
    // The shape before the split; outer axes may have been reshaped with it.
    SymShape whole(ArrayRef(pieces).drop_back(1));
    whole.back() = pieces[rank - 2] * pieces[rank - 1];
    SymShape source = getSymShape(split.getInput());
    // Pairs may be split together with the heads that they belong to.
    bool arePairs = pieces[rank - 1] == SymExpr(2) && !source.empty() &&
                    source.back().exactDiv(whole.back());
    if (source.empty() || (source.back() != whole.back() && !arePairs))
      return rewriter.notifyMatchFailure(op, "the last axis is not split");
    SymShape starts = getExprs(slice.getStarts());
    for (size_t i = 0; i + 2 < rank; ++i)
      if (part[i] != pieces[i] || slice.getSteps()[i] != 1)
        return rewriter.notifyMatchFailure(op, "other axes are sliced");
    bool inner = isUnit(part[rank - 1]) && part[rank - 2] == pieces[rank - 2];
    bool outer = isUnit(part[rank - 2]) && part[rank - 1] == pieces[rank - 1];
    auto width = pieces.back().asConstant();
    if (inner == outer || (outer && source.back() != whole.back()) || !width ||
        slice.getSteps()[rank - 1] != 1 || slice.getSteps()[rank - 2] != 1)
      return rewriter.notifyMatchFailure(op, "neither piece is indexed");
    SymShape to(whole);
    to.back() = inner ? part[rank - 2] : part[rank - 1];
    if (to != getSymShape(op.getResult()))
      return rewriter.notifyMatchFailure(op, "the indexed axis stays");
    SymShape from(whole.size(), SymExpr(0));
    from.back() = inner ? starts[rank - 1] : starts[rank - 2] * SymExpr(*width);
    SmallVector<int64_t> steps(whole.size(), 1);
    steps.back() = inner ? *width : 1;
    Value input = split.getInput();
    if (source != whole)
      input =
          ReshapeOp::create(rewriter, op.getLoc(),
                            getTensorType(whole, elementType(input)), input);
    rewriter.replaceOpWithNewOp<SliceOp>(
        op, op.getType(), input, getExprsAttr(op.getContext(), from), steps);
    return success();
  }
};

/// Pieces stacked on a new axis that is flattened into the next one:
/// reshape(concat(reshape(a, [.., 1, n]), .., axis -2), [.., k*n])
///   -> concat(a, .., axis -1)
struct FlattenedStack final : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto concat = op.getInput().getDefiningOp<ConcatOp>();
    if (!concat)
      return rewriter.notifyMatchFailure(op, "input is no concat");
    SymShape stacked = getSymShape(concat.getResult()),
             flat = getSymShape(op.getResult());
    int64_t axis = concat.getAxis(), rank = stacked.size();
    if (axis != rank - 2 || flat.size() + 1 != stacked.size() ||
        ArrayRef(flat).drop_back(1) != ArrayRef(stacked).drop_back(2))
      return rewriter.notifyMatchFailure(op, "axes are not merged at the end");
    SmallVector<Value> pieces;
    for (Value input : concat.getInputs()) {
      SymShape shape = getSymShape(input);
      if (!isUnit(shape[axis]))
        return rewriter.notifyMatchFailure(op, "a piece has several rows");
      shape.erase(shape.begin() + axis);
      // A negation stays where patterns look for it.
      auto neg = input.getDefiningOp<NegOp>();
      Value piece = ReshapeOp::create(rewriter, op.getLoc(),
                                      getTensorType(shape, elementType(input)),
                                      neg ? neg.getInput() : input);
      if (neg)
        piece = NegOp::create(rewriter, neg.getLoc(), piece);
      pieces.push_back(piece);
    }
    auto merged = ConcatOp::create(rewriter, op.getLoc(), pieces, axis);
    if (merged.getType() != op.getType()) {
      rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), merged);
      return success();
    }
    rewriter.replaceOp(op, merged);
    return success();
  }
};

/// A part of one piece of a concat is a part of the piece.
struct SliceOfConcat final : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override {
    auto concat = op.getInput().getDefiningOp<ConcatOp>();
    if (!concat)
      return rewriter.notifyMatchFailure(op, "input is no concat");
    int64_t axis = concat.getAxis();
    SymShape starts = getExprs(op.getStarts());
    auto first = starts[axis].asConstant(),
         count = getSymShape(op.getResult())[axis].asConstant();
    if (!first || !count || op.getSteps()[axis] != 1)
      return rewriter.notifyMatchFailure(op, "place is not known");
    int64_t begin = 0;
    for (Value input : concat.getInputs()) {
      auto size = getSymShape(input)[axis].asConstant();
      if (!size)
        return rewriter.notifyMatchFailure(op, "size of a piece is not known");
      if (*first >= begin && *first + *count <= begin + *size) {
        starts[axis] = SymExpr(*first - begin);
        rewriter.replaceOpWithNewOp<SliceOp>(
            op, op.getType(), input, getExprsAttr(op.getContext(), starts),
            SmallVector<int64_t>(op.getSteps()));
        return success();
      }
      begin += *size;
    }
    return rewriter.notifyMatchFailure(op, "spans several pieces");
  }
};

/// A tile of an axis of size 1 is an expand.
struct TileToExpand final : OpRewritePattern<TileOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TileOp op,
                                PatternRewriter &rewriter) const override {
    for (auto [from, to] :
         llvm::zip(getSymShape(op.getInput()), getSymShape(op.getResult())))
      if (from != to && !isUnit(from))
        return rewriter.notifyMatchFailure(op, "repeats more than one element");
    rewriter.replaceOpWithNewOp<ExpandOp>(op, op.getType(), op.getInput());
    return success();
  }
};

/// A reduction that drops its axis and a reshape that brings it back:
/// reshape(reduce(x)) -> reduce(x) {keepdims}
template <typename OpTy>
struct KeepReducedAxis final : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern<ReshapeOp>::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto reduce = op.getInput().getDefiningOp<OpTy>();
    if (!reduce || reduce.getKeepdims())
      return rewriter.notifyMatchFailure(op, "no reduction that drops axes");
    SymShape kept = getSymShape(reduce.getInput());
    for (int64_t axis : reduce.getAxes())
      kept[axis] = 1;
    if (kept != getSymShape(op.getResult()))
      return rewriter.notifyMatchFailure(op, "other axes are brought back");
    rewriter.replaceOpWithNewOp<OpTy>(op, op.getType(), reduce.getInput(),
                                      reduce.getAxes(), true);
    return success();
  }
};

/// An operand broadcast to the shape that the op broadcasts it to anyway:
/// add(expand(a), b) -> add(a, b)
struct DropExpand final : RewritePattern {
  explicit DropExpand(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override {
    if (!isa<AddOp, SubOp, MulOp, DivOp, ModOp, PowOp, MaxOp, MinOp, AndOp,
             OrOp, XorOp, EqualOp, LessOp, LessEqualOp, GreaterOp,
             GreaterEqualOp, WhereOp, MatmulOp>(op))
      return rewriter.notifyMatchFailure(op, "op does not broadcast");
    for (OpOperand &operand : op->getOpOperands()) {
      auto expand = operand.get().getDefiningOp<ExpandOp>();
      if (!expand)
        continue;
      SmallVector<Value> operands(op->getOperands());
      operands[operand.getOperandNumber()] = expand.getInput();
      SmallVector<Type> types;
      auto inferring = cast<InferTypeOpInterface>(op);
      if (failed(inferring.inferReturnTypes(
              op->getContext(), std::nullopt, operands, op->getAttrDictionary(),
              op->getPropertiesStorage(), {}, types)) ||
          types[0] != op->getResult(0).getType())
        continue;
      rewriter.modifyOpInPlace(op, [&] { operand.set(expand.getInput()); });
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no operand is a needless expand");
  }
};
} // namespace

void raise::populateViewSpellings(RewritePatternSet &patterns) {
  patterns.add<MergeSlices, GatherToSlice, IndexOfSplit, FlattenedStack,
               SliceOfConcat, TileToExpand, KeepReducedAxis<ReduceMeanOp>,
               KeepReducedAxis<ReduceSumOp>, KeepReducedAxis<ReduceMaxOp>,
               DropExpand>(patterns.getContext());
}

void raise::populateDialectCanonicalizations(RewritePatternSet &patterns) {
  MLIRContext *context = patterns.getContext();
  ReshapeOp::getCanonicalizationPatterns(patterns, context);
  TransposeOp::getCanonicalizationPatterns(patterns, context);
  ExpandOp::getCanonicalizationPatterns(patterns, context);
  MatmulOp::getCanonicalizationPatterns(patterns, context);
}
