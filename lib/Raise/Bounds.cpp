//===- Bounds.cpp - Between which numbers a value lies --------------------===//
//
// Interval arithmetic from what is known at compile time. Nothing is known of
// a model's inputs but that booleans are 0 or 1.
//
//===----------------------------------------------------------------------===//

#include "Bounds.h"

#include "fusion/Eval/Eval.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

std::optional<std::string> raise::readWeight(WeightRefAttr source) {
  auto buffer = llvm::MemoryBuffer::getFileSlice(
      source.getFile().getValue(), source.getLength(), source.getOffset());
  if (!buffer)
    return std::nullopt;
  return (*buffer)->getBuffer().str();
}

/// Tokens of the longest sequence.
static constexpr double kLargestSize = 1 << 24;
/// Bytes of the largest weight that is read.
static constexpr int64_t kLargestWeight = 1 << 24;

/// The elements of a constant or of a weight that is not too large.
static std::optional<eval::Tensor> getElements(Operation *op) {
  if (auto constant = dyn_cast_or_null<ConstantOp>(op)) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    return dense ? std::optional(eval::Tensor::fromAttr(dense)) : std::nullopt;
  }
  auto weight = dyn_cast_or_null<WeightOp>(op);
  if (!weight || weight.getSource().getLength() > kLargestWeight)
    return std::nullopt;
  auto bytes = readWeight(weight.getSource());
  auto type = dyn_cast<RankedTensorType>(weight.getType());
  if (!bytes || !type || !type.hasStaticShape())
    return std::nullopt;
  return eval::Tensor::fromBytes(type, *bytes);
}

static Interval join(Interval a, Interval b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

static Interval multiply(Interval a, Interval b) {
  auto [low, high] = std::minmax(
      {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high});
  return {low, high};
}

/// Infinite where a part of `expr` is no product of sizes.
static Interval boundsOf(const SymExpr &expr) {
  Interval sum = {0, 0};
  for (auto &[monomial, coefficient] : expr.polynomial()) {
    Interval term = {double(coefficient), double(coefficient)};
    for (const std::string &factor : monomial) {
      if (SymExpr::splitCall(factor))
        return {-INFINITY, INFINITY};
      term = multiply(term, {0, kLargestSize});
    }
    sum = {sum.low + term.low, sum.high + term.high};
  }
  return sum;
}

static std::optional<Interval> boundsOf(const eval::Tensor &tensor) {
  if (tensor.size() == 0)
    return std::nullopt;
  Interval all = {tensor.get(0), tensor.get(0)};
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (!std::isfinite(tensor.get(i)))
      return std::nullopt;
    all = join(all, {tensor.get(i), tensor.get(i)});
  }
  return all;
}

/// From the bounds of the operands that count.
static std::optional<Interval> combine(Operation *op, ArrayRef<Interval> in) {
  using Result = std::optional<Interval>;
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case([&](AddOp) -> Result {
        return Interval{in[0].low + in[1].low, in[0].high + in[1].high};
      })
      .Case([&](SubOp) -> Result {
        return Interval{in[0].low - in[1].high, in[0].high - in[1].low};
      })
      .Case([&](MulOp) -> Result { return multiply(in[0], in[1]); })
      .Case([&](NegOp) -> Result { return Interval{-in[0].high, -in[0].low}; })
      .Case([&](AbsOp) -> Result {
        return Interval{0, std::max(-in[0].low, in[0].high)};
      })
      .Case([&](MaxOp) -> Result {
        return Interval{std::max(in[0].low, in[1].low),
                        std::max(in[0].high, in[1].high)};
      })
      .Case([&](MinOp) -> Result {
        return Interval{std::min(in[0].low, in[1].low),
                        std::min(in[0].high, in[1].high)};
      })
      .Case([&](DivOp) -> Result {
        if (in[1].low != in[1].high || in[1].low == 0)
          return std::nullopt;
        return multiply(in[0], {1 / in[1].low, 1 / in[1].low});
      })
      .Case<FloorOp, CeilOp, RoundOp>([&](Operation *) -> Result {
        return Interval{in[0].low - 1, in[0].high + 1};
      })
      .Case([&](TriluOp) -> Result { return join(in[0], {0, 0}); })
      .Case([&](WhereOp) -> Result { return join(in[0], in[1]); })
      .Case([&](ConcatOp) -> Result {
        Interval all = in[0];
        for (const Interval &piece : in)
          all = join(all, piece);
        return all;
      })
      .Case<CastOp, ReshapeOp, TransposeOp, ExpandOp, SliceOp, TileOp,
            GatherOp>([&](Operation *) -> Result { return in[0]; })
      .Default([](Operation *) { return std::nullopt; });
}

