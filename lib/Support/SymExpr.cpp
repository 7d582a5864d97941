//===- SymExpr.cpp - Polynomials over symbolic sizes ----------------------===//
//
// See the header. An atom such as `floordiv(a, b)` is a factor whose spelling
// is its identity; its operands are recovered by parsing the spelling.
//
//===----------------------------------------------------------------------===//

#include "fusion/Support/SymExpr.h"

#include <algorithm>
#include <cctype>
#include <iterator>

using namespace fusion;

namespace {

/// Products with more terms than this are not sizes of tensors; a text that
/// asks for one is refused before it costs memory.
constexpr size_t kMostParsedTerms = 1024;
constexpr const char *kOverflow = "overflow()";
/// Products beyond these are as much an overflow as a coefficient is: their
/// size, and the time that they take, would grow without bound.
constexpr size_t kMostFactors = 512, kMostProducts = 1 << 16;

/// a / b when it is exact; avoids the one quotient that overflows.
std::optional<int64_t> exactQuotient(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1) || a % b != 0)
    return std::nullopt;
  return a / b;
}

std::optional<int64_t> floorDivide(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1))
    return std::nullopt;
  int64_t q = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? q - 1 : q;
}

bool isStart(char c) { return std::isalpha((unsigned char)c) || c == '_'; }
bool isPart(char c) {
  return std::isalnum((unsigned char)c) || c == '_' || c == '.';
}

/// Recursive descent over the text that str() writes.
class Parser {
public:
  explicit Parser(std::string_view text) : text(text) {}

  std::optional<SymExpr> parseAll() {
    auto e = sum();
    skip();
    if (!e || pos != text.size())
      return std::nullopt;
    return e;
  }

private:
  void skip() {
    while (pos < text.size() && std::isspace((unsigned char)text[pos]))
      ++pos;
  }
  bool eat(char c) {
    skip();
    if (pos >= text.size() || text[pos] != c)
      return false;
    ++pos;
    return true;
  }

  std::optional<SymExpr> sum() {
    if (++depth > 64)
      return std::nullopt;
    auto value = product();
    while (value) {
      bool plus = eat('+');
      if (!plus && !eat('-'))
        break;
      auto right = product();
      if (!right)
        return std::nullopt;
      value = plus ? *value + *right : *value - *right;
    }
    --depth;
    return value;
  }

  std::optional<SymExpr> product() {
    auto value = unary();
    while (value && eat('*')) {
      auto right = unary();
      if (!right || value->polynomial().size() * right->polynomial().size() >
                        kMostParsedTerms)
        return std::nullopt;
      value = *value * *right;
    }
    return value;
  }

  std::optional<SymExpr> unary() {
    int minus = 0;
    while (eat('-'))
      ++minus;
    auto value = primary();
    return value && minus % 2 ? std::optional<SymExpr>(-*value) : value;
  }

  std::optional<SymExpr> primary() {
    skip();
    if (eat('(')) {
      auto e = sum();
      if (!e || !eat(')'))
        return std::nullopt;
      return e;
    }
    if (pos < text.size() && std::isdigit((unsigned char)text[pos]))
      return number();
    if (pos >= text.size() || !isStart(text[pos]))
      return std::nullopt;
    size_t begin = pos;
    while (pos < text.size() && isPart(text[pos]))
      ++pos;
    std::string_view name = text.substr(begin, pos - begin);
    if (!eat('('))
      return SymExpr::symbol(name);
    return callOf(name);
  }

  std::optional<SymExpr> number() {
    int64_t value = 0;
    while (pos < text.size() && std::isdigit((unsigned char)text[pos])) {
      int digit = text[pos] - '0';
      if (value > (INT64_MAX - digit) / 10)
        return std::nullopt;
      value = value * 10 + digit;
      ++pos;
    }
    return SymExpr(value);
  }

