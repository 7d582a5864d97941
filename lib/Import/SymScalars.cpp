//===- SymScalars.cpp - Arithmetic on one symbolic element ----------------===//
//
// Integers are expressions. A float is an exact quotient of two of them: it may
// be added and multiplied while its divisor is a power of two, which floats
// hold exactly, and rounded after any division. That the numerator stays in the
// range in which the type holds all integers is guarded when the value becomes
// an integer again. Truth is 0 or 1: `a <= b` is min(1, max(0, b - a + 1)).
//
//===----------------------------------------------------------------------===//

#include "SymEval.h"

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using namespace fusion::symeval;

using Maybe = Scalars::Maybe;

Maybe Scalars::fail(const Twine &reason) {
  if (why.empty())
    why = reason.str();
  return std::nullopt;
}

static int64_t stricter(int64_t a, int64_t b) {
  return a && b ? std::min(a, b) : std::max(a, b);
}

static SymElement quotient(SymExpr num, SymExpr den, int64_t exactUpTo) {
  SymElement result(std::move(num));
  result.den = std::move(den);
  result.exactUpTo = exactUpTo;
  return result;
}

Maybe Scalars::asQuotient(const SymElement &a) {
  if (!a.real)
    return a;
  int exponent = 0;
  double mantissa = std::frexp(*a.real, &exponent);
  if (!std::isfinite(*a.real))
    return fail("it meets a constant that is not finite");
  auto num = static_cast<int64_t>(std::ldexp(mantissa, 53));
  for (exponent -= 53; num && num % 2 == 0; ++exponent)
    num /= 2;
  if (num == 0)
    return quotient(0, 1, a.exactUpTo);
  if (exponent < -10 || exponent > 40 || std::abs(num) > (1 << 20))
    return fail("expected float constants that are small fractions of powers "
                "of two, found " +
                Twine(std::to_string(*a.real)));
  if (exponent < 0)
    return quotient(num, int64_t(1) << -exponent, a.exactUpTo);
  return quotient(SymExpr(num) * SymExpr(int64_t(1) << exponent), 1,
                  a.exactUpTo);
}

Maybe Scalars::asExact(const SymElement &a) {
  Maybe q = asQuotient(a);
  if (!q)
    return q;
  auto den = q->den.asConstant();
  if (!den || (*den & (*den - 1)) || *den > (int64_t(1) << 40))
    return fail("expected a quotient to be rounded before more arithmetic, "
                "found (" +
                q->num.str() + ") / (" + q->den.str() + ")");
  return q;
}

bool Scalars::unifyDens(SymElement &a, SymElement &b) {
  Maybe x = asExact(a), y = asExact(b);
  if (!x || !y)
    return false;
  int64_t den = std::max(*x->den.asConstant(), *y->den.asConstant());
  int64_t exact = stricter(a.exactUpTo, b.exactUpTo);
  a = quotient(x->num * SymExpr(den / *x->den.asConstant()), den, exact);
  b = quotient(y->num * SymExpr(den / *y->den.asConstant()), den, exact);
  return true;
}

void Scalars::guardExact(const SymElement &a) {
  // Doubles hold every number of elements that there can be.
  if (!a.exactUpTo || a.exactUpTo >= (int64_t(1) << 53))
    return;
  for (const SymExpr &e : {a.num, -a.num, a.den})
    if (!e.isConstant())
      symbols.assumeAtMost(e, a.exactUpTo);
}

Maybe Scalars::add(const SymElement &left, const SymElement &right) {
  SymElement a = left, b = right;
  if (!unifyDens(a, b))
    return std::nullopt;
  return quotient(a.num + b.num, a.den, a.exactUpTo);
}

Maybe Scalars::mul(const SymElement &left, const SymElement &right) {
  Maybe a = asExact(left), b = asExact(right);
  if (!a || !b)
    return std::nullopt;
  SymExpr num = a->num * b->num, den = a->den * b->den;
  if (auto exact = num.exactDiv(den))
    num = *exact, den = 1;
  return quotient(num, den, stricter(a->exactUpTo, b->exactUpTo));
}

Maybe Scalars::negate(const SymElement &a) {
  Maybe q = asQuotient(a);
  return q ? Maybe(quotient(-q->num, q->den, a.exactUpTo)) : q;
}

/// Whether a float constant lies beyond every size.
static bool isBeyond(const SymElement &a, double sign) {
  return a.real && *a.real * sign >= 9007199254740992.0;
}

