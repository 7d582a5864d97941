//===- Activation.cpp - SiLU and GELU, whatever their association ---------===//
//
//   x * sigmoid(a x)                                       -> silu(x) {a}
//   x/2 * (1 + tanh(a x / 2))                              -> silu(x) {a}
//   x/2 * (1 + erf(x / sqrt(2)))                           -> gelu(x)
//   x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))      -> gelu(x) {tanh}
//   x * sigmoid(2 * sqrt(2/pi) * (x + 0.044715 x^3))       -> gelu(x) {tanh}
//
// The root's value is a polynomial in x and the function t of x, and t's
// argument is one in x: their coefficients decide. Of a product with further
// factors, x and the function are multiplied first.
//
//===----------------------------------------------------------------------===//

#include "Activation.h"
#include "Factors.h"
#include "Patterns.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

static bool isFunction(Operation *op) {
  return isa_and_nonnull<SigmoidOp, ErfOp, TanhOp>(op);
}

/// The sigmoid, erf or tanh that `value` is a sum or product of.
static Operation *findFunction(Value value, unsigned depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return nullptr;
  if (isFunction(op))
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
    if (isa_and_nonnull<AddOp, SubOp, MulOp, DivOp, NegOp, SquareOp, PowOp,
                        CastOp>(op))
      for (Value operand : op->getOperands())
        if (!getScalar(operand))
          found.insert(operand);
  }
  return found.takeVector();
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {
/// What a function of an argument makes an activation, and the sign of the
/// argument: -1 where the function is that of -x.
struct Known {
  ActivationMatch::Kind kind;
  double alpha;
  int sign;
};
} // namespace

/// Whether `argument` is a x + b x^3, of either sign.
static int getSign(const Polynomial &argument, double a, double b,
                   double tolerance) {
  for (int sign : {1, -1})
    if (isPolynomial(argument, {{{1, 0}, sign * a}, {{3, 0}, sign * b}},
                     tolerance))
      return sign;
  return 0;
}

static std::optional<Known>
classify(Operation *function, const Polynomial &argument, double tolerance) {
  bool isLinear =
      argument.size() == 1 && argument.begin()->first == Power{1, 0};
  double slope = isLinear ? argument.begin()->second : 0;
  int sign = slope < 0 ? -1 : 1;
  if (isa<ErfOp>(function))
    return isLinear && isNear(slope * sign, 0.7071067812, tolerance)
               ? std::optional(Known{ActivationMatch::GeluErf, 1, sign})
               : std::nullopt;
  // 1 + tanh(u) = 2 * sigmoid(2u).
  double scale = isa<TanhOp>(function) ? 1 : 2;
  if (isLinear)
    return Known{ActivationMatch::Silu, 2 * slope * sign / scale, sign};
  sign =
      getSign(argument, scale * 0.7978845608, scale * 0.0356774081, tolerance);
  if (sign == 0)
    return std::nullopt;
  return Known{ActivationMatch::GeluTanh, 1, sign};
}

/// Whether `value` is the activation as a polynomial in x and t. A function of
/// -x is -t (erf, tanh) or 1 - t (sigmoid).
static bool isActivation(const Polynomial &value, Operation *function, int sign,
                         double tolerance) {
  if (isa<SigmoidOp>(function))
    return sign > 0
               ? isPolynomial(value, {{{1, 1}, 1}}, tolerance)
               : isPolynomial(value, {{{1, 0}, 1}, {{1, 1}, -1}}, tolerance);
  return isPolynomial(value, {{{1, 0}, 0.5}, {{1, 1}, 0.5 * sign}}, tolerance);
}

static std::string expectedArgument(Operation *function) {
  if (isa<ErfOp>(function))
    return "x / sqrt(2)";
  return isa<TanhOp>(function) ? "sqrt(2/pi) * (x + 0.044715 x^3)"
                               : "alpha * x";
}

static std::string expectedResult(Operation *function) {
  return isa<SigmoidOp>(function) ? "a product of sigmoid(alpha * x) with x"
                                  : "x/2 + x*t/2";
}

/// The first cast to fewer bits between `root` and `function`.
static Operation *findRounding(Value value, Operation *function,
                               unsigned depth) {
  Operation *op = value.getDefiningOp();
  if (!op || op == function || depth == 0)
    return nullptr;
  if (auto cast = dyn_cast<CastOp>(op))
    if (isFloat(cast.getInput()) &&
        floatBits(cast.getInput()) > floatBits(value) &&
        findFunction(cast.getInput(), 6) == function)
      return op;
  if (!isa<AddOp, SubOp, MulOp, DivOp, NegOp, CastOp>(op))
    return nullptr;
  for (Value operand : op->getOperands())
    if (Operation *found = findRounding(operand, function, depth - 1))
      return found;
  return nullptr;
}

