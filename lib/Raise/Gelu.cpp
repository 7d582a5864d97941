//===- Gelu.cpp - Products with an error function or a tanh ---------------===//
//
//   x/2 * (1 + erf(x / sqrt(2)))                           -> gelu(x)
//   x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))      -> gelu(x) {tanh}
//
// whatever the association: the root's value is x/2 + x*t/2 as a polynomial in
// x and t, and t's argument has the right coefficients.
//
//===----------------------------------------------------------------------===//

#include "Gelu.h"
#include "Patterns.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// The erf or tanh that `value` is a sum or product of.
static Operation *findFunction(Value value, unsigned depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return nullptr;
  if (isa<ErfOp, TanhOp>(op))
    return op;
  if (!isa<AddOp, SubOp, MulOp, DivOp, NegOp, CastOp>(op))
    return nullptr;
  for (Value operand : op->getOperands())
    if (Operation *found = findFunction(operand, depth - 1))
      return found;
  return nullptr;
}

/// The one value that a polynomial's leaves are.
static Value findVariable(Value value, unsigned depth) {
  if (getScalar(value))
    return {};
  Operation *op = value.getDefiningOp();
  if (depth == 0 ||
      !isa_and_nonnull<AddOp, MulOp, DivOp, SquareOp, PowOp, CastOp>(op))
    return value;
  // Of x and a function of x the shallower one is x itself.
  Value best;
  for (Value operand : op->getOperands()) {
    if (getScalar(operand))
      continue;
    Value leaf = findVariable(operand, depth - 1);
    if (!best || operand == leaf)
      best = leaf;
  }
  return best ? best : value;
}

FailureOr<GeluMatch> raise::matchGelu(Operation *root, Trace &trace) {
  Value result = root->getResult(0);
  Operation *function = findFunction(result, 6);
  if (!function)
    return trace.fail("PATTERN", root, "a factor of erf or tanh", "none");
  trace.step();
  double tolerance = toleranceOf(elementType(result));
  bool isTanh = isa<TanhOp>(function);
  Polynomial argument =
      isTanh ? Polynomial{{{1, 0}, 0.7978845608}, {{3, 0}, 0.0356774081}}
             : Polynomial{{{1, 0}, 0.7071067812}};
  // The input may lie at any depth: x itself may be a product.
  for (unsigned depth = 0; depth <= 6; ++depth) {
    Value x = findVariable(function->getOperand(0), depth);
    auto inner = getPolynomial(function->getOperand(0), x, Value());
    if (!inner || !isPolynomial(*inner, argument, tolerance))
      continue;
    trace.step();
    auto outer = getPolynomial(result, x, function->getResult(0));
    if (!outer ||
        !isPolynomial(*outer, {{{1, 0}, 0.5}, {{1, 1}, 0.5}}, tolerance))
      return trace.fail("PATTERN", root, "x/2 + x*t/2",
                        "another function of x and t");
    if (elementType(x) != elementType(result))
      return trace.fail("CAST_ORDER", root, "a result of the input's type",
                        "a cast on one side");
    return GeluMatch{x, isTanh};
  }
  return trace.fail("PATTERN", function,
                    isTanh ? "sqrt(2/pi) * (x + 0.044715 x^3)" : "x / sqrt(2)",
                    "another argument");
}

namespace {
template <typename OpTy>
struct RaiseGelu final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    Trace trace;
    auto match = matchGelu(op, trace);
    if (failed(match))
      return rewriter.notifyMatchFailure(op, trace.reason());
    reportMatch("gelu", op.getLoc());
    rewriter.replaceOpWithNewOp<GeluOp>(op, op.getType(), match->x,
                                        match->tanh);
    return success();
  }
};
} // namespace

void raise::populateGelu(RewritePatternSet &patterns) {
  patterns.add<RaiseGelu<MulOp>, RaiseGelu<AddOp>, RaiseGelu<DivOp>>(
      patterns.getContext());
}