/// The operands whose elements become elements of the result.
static OperandRange dataOf(Operation *op) {
  if (isa<WhereOp>(op))
    return op->getOperands().drop_front(1);
  return isa<GatherOp, TriluOp>(op) ? op->getOperands().take_front(1)
                                    : op->getOperands();
}

static std::optional<Interval> boundsOf(Value value, unsigned depth) {
  if (elementType(value).isInteger(1))
    return Interval{0, 1};
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return std::nullopt;
  if (isa<ConstantOp, WeightOp>(op)) {
    auto elements = getElements(op);
    return elements ? boundsOf(*elements) : std::nullopt;
  }
  if (isa<TanhOp, SinOp, CosOp, ErfOp>(op))
    return Interval{-1, 1};
  if (isa<SigmoidOp, SoftmaxOp>(op))
    return Interval{0, 1};
  if (auto shape = dyn_cast<ShapeValueOp>(op)) {
    SmallVector<SymExpr> exprs = llvm::to_vector(getExprs(shape.getValues()));
    if (exprs.empty())
      return std::nullopt;
    Interval all = boundsOf(exprs[0]);
    for (const SymExpr &expr : exprs)
      all = join(all, boundsOf(expr));
    return all;
  }
  if (auto iota = dyn_cast<IotaOp>(op)) {
    SymExpr start = getExpr(iota.getStartAttr());
    SymExpr last = start + getExpr(iota.getStepAttr()) *
                               (getSymShape(value)[0] - SymExpr(1));
    return join(boundsOf(start), boundsOf(last));
  }
  SmallVector<Interval> in;
  for (Value operand : dataOf(op)) {
    auto bounds = boundsOf(operand, depth - 1);
    if (!bounds || !std::isfinite(bounds->low) || !std::isfinite(bounds->high))
      return std::nullopt;
    in.push_back(*bounds);
  }
  return in.empty() ? std::nullopt : combine(op, in);
}

std::optional<Interval> raise::getBounds(Value value) {
  auto bounds = boundsOf(value, 16);
  return bounds && std::isfinite(bounds->low) && std::isfinite(bounds->high)
             ? bounds
             : std::nullopt;
}

static bool isIndicatorImpl(Value value, unsigned depth) {
  if (elementType(value).isInteger(1))
    return true;
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return false;
  if (auto elements = getElements(op)) {
    for (int64_t i = 0; i < elements->size(); ++i)
      if (elements->get(i) != 0 && elements->get(i) != 1)
        return false;
    return true;
  }
  if (auto sub = dyn_cast<SubOp>(op))
    return getScalar(sub.getLhs()) == 1.0 &&
           isIndicatorImpl(sub.getRhs(), depth - 1);
  if (!isa<CastOp, ReshapeOp, TransposeOp, ExpandOp, SliceOp, TileOp, GatherOp,
           TriluOp, WhereOp, MulOp, MaxOp, MinOp, ConcatOp>(op))
    return false;
  return llvm::all_of(dataOf(op), [&](Value operand) {
    return isIndicatorImpl(operand, depth - 1);
  });
}

bool raise::isIndicator(Value value) { return isIndicatorImpl(value, 16); }
