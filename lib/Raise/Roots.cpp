//===- Roots.cpp - Square roots of means of squares -----------------------===//

#include "Roots.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

//===----------------------------------------------------------------------===//
// Roots
//===----------------------------------------------------------------------===//

static Root invert(Root root) {
  root.factor = 1 / root.factor;
  root.inverse = !root.inverse;
  return root;
}

/// The root of `value` itself: sqrt(1 / v) and sqrt(c / v) are inverse ones.
static Root rootOf(Value value, unsigned bits) {
  Value inner = stripCasts(value, bits);
  if (auto reciprocal = inner.getDefiningOp<ReciprocalOp>())
    return {reciprocal.getInput(), 1, true};
  auto quotient = inner.getDefiningOp<DivOp>();
  auto dividend = quotient ? getScalar(quotient.getLhs()) : std::nullopt;
  if (dividend && *dividend > 0 &&
      quotient.getRhs().getType() == quotient.getType())
    return {quotient.getRhs(), std::sqrt(*dividend), true};
  return {value, 1, false};
}

/// v^(+-1/2) as a power or by way of a logarithm. Beside a root these differ
/// for -0 and -inf only, which no mean of squares is.
static std::optional<Root> getPower(Operation *op, unsigned bits) {
  Value base;
  std::optional<double> exponent;
  if (auto pow = dyn_cast<PowOp>(op)) {
    exponent = getScalar(pow.getRhs());
    base = pow.getLhs();
  } else if (auto exp = dyn_cast<ExpOp>(op)) {
    auto scaled = getScaled(exp.getInput());
    auto log = scaled ? scaled->x.getDefiningOp<LogOp>() : nullptr;
    if (!log)
      return std::nullopt;
    exponent = scaled->factor;
    base = log.getInput();
  }
  if (!exponent || std::abs(*exponent) != 0.5 ||
      base.getType() != op->getResult(0).getType())
    return std::nullopt;
  Root root = rootOf(base, bits);
  return *exponent < 0 ? invert(root) : root;
}

std::optional<Root> raise::getRoot(Value value, unsigned bits) {
  Operation *op = stripCasts(value, bits).getDefiningOp();
  if (!op || !isFloat(value))
    return std::nullopt;
  if (auto sqrt = dyn_cast<SqrtOp>(op))
    return rootOf(sqrt.getInput(), bits);
  if (auto rsqrt = dyn_cast<RsqrtOp>(op))
    return invert(rootOf(rsqrt.getInput(), bits));
  if (isa<PowOp, ExpOp>(op))
    return getPower(op, bits);
  if (auto scaled = getScaled(op->getResult(0))) {
    auto root = getRoot(scaled->x, bits);
    if (root)
      root->factor *= scaled->factor;
    return root;
  }
  Value divisor;
  double dividend = 1;
  if (auto reciprocal = dyn_cast<ReciprocalOp>(op)) {
    divisor = reciprocal.getInput();
  } else if (auto quotient = dyn_cast<DivOp>(op)) {
    auto scalar = getScalar(quotient.getLhs());
    if (!scalar || quotient.getRhs().getType() != quotient.getType())
      return std::nullopt;
    divisor = quotient.getRhs();
    dividend = *scalar;
  }
  auto root = divisor ? getRoot(divisor, bits) : std::nullopt;
  if (!root)
    return std::nullopt;
  Root inverse = invert(*root);
  inverse.factor *= dividend;
  return inverse;
}

//===----------------------------------------------------------------------===//
// Means of squares
//===----------------------------------------------------------------------===//

/// A sum or mean of squares over the last axis, with the factor of its mean.
static FailureOr<Variance> matchMeanSquare(Value value, unsigned bits,
                                           Trace &trace) {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<ReduceMeanOp, ReduceSumOp>(op))
    return trace.fail("PATTERN", op, "a mean of squares", describe(value));
  trace.step();
  Value reduced = op->getOperand(0);
  auto mean = dyn_cast<ReduceMeanOp>(op);
  auto sum = dyn_cast<ReduceSumOp>(op);
  ArrayRef<int64_t> axes = mean ? mean.getAxes() : sum.getAxes();
  int64_t last = getSymShape(reduced).size() - 1;
  if (axes != ArrayRef<int64_t>(last))
    return trace.fail("AXIS_NOT_LAST", op,
                      "a mean over axis " + Twine(last) + " only",
                      axes.empty() ? Twine("no axis")
                                   : "axis " + Twine(axes.front()) + " of " +
                                         Twine(axes.size()));
  if (!(mean ? mean.getKeepdims() : sum.getKeepdims()))
    return trace.fail("AXIS_NOT_LAST", op, "a mean that keeps its axis",
                      "keepdims = 0");
  if (sum && lastSize(reduced) < 1)
    return trace.fail("AXIS_NOT_LAST", op, "a mean, or a constant axis",
                      "a sum over an axis of open size");
  trace.step();
  Variance variance;
  variance.factor = sum ? lastSize(reduced) : 1;
  Value square = stripCasts(reduced, bits);
  while (auto scaled = getScaled(square)) {
    variance.factor *= scaled->factor;
    square = stripCasts(scaled->x, bits);
  }
  auto squared = square.getDefiningOp<SquareOp>();
  if (!squared)
    return trace.fail("PATTERN", square.getDefiningOp(), "a square",
                      describe(square));
  trace.step();
  variance.x = squared.getInput();
  return variance;
}

FailureOr<Variance> raise::matchVariance(Value value, unsigned bits,
                                         Trace &trace) {
  value = stripCasts(value, bits);
  if (auto scaled = getScaled(value)) {
    auto inner = matchVariance(scaled->x, bits, trace);
    if (failed(inner))
      return failure();
    inner->factor *= scaled->factor;
    inner->epsilon *= scaled->factor;
    return inner;
  }
  auto add = value.getDefiningOp<AddOp>();
  if (!add)
    return matchMeanSquare(value, bits, trace);
  trace.step();
  for (unsigned i : {0u, 1u}) {
    auto epsilon = getScalar(other(add, i));
    if (!epsilon)
      continue;
    trace.step();
    if (*epsilon < 0 || add->getOperand(i).getType() != add.getType())
      return trace.fail("EPS_NOT_CONST", add, "a scalar epsilon of 0 or more",
                        std::to_string(*epsilon));
    auto inner = matchVariance(add->getOperand(i), bits, trace);
    if (failed(inner))
      return failure();
    inner->epsilon += *epsilon;
    return inner;
  }
  return trace.fail("EPS_NOT_CONST", add, "a constant epsilon",
                    describe(add.getLhs()) + " and " + describe(add.getRhs()));
}