  std::optional<SymExpr> callOf(std::string_view name) {
    auto a = sum();
    if (!a || !eat(','))
      return std::nullopt;
    auto b = sum();
    if (!b || !eat(')'))
      return std::nullopt;
    if (name == "floordiv")
      return SymExpr::floorDiv(*a, *b);
    if (name == "mod")
      return SymExpr::mod(*a, *b);
    if (name == "min")
      return SymExpr::min(*a, *b);
    if (name == "max")
      return SymExpr::max(*a, *b);
    return std::nullopt;
  }

  std::string_view text;
  size_t pos = 0;
  int depth = 0;
};

std::optional<SymExpr> apply(const std::string &function, const SymExpr &a,
                             const SymExpr &b) {
  if (function == "floordiv")
    return SymExpr::floorDiv(a, b);
  if (function == "mod")
    return SymExpr::mod(a, b);
  if (function == "min")
    return SymExpr::min(a, b);
  return SymExpr::max(a, b);
}

} // namespace

SymExpr::SymExpr(int64_t constant) {
  if (constant == INT64_MIN) // its magnitude has no text
    *this = overflow();
  else if (constant)
    terms[{}] = constant;
}

SymExpr SymExpr::overflow() { return atom(kOverflow); }

bool SymExpr::overflowed() const {
  return terms.size() == 1 && terms.begin()->first == Monomial{kOverflow};
}

/// Splits at the comma on the outermost level.
std::optional<SymExpr::Call> SymExpr::splitCall(const std::string &factor) {
  size_t open = factor.find('(');
  if (open == std::string::npos)
    return std::nullopt;
  int level = 0;
  for (size_t i = open + 1; i < factor.size(); ++i) {
    if (factor[i] == '(')
      ++level;
    else if (factor[i] == ')')
      --level;
    else if (factor[i] == ',' && level == 0) {
      auto a = SymExpr::parse(factor.substr(open + 1, i - open - 1));
      auto b = SymExpr::parse(factor.substr(i + 1, factor.size() - i - 2));
      if (!a || !b)
        return std::nullopt;
      return Call{factor.substr(0, open), *a, *b};
    }
  }
  return std::nullopt;
}

SymExpr SymExpr::symbol(std::string_view name) {
  return atom(std::string(name));
}

SymExpr SymExpr::atom(std::string spelling) {
  SymExpr e;
  e.terms[{std::move(spelling)}] = 1;
  return e;
}

SymExpr SymExpr::call(std::string_view function, const SymExpr &a,
                      const SymExpr &b) {
  return atom(std::string(function) + "(" + a.str() + ", " + b.str() + ")");
}

bool SymExpr::add(const Monomial &monomial, int64_t coefficient) {
  if (coefficient == 0)
    return true;
  auto [it, inserted] = terms.try_emplace(monomial, coefficient);
  if (inserted)
    return true;
  if (__builtin_add_overflow(it->second, coefficient, &it->second) ||
      it->second == INT64_MIN)
    return false;
  if (it->second == 0)
    terms.erase(it);
  return true;
}

SymExpr SymExpr::operator+(const SymExpr &other) const {
  if (overflowed() || other.overflowed())
    return overflow();
  SymExpr result = *this;
  for (const auto &[monomial, coefficient] : other.terms)
    if (!result.add(monomial, coefficient))
      return overflow();
  return result;
}

SymExpr SymExpr::operator-() const { return *this * SymExpr(-1); }

SymExpr SymExpr::operator-(const SymExpr &other) const {
  return *this + -other;
}

SymExpr SymExpr::operator*(const SymExpr &other) const {
  if (overflowed() || other.overflowed() ||
      terms.size() * other.terms.size() > kMostProducts)
    return overflow();
  SymExpr result;
  for (const auto &[m1, c1] : terms)
    for (const auto &[m2, c2] : other.terms) {
      if (m1.size() + m2.size() > kMostFactors)
        return overflow();
      Monomial m = m1;
      m.insert(m.end(), m2.begin(), m2.end());
      std::sort(m.begin(), m.end());
      int64_t c;
      if (__builtin_mul_overflow(c1, c2, &c) || c == INT64_MIN ||
          !result.add(m, c))
        return overflow();
    }
  return result;
}

