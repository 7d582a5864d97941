//===- MaskSpellings.cpp - Masks that multiply the scores -----------------===//
//
//   x * b - c * (1 - b)  -> where(b, x, -c)      b is 0 or 1 everywhere
//
// Of scores alone: for an infinite x the product would be no number.
//
//===----------------------------------------------------------------------===//

#include "Bounds.h"
#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// offset + slope * b.
namespace {
struct Line {
  double offset, slope;
};
} // namespace

/// `value` as a line in `b`.
static std::optional<Line> getLine(Value value, Value b, unsigned depth = 6) {
  if (value == b)
    return Line{0, 1};
  if (auto scalar = getScalar(value))
    return Line{*scalar, 0};
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<AddOp, SubOp, MulOp, DivOp, NegOp>(op) || depth == 0)
    return std::nullopt;
  SmallVector<Line, 2> in;
  for (Value operand : op->getOperands()) {
    auto line = getLine(operand, b, depth - 1);
    if (!line)
      return std::nullopt;
    in.push_back(*line);
  }
  if (isa<NegOp>(op))
    return Line{-in[0].offset, -in[0].slope};
  if (isa<AddOp>(op))
    return Line{in[0].offset + in[1].offset, in[0].slope + in[1].slope};
  if (isa<SubOp>(op))
    return Line{in[0].offset - in[1].offset, in[0].slope - in[1].slope};
  unsigned number = isa<MulOp>(op) && in[0].slope == 0 ? 0 : 1;
  if (in[number].slope != 0 || (isa<DivOp>(op) && in[1].offset == 0))
    return std::nullopt;
  double factor = isa<DivOp>(op) ? 1 / in[1].offset : in[number].offset;
  const Line &line = in[1 - number];
  return Line{line.offset * factor, line.slope * factor};
}

namespace {
template <typename OpTy>
struct MaskAsFactor final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  /// What the masked elements are when `op` is x * b and a line in b that adds
  /// nothing to the others.
  static std::optional<double> getHidden(OpTy op, unsigned i, Value b) {
    auto line = getLine(other(op, i), b);
    if (!line || line->offset + line->slope != 0 || line->offset == 0)
      return std::nullopt;
    return isa<SubOp>(op) ? -line->offset : line->offset;
  }

  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    if (!isFloat(op.getResult()))
      return rewriter.notifyMatchFailure(op, "not a float");
    for (unsigned i : {0u, 1u}) {
      auto product = op->getOperand(i).template getDefiningOp<MulOp>();
      if (!product || (isa<SubOp>(op) && i == 1))
        continue;
      for (unsigned j : {0u, 1u}) {
        Value x = product->getOperand(j), b = other(product, j);
        auto hidden = getHidden(op, i, b);
        if (!hidden || x.getType() != op.getType() || !isIndicator(b))
          continue;
        if (!leadsToSoftmax(op.getResult()))
          return rewriter.notifyMatchFailure(op, "no softmax is taken of it");
        Location loc = op.getLoc();
        Value condition = CastOp::create(
            rewriter, loc, withElementType(b.getType(), rewriter.getI1Type()),
            b, false);
        Type element = elementType(x);
        Value low = ConstantOp::create(
            rewriter, loc,
            DenseElementsAttr::get(
                RankedTensorType::get({}, element),
                Attribute(FloatAttr::get(element, *hidden))));
        rewriter.replaceOpWithNewOp<WhereOp>(op, op.getType(), condition, x,
                                             low);
        return success();
      }
    }
    return rewriter.notifyMatchFailure(
        op, "no value times a mask beside a number times its complement");
  }
};
} // namespace

void raise::populateMaskSpellings(RewritePatternSet &patterns) {
  patterns.add<MaskAsFactor<AddOp>, MaskAsFactor<SubOp>>(patterns.getContext());
}