/// Proven, or found by an earlier pass, which makes it a guard.
bool Scalars::isAtMost(const SymExpr &a, const SymExpr &b) {
  if (symbols.provesAtMost(a, b))
    return true;
  if (!symbols.mustBeAtMost(a, b))
    return false;
  symbols.assumeAtMost(a, b);
  return true;
}

Maybe Scalars::minimum(const SymElement &left, const SymElement &right) {
  if (isBeyond(left, 1) || isBeyond(right, 1))
    return isBeyond(left, 1) ? right : left;
  SymElement a = left, b = right;
  if (!unifyDens(a, b))
    return std::nullopt;
  if (isAtMost(a.num, b.num))
    return a;
  if (isAtMost(b.num, a.num))
    return b;
  return quotient(SymExpr::min(a.num, b.num), a.den, a.exactUpTo);
}

Maybe Scalars::maximum(const SymElement &left, const SymElement &right) {
  if (isBeyond(left, -1) || isBeyond(right, -1))
    return isBeyond(left, -1) ? right : left;
  SymElement a = left, b = right;
  if (!unifyDens(a, b))
    return std::nullopt;
  if (isAtMost(a.num, b.num))
    return b;
  if (isAtMost(b.num, a.num))
    return a;
  return quotient(SymExpr::max(a.num, b.num), a.den, a.exactUpTo);
}

Maybe Scalars::integerDiv(const SymExpr &a, const SymExpr &b) {
  if (b == SymExpr(0))
    return fail("it divides by zero");
  if (auto exact = a.exactDiv(b))
    return SymElement(*exact);
  auto floorOf = [](const SymExpr &x, const SymExpr &y) {
    return SymExpr::floorDiv(x, y).value_or(SymExpr(0));
  };
  // Integer division rounds towards zero.
  bool divisorUp = symbols.provesAtMost(0, b);
  if (!divisorUp && !symbols.provesAtMost(b, 0))
    return fail("expected a divisor whose sign is known, found " + b.str());
  SymExpr x = divisorUp ? a : -a, y = divisorUp ? b : -b;
  if (symbols.provesAtMost(0, x))
    return SymElement(floorOf(x, y));
  if (symbols.provesAtMost(x, 0))
    return SymElement(-floorOf(-x, y));
  return SymElement(floorOf(SymExpr::max(x, 0), y) -
                    floorOf(SymExpr::max(-x, 0), y));
}

Maybe Scalars::integerMod(const SymExpr &a, const SymExpr &b, bool fmod) {
  if (b == SymExpr(0))
    return fail("it divides by zero");
  // Divisors of sizes are positive, whoever evaluates them.
  bool isUp = symbols.provesAtMost(0, b);
  if (!isUp && !symbols.provesAtMost(b, 0))
    return fail("expected a divisor whose sign is known, found " + b.str());
  if (!fmod || (symbols.provesAtMost(0, a) && isUp)) {
    auto rest = isUp ? SymExpr::mod(a, b) : SymExpr::mod(-a, -b);
    return SymElement(isUp ? *rest : -*rest);
  }
  Maybe q = integerDiv(a, b);
  return q ? Maybe(SymElement(a - q->num * b)) : q;
}

Maybe Scalars::div(const SymElement &left, const SymElement &right,
                   bool isFloat) {
  if (!isFloat)
    return integerDiv(left.num, right.num);
  Maybe a = asExact(left), b = asExact(right);
  if (!a || !b)
    return std::nullopt;
  SymExpr num = a->num * b->den, den = a->den * b->num;
  if (den == SymExpr(0))
    return fail("it divides by zero");
  if (!symbols.provesAtMost(0, den)) {
    if (!symbols.provesAtMost(den, 0))
      return fail("expected a divisor whose sign is known, found " + den.str());
    num = -num, den = -den;
  }
  if (auto exact = num.exactDiv(den))
    num = *exact, den = 1;
  return quotient(num, den, stricter(a->exactUpTo, b->exactUpTo));
}

