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

#include "llvm/ADT/SetVector.h"

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

/// What may be the x of a polynomial: the value and what it is computed from,
/// the nearest first. x itself may be a sum or a product.
static SmallVector<Value> findVariables(Value value) {
  llvm::SmallSetVector<Value, 32> found;
  found.insert(value);
  for (size_t i = 0; i < found.size() && found.size() < 32; ++i) {
    Operation *op = found[i].getDefiningOp();
    if (isa_and_nonnull<AddOp, MulOp, DivOp, SquareOp, PowOp, CastOp>(op))
      for (Value operand : op->getOperands())
        if (!getScalar(operand))
          found.insert(operand);
  }
  return found.takeVector();
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
  for (Value x : findVariables(function->getOperand(0))) {
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
