//===- Polynomial.cpp - Values as polynomials -----------------------------===//

#include "Polynomial.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

static Polynomial add(Polynomial a, const Polynomial &b, double sign) {
  for (auto &[power, coefficient] : b)
    a[power] += sign * coefficient;
  return a;
}

static Polynomial multiply(const Polynomial &a, const Polynomial &b) {
  Polynomial product;
  for (auto &[p, x] : a)
    for (auto &[q, y] : b)
      product[{p.first + q.first, p.second + q.second}] += x * y;
  return product;
}

namespace {
struct PolynomialBuilder {
  Value x, t;

  std::optional<Polynomial> get(Value value, unsigned depth) {
    if (value == x)
      return Polynomial{{{1, 0}, 1}};
    if (t && value == t)
      return Polynomial{{{0, 1}, 1}};
    if (auto scalar = getScalar(value))
      return Polynomial{{{0, 0}, *scalar}};
    Operation *op = value.getDefiningOp();
    if (!op || depth == 0 || !isFloat(value) || !sameShape(value, x))
      return std::nullopt;
    if (isa<CastOp>(op)) {
      // A cast to fewer bits than x has rounds; that is no algebra.
      if (!isFloat(op->getOperand(0)) || floatBits(value) < floatBits(x))
        return std::nullopt;
      return get(op->getOperand(0), depth - 1);
    }
    if (!isa<NegOp, SquareOp, AddOp, SubOp, MulOp, DivOp, PowOp>(op))
      return std::nullopt;
    auto a = get(op->getOperand(0), depth - 1);
    if (!a)
      return std::nullopt;
    if (isa<NegOp>(op))
      return multiply(*a, {{{0, 0}, -1}});
    if (isa<SquareOp>(op))
      return multiply(*a, *a);
    if (isa<PowOp>(op))
      return power(*a, getScalar(op->getOperand(1)));
    auto b = get(op->getOperand(1), depth - 1);
    if (!b)
      return std::nullopt;
    if (isa<MulOp>(op))
      return multiply(*a, *b);
    if (isa<DivOp>(op))
      return quotient(*a, *b);
    return add(*a, *b, isa<AddOp>(op) ? 1 : -1);
  }

  static std::optional<Polynomial> power(const Polynomial &base,
                                         std::optional<double> exponent) {
    if (!exponent || *exponent < 0 || *exponent > 4 ||
        *exponent != std::floor(*exponent))
      return std::nullopt;
    Polynomial result{{{0, 0}, 1}};
    for (int i = 0; i < *exponent; ++i)
      result = multiply(result, base);
    return result;
  }

  static std::optional<Polynomial> quotient(const Polynomial &a,
                                            const Polynomial &b) {
    if (b.size() != 1 || b.begin()->first != Power{0, 0} ||
        b.begin()->second == 0)
      return std::nullopt;
    return multiply(a, {{{0, 0}, 1 / b.begin()->second}});
  }
};
} // namespace

std::optional<Polynomial> raise::getPolynomial(Value value, Value x, Value t) {
  auto result = PolynomialBuilder{x, t}.get(value, 12);
  if (!result)
    return std::nullopt;
  for (auto it = result->begin(); it != result->end();)
    it = it->second == 0 ? result->erase(it) : std::next(it);
  return result;
}

bool raise::isPolynomial(const Polynomial &value, const Polynomial &expected,
                         double tolerance) {
  if (value.size() != expected.size())
    return false;
  for (auto &[power, coefficient] : expected) {
    auto it = value.find(power);
    if (it == value.end() || !isNear(it->second, coefficient, tolerance))
      return false;
  }
  return true;
}
