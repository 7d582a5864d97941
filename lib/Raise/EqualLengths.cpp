//===- EqualLengths.cpp - Lengths that are the same size everywhere -------===//
//
//   kv_append %past, %new lengths %n   where all of %n are the size of %past
//   attention ... offsets %n           where all of %n are one size
//
// Lengths are data; where they are computed from sizes alone, as when a session
// attends to all that it has cached, the size says the same.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

#include "fusion/Raise/Passes.h"

namespace fusion {
#define GEN_PASS_DEF_EQUALLENGTHS
#include "fusion/Raise/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// Sizes are never negative.
static bool isNeverNegative(const SymExpr &e) {
  return llvm::all_of(e.polynomial(),
                      [](const auto &term) { return term.second >= 0; });
}

/// The size that every element of an integer tensor is.
static std::optional<SymExpr> getUniformSize(Value value, unsigned depth = 0) {
  Operation *op = value.getDefiningOp();
  if (!op || depth > 32 || !elementType(value).isInteger() ||
      elementType(value).isInteger(1))
    return std::nullopt;
  auto of = [&](unsigned operand) {
    return getUniformSize(op->getOperand(operand), depth + 1);
  };
  if (auto scalar = getScalar(value)) {
    if (*scalar != static_cast<double>(static_cast<int64_t>(*scalar)))
      return std::nullopt;
    return SymExpr(static_cast<int64_t>(*scalar));
  }
  if (auto shape = dyn_cast<ShapeValueOp>(op)) {
    SymShape sizes = getExprs(shape.getValues());
    if (sizes.empty() || !llvm::all_equal(sizes))
      return std::nullopt;
    return sizes.front();
  }
  if (isa<CastOp, ReshapeOp, ExpandOp, SliceOp, TransposeOp, TileOp>(op))
    return of(0);
  if (auto sum = dyn_cast<ReduceSumOp>(op)) {
    auto element = of(0);
    SymShape shape = getSymShape(sum.getInput());
    for (int64_t axis : sum.getAxes())
      if (element)
        element = *element * shape[axis];
    return element;
  }
  if (!isa<AddOp, SubOp, MaxOp>(op))
    return std::nullopt;
  auto a = of(0), b = of(1);
  if (!a || !b)
    return std::nullopt;
  if (isa<AddOp>(op))
    return *a + *b;
  if (isa<SubOp>(op))
    return *a - *b;
  if (isNeverNegative(*a - *b))
    return a;
  return isNeverNegative(*b - *a) ? b : std::nullopt;
}

namespace {
struct EqualLengths final : fusion::impl::EqualLengthsBase<EqualLengths> {
  static void visit(KvAppendOp op) {
    if (op.getInBuffer() || !op.getLengths())
      return;
    auto size = getUniformSize(op.getLengths());
    if (size && *size == getSymShape(op.getPast())[op.getAxis()])
      op.getLengthsMutable().clear();
  }

  static void visit(AttentionOp op) {
    if (Value offsets = op.getOffsets())
      if (auto size = getUniformSize(offsets)) {
        op.getOffsetsMutable().clear();
        op.setCausalOffsetAttr(getExprAttr(op.getContext(), *size));
      }
    if (Value lengths = op.getValidLengths())
      if (getUniformSize(lengths) == getSymShape(op.getKey())[2])
        op.getValidLengthsMutable().clear();
  }

  void runOnOperation() override {
    getOperation().walk([](KvAppendOp op) { visit(op); });
    getOperation().walk([](AttentionOp op) { visit(op); });
  }
};
} // namespace