bool SymExpr::isConstant() const { return asConstant().has_value(); }

std::optional<int64_t> SymExpr::asConstant() const {
  if (terms.empty())
    return 0;
  if (terms.size() == 1 && terms.begin()->first.empty())
    return terms.begin()->second;
  return std::nullopt;
}

std::optional<std::string> SymExpr::asSymbol() const {
  if (terms.size() != 1 || terms.begin()->second != 1 ||
      terms.begin()->first.size() != 1)
    return std::nullopt;
  const std::string &name = terms.begin()->first.front();
  if (!isIdentifier(name))
    return std::nullopt;
  return name;
}

std::set<std::string> SymExpr::symbols() const {
  std::set<std::string> result;
  for (const auto &[monomial, coefficient] : terms)
    for (const std::string &factor : monomial) {
      auto parts = splitCall(factor);
      if (!parts) {
        result.insert(factor);
        continue;
      }
      result.merge(parts->a.symbols());
      result.merge(parts->b.symbols());
    }
  return result;
}

std::optional<SymExpr> SymExpr::exactDiv(const SymExpr &divisor) const {
  if (divisor.terms.empty() || overflowed() || divisor.overflowed())
    return std::nullopt;
  // Polynomial long division on the lexicographically largest monomials.
  auto lead = [](const SymExpr &e) {
    return std::max_element(e.terms.begin(), e.terms.end(),
                            [](const auto &x, const auto &y) {
                              return std::make_pair(x.first.size(), x.first) <
                                     std::make_pair(y.first.size(), y.first);
                            });
  };
  SymExpr rest = *this, quotient;
  auto d = lead(divisor);
  for (int steps = 0; !rest.terms.empty(); ++steps) {
    auto r = lead(rest);
    auto coefficient = exactQuotient(r->second, d->second);
    if (steps > 64 || !coefficient || rest.overflowed() ||
        !std::includes(r->first.begin(), r->first.end(), d->first.begin(),
                       d->first.end()))
      return std::nullopt;
    Monomial m;
    std::set_difference(r->first.begin(), r->first.end(), d->first.begin(),
                        d->first.end(), std::back_inserter(m));
    SymExpr term;
    term.terms[m] = *coefficient;
    quotient = quotient + term;
    rest = rest - term * divisor;
  }
  return quotient;
}

std::optional<SymExpr> SymExpr::floorDiv(const SymExpr &a, const SymExpr &b) {
  auto ca = a.asConstant(), cb = b.asConstant();
  if (cb && *cb == 0)
    return std::nullopt;
  if (a.overflowed() || b.overflowed())
    return overflow();
  if (ca && cb) {
    auto q = floorDivide(*ca, *cb);
    return q ? SymExpr(*q) : overflow();
  }
  if (auto exact = a.exactDiv(b))
    return exact;
  if (cb) {
    // Terms that the divisor divides leave the quotient exactly:
    // floordiv(4*n + 3, 2) = 2*n + 1.
    SymExpr out, in;
    for (const auto &[monomial, coefficient] : a.terms) {
      auto exact = exactQuotient(coefficient, *cb);
      if (!monomial.empty() && exact)
        out.terms[monomial] = *exact;
      else
        in.terms[monomial] = coefficient;
    }
    if (auto c = in.asConstant()) {
      auto q = floorDivide(*c, *cb);
      return q ? out + SymExpr(*q) : overflow();
    }
    if (!out.terms.empty())
      return out + call("floordiv", in, b);
  }
  return call("floordiv", a, b);
}

