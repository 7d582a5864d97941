//===- Symbols.cpp - Sizes of the file, and what is known of them ---------===//

#include "Symbols.h"

#include <algorithm>
#include <numeric>

using namespace fusion;

/// A spelling that is an identifier and that no other name has.
std::string Symbols::spell(const std::string &name) {
  auto known = names.find(name);
  if (known != names.end())
    return known->second;
  std::string spelled;
  for (char c : name.substr(0, 64))
    spelled +=
        std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (spelled.empty() || std::isdigit(static_cast<unsigned char>(spelled[0])))
    spelled = "d_" + spelled;
  std::string base = spelled;
  auto taken = [&] {
    return std::any_of(names.begin(), names.end(),
                       [&](const auto &n) { return n.second == spelled; });
  };
  for (int i = 1; taken(); ++i)
    spelled = base + "_" + std::to_string(i);
  return names[name] = spelled;
}

void Symbols::addPlainName(const std::string &param) {
  if (SymExpr::isIdentifier(param))
    plain.insert(param);
}

SymExpr Symbols::declare(const std::string &param,
                         const std::string &fallback) {
  // "past + seq" is an expression when each of its symbols has an axis of its
  // own to get its value from; else the text is just an odd name.
  if (param.size() < 256)
    if (auto expr = SymExpr::parse(param);
        expr && !expr->isConstant() && !expr->overflowed()) {
      auto symbols = expr->symbols();
      bool bound = std::all_of(symbols.begin(), symbols.end(),
                               [&](auto &s) { return plain.count(s) != 0; });
      if (bound) {
        for (const std::string &s : symbols) {
          names.emplace(s, s);
          order.emplace(s, order.size());
        }
        return resolve(*expr);
      }
    }
  std::string name = spell(param.empty() ? fallback : param);
  order.emplace(name, order.size());
  return resolve(SymExpr::symbol(name));
}

SymExpr Symbols::resolve(const SymExpr &expr) const {
  if (subst.empty() || expr.isConstant())
    return expr;
  for (const std::string &symbol : expr.symbols())
    if (subst.count(symbol))
      return expr.substitute(subst);
  return expr;
}

/// Greatest common divisor of all coefficients, at least 1.
static int64_t content(const SymExpr &a, const SymExpr &b) {
  int64_t divisor = 0;
  for (const SymExpr *e : {&a, &b})
    for (const auto &[monomial, coefficient] : e->polynomial())
      if (coefficient != INT64_MIN)
        divisor = std::gcd(divisor, std::abs(coefficient));
  return divisor ? divisor : 1;
}

static bool hasNegative(const SymExpr &e) {
  return std::any_of(e.polynomial().begin(), e.polynomial().end(),
                     [](const auto &term) { return term.second < 0; });
}

/// Divides both sides by what they have in common; sizes are taken not to be 0.
static void cancel(SymExpr &a, SymExpr &b) {
  auto divide = [&](const SymExpr &by) {
    auto x = a.exactDiv(by), y = b.exactDiv(by);
    if (!x || !y)
      return false;
    a = *x;
    b = *y;
    return true;
  };
  for (const std::string &symbol : a.symbols())
    while (b != SymExpr(0) && a != SymExpr(0) &&
           divide(SymExpr::symbol(symbol)))
      ;
  if (int64_t divisor = content(a, b); divisor > 1)
    divide(SymExpr(divisor));
}

/// Solves a == b for a symbol that occurs once, with coefficient 1 or -1. A
/// solution without subtraction is preferred, then the symbol declared last.
bool Symbols::solve(const SymExpr &a, const SymExpr &b) {
  SymExpr difference = a - b;
  std::optional<std::pair<std::string, SymExpr>> best;
  std::pair<int, unsigned> bestRank;
  for (const std::string &symbol : difference.symbols()) {
    SymExpr rest = difference.substitute({{symbol, SymExpr(0)}});
    SymExpr part = difference - rest;
    SymExpr self = SymExpr::symbol(symbol);
    SymExpr value;
    if (part == self)
      value = -rest;
    else if (part == -self)
      value = rest;
    else
      continue;
    auto constant = value.asConstant();
    if (constant && *constant < 0)
      continue;
    auto it = order.find(symbol);
    std::pair<int, unsigned> rank = {!hasNegative(value),
                                     it == order.end() ? 0 : it->second + 1};
    if (best && rank <= bestRank)
      continue;
    best = {symbol, value};
    bestRank = rank;
  }
  if (!best)
    return false;
  for (auto &[symbol, value] : subst)
    value = value.substitute({{best->first, best->second}});
  subst[best->first] = best->second;
  isChanged = true;
  return true;
}

/// The one clamp of an expression, and what it equals where that is 0.
static std::optional<std::pair<SymExpr::Call, SymExpr>>
splitClamp(const SymExpr &zero) {
  for (const auto &[monomial, coefficient] : zero.polynomial()) {
    if (std::abs(coefficient) != 1 || monomial.size() != 1)
      continue;
    auto call = SymExpr::splitCall(monomial.front());
    if (!call || (call->function != "min" && call->function != "max"))
      continue;
    SymExpr clamp = call->function == "min" ? SymExpr::min(call->a, call->b)
                                            : SymExpr::max(call->a, call->b);
    return std::make_pair(*call,
                          coefficient == 1 ? clamp - zero : clamp + zero);
  }
  return std::nullopt;
}