/// Floor, ceil, truncation and rounding to the nearest, ties to even.
Maybe Scalars::rounded(StringRef name, const SymElement &a) {
  Maybe q = asQuotient(a);
  if (!q)
    return q;
  guardExact(*q);
  SymExpr n = q->num, d = q->den;
  auto floorOf = [&](const SymExpr &x, const SymExpr &y) {
    return SymExpr::floorDiv(x, y).value_or(SymExpr(0));
  };
  if (d == SymExpr(1))
    return q;
  SymExpr result;
  if (name == "floor") {
    result = floorOf(n, d);
  } else if (name == "ceil") {
    result = floorOf(n + d - SymExpr(1), d);
  } else if (name == "trunc") {
    Maybe whole = integerDiv(n, d);
    if (!whole)
      return whole;
    result = whole->num;
  } else {
    SymExpr twice = d * SymExpr(2), shifted = n * SymExpr(2) + d;
    result = floorOf(shifted, twice);
    auto constant = d.asConstant();
    if (!constant || *constant % 2 == 0) // a tie goes to the even neighbour
      result = result -
               (SymExpr(1) - SymExpr::min(1, *SymExpr::mod(shifted, twice))) *
                   *SymExpr::mod(result, 2);
  }
  return quotient(result, 1, a.exactUpTo);
}

/// 1 where a <= b, else 0.
SymExpr Scalars::atMost(const SymExpr &a, const SymExpr &b) {
  if (symbols.provesAtMost(a, b))
    return 1;
  if (symbols.provesAtMost(b + SymExpr(1), a))
    return 0;
  return SymExpr::min(1, SymExpr::max(0, b - a + SymExpr(1)));
}

Maybe Scalars::compare(StringRef name, const SymElement &left,
                       const SymElement &right) {
  bool isLess = name.starts_with("less");
  for (double sign : {1.0, -1.0})
    if (name != "equal" && (isBeyond(left, sign) || isBeyond(right, sign)))
      return SymElement((isBeyond(right, sign) == (sign > 0)) == isLess);
  SymElement a = left, b = right;
  guardExact(a);
  guardExact(b);
  if (!unifyDens(a, b))
    return std::nullopt;
  const SymExpr &x = a.num, &y = b.num;
  if (name == "equal") {
    if (symbols.provesEqual(x, y))
      return SymElement(1);
    if (symbols.provesUnequal(x, y))
      return SymElement(SymExpr(0));
    return SymElement(atMost(x, y) * atMost(y, x));
  }
  if (name == "less")
    return SymElement(atMost(x + SymExpr(1), y));
  if (name == "less_equal")
    return SymElement(atMost(x, y));
  if (name == "greater")
    return SymElement(atMost(y + SymExpr(1), x));
  return SymElement(atMost(y, x));
}

Maybe Scalars::select(const SymElement &c, const SymElement &yes,
                      const SymElement &no) {
  if (auto constant = c.num.asConstant())
    return *constant ? yes : no;
  SymElement a = yes, b = no;
  if (!unifyDens(a, b))
    return std::nullopt;
  return quotient(b.num + c.num * (a.num - b.num), a.den, a.exactUpTo);
}

/// The square root of a product of even powers: sizes are not negative.
Maybe Scalars::root(const SymElement &a) {
  Maybe q = asExact(a);
  if (!q)
    return q;
  auto rootOf = [](const SymExpr &e) -> std::optional<SymExpr> {
    if (e.polynomial().size() != 1)
      return std::nullopt;
    const auto &[factors, coefficient] = *e.polynomial().begin();
    auto whole = static_cast<int64_t>(
        std::llround(std::sqrt(double(std::max<int64_t>(coefficient, 0)))));
    if (whole * whole != coefficient || factors.size() % 2)
      return std::nullopt;
    SymExpr result = whole;
    for (size_t i = 0; i < factors.size(); i += 2) {
      if (factors[i] != factors[i + 1])
        return std::nullopt;
      result = result * SymExpr::parse(factors[i]).value_or(SymExpr(0));
    }
    return result;
  };
  auto num = rootOf(q->num), den = rootOf(q->den);
  if (!num || !den || !symbols.provesAtMost(0, *num))
    return fail("expected a square, found " + q->num.str());
  guardExact(*q);
  return quotient(*num, *den, a.exactUpTo);
}

Maybe Scalars::power(const SymElement &a, const SymElement &b, bool isFloat) {
  auto whole = b.num.asConstant();
  double exponent = b.real ? *b.real : whole ? double(*whole) : -2;
  if (isFloat && exponent == 0.5)
    return root(a);
  if (isFloat && exponent == -1)
    return div(SymElement(1), a, true);
  if (!(exponent >= 0 && exponent <= 16) || exponent != std::floor(exponent))
    return fail("expected a constant exponent from 0 to 16, found " +
                (b.real ? std::to_string(*b.real) : b.num.str()));
  Maybe result = SymElement(1);
  result->exactUpTo = a.exactUpTo;
  for (int i = 0; result && i < int(exponent); ++i)
    result = mul(*result, a);
  return result;
}

