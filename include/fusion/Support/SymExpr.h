//===- SymExpr.h - Polynomials over symbolic sizes --------------*- C++ -*-===//
//
// A size that is not known when a model is compiled: a polynomial with integer
// coefficients over named symbols, in one normal form, so that equal sizes are
// equal objects ("past + seq" and "seq + past" are the same). Quotients,
// remainders, minima and maxima that do not reduce to a polynomial become
// atoms with a canonical spelling, e.g. `floordiv(seq + 1, 2)`. A coefficient
// beyond 64 bits, a product of more than 512 factors or one of more than 65536
// pairs of terms makes the whole `overflow()`: no value, no readable text.
//
// Plain C++17: the dialect, the compiler and the runtime share this file.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_SUPPORT_SYMEXPR_H
#define FUSION_SUPPORT_SYMEXPR_H

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace fusion {

class SymExpr {
public:
  /// The factors of a product, sorted; empty for the constant term.
  using Monomial = std::vector<std::string>;
  /// Maps a symbol to its value; nullopt when it has none.
  using Lookup = std::function<std::optional<int64_t>(std::string_view)>;

  SymExpr() = default; // zero
  SymExpr(int64_t constant);
  /// A named symbol. `name` must be an identifier ([A-Za-z_][A-Za-z0-9_.]*).
  static SymExpr symbol(std::string_view name);

  SymExpr operator+(const SymExpr &other) const;
  SymExpr operator-(const SymExpr &other) const;
  SymExpr operator*(const SymExpr &other) const;
  SymExpr operator-() const;
  bool operator==(const SymExpr &other) const { return terms == other.terms; }
  bool operator!=(const SymExpr &other) const { return !(*this == other); }
  bool operator<(const SymExpr &other) const { return terms < other.terms; }

  /// Rounds towards minus infinity. Exact polynomial division is carried out
  /// (`floordiv(4*seq, 2)` is `2*seq`); a zero divisor gives nullopt.
  static std::optional<SymExpr> floorDiv(const SymExpr &a, const SymExpr &b);
  static std::optional<SymExpr> mod(const SymExpr &a, const SymExpr &b);
  static SymExpr min(const SymExpr &a, const SymExpr &b);
  static SymExpr max(const SymExpr &a, const SymExpr &b);

  bool isConstant() const;
  std::optional<int64_t> asConstant() const;
  /// The symbol's name when the expression is exactly one plain symbol.
  std::optional<std::string> asSymbol() const;
  /// Every plain symbol, also those inside atoms.
  std::set<std::string> symbols() const;
  /// The quotient when `divisor` divides this polynomial exactly.
  std::optional<SymExpr> exactDiv(const SymExpr &divisor) const;

  /// Replaces symbols (inside atoms too) and renormalises.
  SymExpr substitute(const std::map<std::string, SymExpr> &values) const;
  /// Nullopt when a symbol has no value, on overflow, and on division by zero.
  std::optional<int64_t> evaluate(const Lookup &lookup) const;

  /// Whether a coefficient overflowed on the way here.
  bool overflowed() const;

  /// A factor that is not a symbol: `function` is floordiv, mod, min or max.
  struct Call;
  /// Splits a factor such as `floordiv(seq + 1, 2)`; nullopt for a symbol.
  static std::optional<Call> splitCall(const std::string &factor);
  /// The sum's products with their coefficients.
  const std::map<Monomial, int64_t> &polynomial() const { return terms; }

  /// Canonical text, readable by parse(): `past + seq`, `2*hidden*seq - 1`.
  std::string str() const;
  static std::optional<SymExpr> parse(std::string_view text);

  /// True when `name` may be used as a symbol.
  static bool isIdentifier(std::string_view name);

private:
  /// False on overflow; the caller's result is then overflow().
  [[nodiscard]] bool add(const Monomial &monomial, int64_t coefficient);
  static SymExpr overflow();
  static SymExpr atom(std::string spelling);
  static SymExpr call(std::string_view function, const SymExpr &a,
                      const SymExpr &b);

  std::map<Monomial, int64_t> terms;
};

struct SymExpr::Call {
  std::string function;
  SymExpr a, b;
};

} // namespace fusion

#endif // FUSION_SUPPORT_SYMEXPR_H
