//===- RopeTables.cpp - Tables that hold every angle twice ----------------===//
//
//   rope(x, f(concat(a, a)), g(concat(a, a))) -> rope(x, f(a), g(a))
//
// Exporters compute one value an element; one angle a pair is the same rotation
// for half of the sines and half of the bytes.
//
//===----------------------------------------------------------------------===//

#include "Parts.h"
#include "Patterns.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// The value that `value` holds twice: as two halves, or alternating.
static Value getDoubled(Value value, bool interleaved) {
  auto pieces = interleaved ? getInterleaved(value) : getHalves(value);
  if (pieces && pieces->first == pieces->second)
    return pieces->first;
  // reshape(expand(reshape(a, [.., n, 1]), [.., n, 2])), or 1 and 2 before n.
  auto flat = value.getDefiningOp<ReshapeOp>();
  auto expand = flat ? flat.getInput().getDefiningOp<ExpandOp>() : nullptr;
  auto inner = expand ? expand.getInput().getDefiningOp<ReshapeOp>() : nullptr;
  if (!inner)
    return {};
  SymShape half = getSymShape(inner.getInput()), pair = half, once = half;
  if (half.empty())
    return {};
  auto place = interleaved ? 0 : 1;
  once.insert(once.end() - place, SymExpr(1));
  pair.insert(pair.end() - place, SymExpr(2));
  SymShape doubled = half;
  doubled.back() = doubled.back() * SymExpr(2);
  if (getSymShape(inner.getResult()) != once ||
      getSymShape(expand.getResult()) != pair || getSymShape(value) != doubled)
    return {};
  return inner.getInput();
}

/// Whether `op` does the same to each element, or only views outer axes.
static bool keepsColumns(Operation *op) {
  if (isa<CosOp, SinOp, CastOp, NegOp>(op))
    return true;
  if (isa<ReshapeOp>(op))
    return lastSize(op->getOperand(0)) == lastSize(op->getResult(0));
  auto scaled = getScaled(op->getResult(0));
  return scaled && scaled->x == op->getOperand(0);
}

static bool isDoubled(Value table, bool interleaved) {
  for (unsigned depth = 0; depth < 8; ++depth) {
    if (getDoubled(table, interleaved))
      return true;
    Operation *op = table.getDefiningOp();
    if (!op || !keepsColumns(op))
      return false;
    table = op->getOperand(0);
  }
  return false;
}

static Value halve(OpBuilder &builder, Value table, bool interleaved) {
  if (Value half = getDoubled(table, interleaved))
    return half;
  Operation *op = table.getDefiningOp();
  IRMapping map;
  map.map(op->getOperand(0), halve(builder, op->getOperand(0), interleaved));
  Operation *halved = builder.clone(*op, map);
  SymShape shape = getSymShape(table);
  shape.back() = SymExpr(lastSize(table) / 2);
  halved->getResult(0).setType(getTensorType(shape, elementType(table)));
  return halved->getResult(0);
}

namespace {
struct HalveTables final : OpRewritePattern<RopeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(RopeOp op,
                                PatternRewriter &rewriter) const override {
    int64_t width =
        op.getRotaryDim() ? op.getRotaryDim() : lastSize(op.getInput());
    bool interleaved = op.getInterleaved();
    if (lastSize(op.getCos()) != width || lastSize(op.getSin()) != width)
      return rewriter.notifyMatchFailure(op, "tables hold one angle a pair");
    if (!isDoubled(op.getCos(), interleaved) ||
        !isDoubled(op.getSin(), interleaved))
      return rewriter.notifyMatchFailure(op,
                                         "halves are not known to be equal");
    Value cos = halve(rewriter, op.getCos(), interleaved);
    Value sin = halve(rewriter, op.getSin(), interleaved);
    rewriter.modifyOpInPlace(op, [&] {
      op.getCosMutable().assign(cos);
      op.getSinMutable().assign(sin);
    });
    return success();
  }
};
} // namespace

void raise::populateRopeTables(RewritePatternSet &patterns) {
  patterns.add<HalveTables>(patterns.getContext());
}