std::optional<SymExpr> SymExpr::mod(const SymExpr &a, const SymExpr &b) {
  auto q = floorDiv(a, b);
  if (!q)
    return std::nullopt;
  auto constant = (a - *q * b).asConstant();
  if (constant)
    return SymExpr(*constant);
  if (a.exactDiv(b))
    return SymExpr();
  return call("mod", a, b);
}

SymExpr SymExpr::min(const SymExpr &a, const SymExpr &b) {
  if (a.overflowed() || b.overflowed())
    return overflow();
  if (auto difference = (a - b).asConstant())
    return *difference <= 0 ? a : b;
  return b < a ? call("min", b, a) : call("min", a, b);
}

SymExpr SymExpr::max(const SymExpr &a, const SymExpr &b) {
  if (a.overflowed() || b.overflowed())
    return overflow();
  if (auto difference = (a - b).asConstant())
    return *difference >= 0 ? a : b;
  return b < a ? call("max", b, a) : call("max", a, b);
}

SymExpr
SymExpr::substitute(const std::map<std::string, SymExpr> &values) const {
  SymExpr result;
  for (const auto &[monomial, coefficient] : terms) {
    SymExpr product(coefficient);
    for (const std::string &factor : monomial) {
      if (auto parts = splitCall(factor)) {
        auto e = apply(parts->function, parts->a.substitute(values),
                       parts->b.substitute(values));
        product = product * (e ? *e : atom(factor));
        continue;
      }
      auto it = values.find(factor);
      product = product * (it == values.end() ? atom(factor) : it->second);
    }
    result = result + product;
  }
  return result;
}

static std::optional<int64_t> evaluateFactor(const std::string &factor,
                                             const SymExpr::Lookup &lookup) {
  auto parts = SymExpr::splitCall(factor);
  if (!parts)
    return lookup(factor);
  auto a = parts->a.evaluate(lookup), b = parts->b.evaluate(lookup);
  if (!a || !b)
    return std::nullopt;
  if (parts->function == "min")
    return std::min(*a, *b);
  if (parts->function == "max")
    return std::max(*a, *b);
  auto q = floorDivide(*a, *b);
  if (!q || parts->function == "floordiv")
    return q;
  int64_t r = *a % *b; // takes the dividend's sign; mod takes the divisor's
  return r != 0 && (r < 0) != (*b < 0) ? r + *b : r;
}

std::optional<int64_t> SymExpr::evaluate(const Lookup &lookup) const {
  if (overflowed())
    return std::nullopt;
  int64_t sum = 0;
  for (const auto &[monomial, coefficient] : terms) {
    int64_t product = coefficient;
    for (const std::string &factor : monomial) {
      auto value = evaluateFactor(factor, lookup);
      if (!value || __builtin_mul_overflow(product, *value, &product))
        return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum))
      return std::nullopt;
  }
  return sum;
}

std::string SymExpr::str() const {
  if (terms.empty())
    return "0";
  std::string text;
  auto append = [&](const Monomial &monomial, int64_t coefficient) {
    bool negative = coefficient < 0;
    uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(coefficient)
                                  : static_cast<uint64_t>(coefficient);
    if (text.empty())
      text += negative ? "-" : "";
    else
      text += negative ? " - " : " + ";
    if (monomial.empty() || magnitude != 1)
      text += std::to_string(magnitude) + (monomial.empty() ? "" : "*");
    for (size_t i = 0; i < monomial.size(); ++i)
      text += (i ? "*" : "") + monomial[i];
  };
  // The constant term reads best at the end.
  for (const auto &[monomial, coefficient] : terms)
    if (!monomial.empty())
      append(monomial, coefficient);
  if (auto it = terms.find({}); it != terms.end())
    append(it->first, it->second);
  return text;
}

std::optional<SymExpr> SymExpr::parse(std::string_view text) {
  return Parser(text).parseAll();
}

bool SymExpr::isIdentifier(std::string_view name) {
  return !name.empty() && isStart(name[0]) &&
         std::all_of(name.begin(), name.end(), isPart);
}