FailureOr<ActivationMatch> raise::matchActivation(Operation *root,
                                                  Trace &trace) {
  Value result = root->getResult(0);
  Operation *function = findFunction(result, 6);
  if (!function || function == root)
    return trace.fail("PATTERN", root, "a factor of sigmoid, erf or tanh",
                      "none");
  trace.step();
  double tolerance = toleranceOf(elementType(result));
  bool known = false;
  for (Value x : findVariables(function->getOperand(0))) {
    auto inner = getPolynomial(function->getOperand(0), x, Value());
    auto kind = inner ? classify(function, *inner, tolerance) : std::nullopt;
    if (!kind)
      continue;
    known = true;
    auto outer = getPolynomial(result, x, function->getResult(0));
    if (!outer || !isActivation(*outer, function, kind->sign, tolerance))
      continue;
    trace.step();
    if (floatBits(x) > floatBits(result) ||
        (floatBits(x) == floatBits(result) &&
         elementType(x) != elementType(result)))
      return trace.fail("CAST_ORDER", root, "a result of the input's type",
                        "a cast on one side");
    return ActivationMatch{kind->kind, x, kind->alpha};
  }
  if (Operation *rounding = findRounding(result, function, 8))
    return trace.fail("CAST_ORDER", rounding, "a product with x",
                      "a cast in between");
  if (known)
    return trace.fail("PATTERN", isa<SigmoidOp>(function) ? function : root,
                      expectedResult(function),
                      isa<SigmoidOp>(function) ? "another use"
                                               : "another function of x and t");
  return trace.fail("PATTERN", function, expectedArgument(function),
                    "another argument");
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {
template <typename OpTy>
struct RaiseActivation final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    Trace trace;
    auto match = matchActivation(op, trace);
    if (failed(match))
      return rewriter.notifyMatchFailure(op, trace.reason());
    bool isSilu = match->kind == ActivationMatch::Silu;
    reportMatch(isSilu ? "silu" : "gelu", op.getLoc());
    Value x = match->x;
    if (x.getType() != op.getType())
      x = CastOp::create(rewriter, op.getLoc(), op.getType(), x, UnitAttr());
    if (isSilu)
      rewriter.replaceOpWithNewOp<SiluOp>(
          op, op.getType(), x, rewriter.getF32FloatAttr(match->alpha));
    else
      rewriter.replaceOpWithNewOp<GeluOp>(
          op, op.getType(), x, match->kind == ActivationMatch::GeluTanh);
    return success();
  }
};

/// (x * up) * t, x * (t * up) -> (x * t) * up, where t is the function of x
/// that makes an activation of their product.
template <typename OpTy>
struct GatherActivation final : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  /// Whether x, t and the numbers among the factors of `value` are an
  /// activation.
  static bool isComplete(Value value, Value x, Value t, Operation *function,
                         llvm::function_ref<bool(Value)> isVariable) {
    bool hasX = false, hasT = false;
    double scale = 1;
    for (const Factor &factor : getFactors(value, isVariable)) {
      hasX |= factor.value == x && !factor.inverse;
      hasT |= factor.value == t && !factor.inverse;
      if (auto number = getScalar(factor.value))
        scale *= factor.inverse ? 1 / *number : *number;
    }
    double tolerance = toleranceOf(elementType(value));
    auto inner = getPolynomial(function->getOperand(0), x, Value());
    auto kind = inner ? classify(function, *inner, tolerance) : std::nullopt;
    auto outer = getPolynomial(t, x, function->getResult(0));
    if (!hasX || !hasT || !kind || !outer)
      return false;
    Polynomial product;
    for (auto &[power, coefficient] : *outer)
      product[{power.first + 1, power.second}] = scale * coefficient;
    return isActivation(product, function, kind->sign, tolerance);
  }

  /// The x of `function`'s argument that makes an activation with `t`, which
  /// no operand has on its own.
  static std::optional<Factor> getVariable(OpTy op, const Factor &t,
                                           Operation *function,
                                           ArrayRef<Value> variables) {
    auto isVariable = [&](Value value) {
      return llvm::is_contained(variables, value);
    };
    for (const Factor &x : getFactors(op.getResult(), isVariable)) {
      if (x.inverse || !isVariable(x.value) ||
          !isComplete(op.getResult(), x.value, t.value, function, isVariable))
        continue;
      if (llvm::none_of(op->getOperands(), [&](Value operand) {
            return isComplete(operand, x.value, t.value, function, isVariable);
          }))
        return x;
    }
    return std::nullopt;
  }

  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    for (const Factor &t : getFactors(op.getResult())) {
      Operation *function = t.inverse ? nullptr : findFunction(t.value, 6);
      if (!function)
        continue;
      SmallVector<Value> variables = findVariables(function->getOperand(0));
      if (auto x = getVariable(op, t, function, variables))
        return gather(op, *x, t, variables, rewriter);
    }
    return rewriter.notifyMatchFailure(
        op, "no factors are a value and a function of it");
  }

  static LogicalResult gather(OpTy op, const Factor &x, const Factor &t,
                              ArrayRef<Value> variables,
                              PatternRewriter &rewriter) {
    SmallVector<Factor> numbers, others;
    bool hasX = false, hasT = false;
    for (const Factor &factor : getFactors(op.getResult(), [&](Value value) {
           return llvm::is_contained(variables, value);
         })) {
      bool &taken = factor.value == x.value ? hasX : hasT;
      if (!taken && (factor.value == x.value || factor.value == t.value))
        taken = true;
      else if (getScalar(factor.value))
        numbers.push_back(factor);
      else
        others.push_back(factor);
    }
    if (others.empty())
      return rewriter.notifyMatchFailure(op, "there are no further factors");
    Location loc = op.getLoc();
    Value core = createProduct(rewriter, loc, x.value, t);
    core = createProduct(rewriter, loc, core, numbers);
    Value result = createProduct(rewriter, loc, core, others);
    if (result.getType() != op.getType())
      result = ReshapeOp::create(rewriter, loc, op.getType(), result);
    rewriter.replaceOp(op, result);
    return success();
  }
};
} // namespace

void raise::populateActivations(RewritePatternSet &patterns) {
  patterns.add<RaiseActivation<MulOp>, RaiseActivation<AddOp>,
               RaiseActivation<SubOp>, RaiseActivation<DivOp>,
               GatherActivation<MulOp>, GatherActivation<DivOp>>(
      patterns.getContext());
}
