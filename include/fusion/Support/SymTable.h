//===- SymTable.h - Many sizes evaluated together ---------------*- C++ -*-===//
//
// The size expressions of a program, each kept once and compiled to a small
// stack program, so that a step of a model evaluates all of them in about a
// microsecond and without touching text.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_SUPPORT_SYMTABLE_H
#define FUSION_SUPPORT_SYMTABLE_H

#include "fusion/Support/SymExpr.h"

namespace fusion {

class SymTable {
public:
  /// `symbols[i]` gets its value from place i of evaluate()'s argument.
  explicit SymTable(const std::vector<std::string> &symbols);

  /// The place of the expression's value; equal expressions share one. An
  /// expression over unknown symbols is kept, and fails when evaluated.
  uint32_t add(const SymExpr &expression);
  size_t size() const { return expressions.size(); }
  const SymExpr &expression(uint32_t place) const { return expressions[place]; }

  /// Fills `values` (of size()). Returns the place of an expression without a
  /// value (overflow, division by zero, unknown symbol), or nullopt.
  std::optional<uint32_t> evaluate(const std::vector<int64_t> &symbols,
                                   std::vector<int64_t> &values) const;

private:
  enum class Code : uint8_t {
    Constant,
    Symbol,
    Add,
    Mul,
    FloorDiv,
    Mod,
    Min,
    Max,
    Fail,
    End,
  };
  struct Instruction {
    Code code;
    int64_t operand;
  };

  void compile(const SymExpr &expression, unsigned depth);
  void compileFactor(const std::string &factor, unsigned depth);
  void emit(Code what, int64_t operand = 0) { code.push_back({what, operand}); }
  static bool apply(Code what, int64_t a, int64_t b, int64_t &result);

  std::map<std::string, uint32_t, std::less<>> places;
  std::map<SymExpr, uint32_t> known;
  std::vector<SymExpr> expressions;
  std::vector<Instruction> code; ///< one End after each expression
  size_t deepest = 0;            ///< stack that suffices for every expression
};

} // namespace fusion

#endif // FUSION_SUPPORT_SYMTABLE_H
