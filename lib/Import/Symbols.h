//===- Symbols.h - Sizes of the file, and what is known of them -*- C++ -*-===//
//
// Real files do not give equal sizes equal names. The operators' own
// constraints say which ones are equal: unify() collects them and solves for a
// symbol. What cannot be solved, or is taken for granted, becomes a guard.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_IMPORT_SYMBOLS_H
#define FUSION_LIB_IMPORT_SYMBOLS_H

#include "fusion/Support/SymExpr.h"

#include "llvm/ADT/StringRef.h"

namespace fusion {

class Symbols {
public:
  /// The expression of an axis named `param` in the file; a name that is no
  /// expression becomes one symbol. `fallback` names an axis without a name.
  SymExpr declare(const std::string &param, const std::string &fallback);
  /// Tells which names stand alone on an axis of an input, before declare().
  void addPlainName(const std::string &param);

  SymExpr resolve(const SymExpr &expr) const;

  /// Takes the sizes to be equal; false when they cannot be.
  bool unify(const SymExpr &a, const SymExpr &b);
  /// Takes a <= b for granted; a guard unless it is proven.
  void assumeAtMost(const SymExpr &a, const SymExpr &b);

  /// Whether unify() found that a <= b must hold: min(a, b) == a.
  bool mustBeAtMost(const SymExpr &a, const SymExpr &b) const;
  /// Takes `size` to be 1 when it is min(1, n) or 1 - max(0, n); false when it
  /// is neither.
  bool learnOne(const SymExpr &size);
  /// A symbol's least value, which is checked when a session starts.
  void setLeast(const std::string &symbol, int64_t value) {
    least[symbol] = value;
  }

  /// Notes what else was taken for granted, as text.
  void addGuard(const std::string &text) { guardTexts.insert(text); }

  /// True when a <= b for all sizes that are not below their least value, 0
  /// where none is set.
  bool provesAtMost(const SymExpr &a, const SymExpr &b) const;
  bool provesEqual(const SymExpr &a, const SymExpr &b) const;
  bool provesUnequal(const SymExpr &a, const SymExpr &b) const;

  /// Forgets guards and keeps substitutions, for another pass over the graph.
  void startPass();
  /// Whether unify() found something new in this pass.
  bool changed() const { return isChanged; }

  const std::map<std::string, SymExpr> &substitutions() const { return subst; }
  const std::set<std::string> &guards() const { return guardTexts; }
  /// The largest value that the guards allow, by symbol.
  const std::map<std::string, int64_t> &upperBounds() const { return upper; }
  /// The smallest value that the guards allow, by symbol; 0 where absent.
  const std::map<std::string, int64_t> &lowerBounds() const { return lower; }
  bool isDeclared(const std::string &symbol) const {
    return order.count(symbol) != 0;
  }

private:
  bool solve(const SymExpr &a, const SymExpr &b);
  bool learnOrder(const SymExpr &a, const SymExpr &b);
  std::optional<int64_t> lowerBound(const SymExpr &e) const;
  std::string spell(const std::string &name);

  std::map<std::string, SymExpr> subst;     ///< values are fully resolved
  std::map<std::string, unsigned> order;    ///< of declaration
  std::map<std::string, std::string> names; ///< file's name to symbol
  std::set<std::string> plain;              ///< symbols that stand alone
  std::set<std::string> guardTexts;
  std::map<std::string, int64_t> upper, lower, least;
  std::set<SymExpr> ordered; ///< what is not negative, of mustBeAtMost()
  bool isChanged = false;
};

} // namespace fusion

#endif // FUSION_LIB_IMPORT_SYMBOLS_H