/// The largest integer up to which a float type holds all.
static int64_t exactIn(FloatType type) {
  return int64_t(1) << std::min(type.getFPMantissaWidth(), 53u);
}

Maybe Scalars::cast(Operation *op, const SymElement &a) {
  Type from = elementType(op->getOperand(0)),
       to = elementType(op->getResult(0));
  SymElement result = a;
  if (auto type = dyn_cast<FloatType>(to)) {
    result.exactUpTo = stricter(a.exactUpTo, exactIn(type));
    return result;
  }
  if (to.isInteger(1) && !from.isInteger(1)) {
    Maybe q = asQuotient(a);
    if (!q)
      return q;
    Maybe isZero = compare("equal", quotient(q->num, 1, a.exactUpTo),
                           SymElement(SymExpr(0)));
    return isZero ? Maybe(SymElement(SymExpr(1) - isZero->num)) : isZero;
  }
  if (!to.isInteger(64) && !to.isInteger(32) && !to.isInteger(1))
    return fail("an element type that does not hold every size");
  if (!isa<FloatType>(from))
    return result;
  Maybe whole = rounded("trunc", a);
  return whole ? Maybe(SymElement(whole->num)) : whole;
}

Maybe Scalars::unary(StringRef name, const SymElement &a, bool isFloat) {
  if (name == "neg")
    return negate(a);
  if (name == "not")
    return SymElement(SymExpr(1) - a.num);
  if (name == "square")
    return mul(a, a);
  if (name == "sqrt")
    return root(a);
  if (name == "reciprocal")
    return div(SymElement(1), a, isFloat);
  if (name == "relu")
    return maximum(a, SymElement(SymExpr(0)));
  if (name == "floor" || name == "ceil" || name == "round")
    return rounded(name, a);
  Maybe q = asQuotient(a);
  if (!q)
    return q;
  const SymExpr &n = q->num;
  if (name == "sign")
    return quotient(SymExpr::min(1, SymExpr::max(-1, n)), 1, a.exactUpTo);
  if (name != "abs")
    return fail("the operation has no form over sizes");
  return quotient(symbols.provesAtMost(0, n)   ? n
                  : symbols.provesAtMost(n, 0) ? -n
                                               : SymExpr::max(n, -n),
                  q->den, a.exactUpTo);
}

Maybe Scalars::binary(Operation *op, const SymElement &a, const SymElement &b) {
  StringRef name = op->getName().stripDialect();
  Type type = elementType(op->getOperand(0));
  bool isFloat = isa<FloatType>(type), isBool = type.isInteger(1);
  if (name == "add")
    return add(a, b);
  if (name == "sub") {
    Maybe minus = negate(b);
    return minus ? add(a, *minus) : minus;
  }
  if (name == "mul")
    return mul(a, b);
  if (name == "max" || (isBool && name == "or"))
    return maximum(a, b);
  if (name == "min" || (isBool && name == "and"))
    return minimum(a, b);
  if (isBool && name == "xor")
    return SymElement(a.num + b.num - minimum(a, b)->num * SymExpr(2));
  if (name == "div")
    return div(a, b, isFloat);
  if (name == "mod" && !isFloat)
    return integerMod(a.num, b.num, llvm::cast<ModOp>(op).getFmod());
  if (name == "pow")
    return power(a, b, isFloat);
  if (name == "equal" || name == "less" || name == "less_equal" ||
      name == "greater" || name == "greater_equal")
    return compare(name, a, b);
  return fail("the operation has no form over sizes");
}

Maybe Scalars::apply(Operation *op, ArrayRef<SymElement> operands) {
  if (isa<CastOp>(op))
    return cast(op, operands[0]);
  if (isa<WhereOp>(op))
    return select(operands[0], operands[1], operands[2]);
  bool isFloat = isa<FloatType>(elementType(op->getOperand(0)));
  if (operands.size() == 1)
    return unary(op->getName().stripDialect(), operands[0], isFloat);
  if (operands.size() == 2)
    return binary(op, operands[0], operands[1]);
  return fail("the operation has no form over sizes");
}