/// A clamp that equals what was clamped has no effect. From the next pass on it
/// is left out.
bool Symbols::learnOrder(const SymExpr &a, const SymExpr &b) {
  auto clamp = splitClamp(a - b);
  if (!clamp)
    return false;
  auto &[call, value] = *clamp;
  if (call.a != value && call.b != value)
    return false;
  SymExpr other = call.a == value ? call.b : call.a;
  bool isMin = call.function == "min";
  SymExpr small = isMin ? value : other, large = isMin ? other : value;
  isChanged |= ordered.insert(large - small).second;
  assumeAtMost(small, large);
  return true;
}

/// min(1, n), or 1 - max(0, n).
bool Symbols::learnOne(const SymExpr &size) {
  if (size.isConstant())
    return false;
  auto clamp = splitClamp(size - SymExpr(1));
  if (!clamp || !(clamp->first.function == "min" ? clamp->second == SymExpr(1)
                                                 : provesAtMost(size, 1)))
    return false;
  return learnOrder(size, 1);
}

bool Symbols::mustBeAtMost(const SymExpr &a, const SymExpr &b) const {
  return ordered.count(resolve(b) - resolve(a)) != 0;
}

bool Symbols::unify(const SymExpr &left, const SymExpr &right) {
  SymExpr a = resolve(left), b = resolve(right);
  if (a == b)
    return true;
  if (a.overflowed() || b.overflowed())
    return false;
  if (provesUnequal(a, b))
    return false;
  cancel(a, b);
  if (a == b)
    return true;
  if (a.isConstant() && b.isConstant())
    return false;
  if (learnOrder(a, b))
    return true;
  if (!solve(a, b))
    guardTexts.insert(a.str() + " == " + b.str());
  return true;
}

void Symbols::assumeAtMost(const SymExpr &left, const SymExpr &right) {
  SymExpr a = resolve(left), b = resolve(right);
  if (provesAtMost(a, b))
    return;
  // 0 <= seq - 1 says 1 <= seq.
  SymExpr difference = b - a;
  auto constant = difference.polynomial().find({});
  SymExpr number =
      constant == difference.polynomial().end() ? 0 : constant->second;
  if ((difference - number).asSymbol()) {
    a = -number;
    b = difference - number;
  } else if ((number - difference).asSymbol()) {
    a = number - difference;
    b = number;
  }
  guardTexts.insert(a.str() + " <= " + b.str());
  auto small = a.asSymbol();
  if (auto limit = b.asConstant(); small && limit) {
    auto [it, inserted] = upper.emplace(*small, *limit);
    it->second = std::min(it->second, *limit);
  }
  auto large = b.asSymbol();
  if (auto limit = a.asConstant(); large && limit) {
    int64_t &bound = lower[*large];
    bound = std::max(bound, *limit);
  }
}

/// The least value of a factor, when it is known not to be negative.
static std::optional<int64_t> leastOfCall(const SymExpr::Call &call,
                                          std::optional<int64_t> a,
                                          std::optional<int64_t> b) {
  bool left = a && *a >= 0, right = b && *b >= 0;
  if (call.function == "max" && (left || right)) // one side is enough
    return std::max(left ? *a : 0, right ? *b : 0);
  if (!left || !right)
    return std::nullopt;
  return call.function == "min" ? std::min(*a, *b) : 0;
}

/// A value that `e` never falls below.
std::optional<int64_t> Symbols::lowerBound(const SymExpr &e) const {
  int64_t bound = 0;
  for (const auto &[monomial, coefficient] : e.polynomial()) {
    int64_t product = coefficient;
    if (coefficient < 0 && !monomial.empty())
      return std::nullopt;
    for (const std::string &factor : monomial) {
      std::optional<int64_t> value;
      if (auto call = SymExpr::splitCall(factor)) {
        value = leastOfCall(*call, lowerBound(call->a), lowerBound(call->b));
      } else {
        auto it = least.find(factor);
        value = it == least.end() ? 0 : it->second;
      }
      if (!value || __builtin_mul_overflow(product, *value, &product))
        return std::nullopt;
    }
    if (__builtin_add_overflow(bound, product, &bound))
      return std::nullopt;
  }
  return bound;
}

bool Symbols::provesAtMost(const SymExpr &a, const SymExpr &b) const {
  auto bound = lowerBound(resolve(b) - resolve(a));
  return bound && *bound >= 0;
}

bool Symbols::provesEqual(const SymExpr &a, const SymExpr &b) const {
  return resolve(a) == resolve(b);
}

bool Symbols::provesUnequal(const SymExpr &a, const SymExpr &b) const {
  SymExpr x = resolve(a), y = resolve(b);
  auto up = lowerBound(x - y), down = lowerBound(y - x);
  return (up && *up > 0) || (down && *down > 0);
}

void Symbols::startPass() {
  guardTexts.clear();
  upper.clear();
  lower.clear();
  isChanged = false;
}
