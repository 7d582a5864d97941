//===- SymTable.cpp - Many sizes evaluated together -----------------------===//
//
// Postfix code: a sum pushes its first product and folds in each further one.
//
//===----------------------------------------------------------------------===//

#include "fusion/Support/SymTable.h"

#include <algorithm>

using namespace fusion;

/// A nested call deeper than this does not come from str().
constexpr unsigned kMostNesting = 64;

SymTable::SymTable(const std::vector<std::string> &symbols) {
  for (uint32_t i = 0; i < symbols.size(); ++i)
    places.emplace(symbols[i], i);
}

uint32_t SymTable::add(const SymExpr &expression) {
  auto place = static_cast<uint32_t>(expressions.size());
  auto [it, inserted] = known.emplace(expression, place);
  if (!inserted)
    return it->second;
  expressions.push_back(expression);
  size_t begin = code.size();
  compile(expression, 0);
  emit(Code::End);
  deepest = std::max(deepest, code.size() - begin);
  return place;
}

void SymTable::compile(const SymExpr &expression, unsigned depth) {
  if (expression.overflowed() || depth > kMostNesting)
    return emit(Code::Fail);
  if (auto constant = expression.asConstant())
    return emit(Code::Constant, *constant);
  bool first = true;
  for (const auto &[monomial, coefficient] : expression.polynomial()) {
    bool one = coefficient == 1 && !monomial.empty();
    if (!one)
      emit(Code::Constant, coefficient);
    for (const std::string &factor : monomial) {
      compileFactor(factor, depth);
      if (!one)
        emit(Code::Mul);
      one = false;
    }
    if (!first)
      emit(Code::Add);
    first = false;
  }
}

void SymTable::compileFactor(const std::string &factor, unsigned depth) {
  if (auto call = SymExpr::splitCall(factor)) {
    compile(call->a, depth + 1);
    compile(call->b, depth + 1);
    return emit(call->function == "floordiv" ? Code::FloorDiv
                : call->function == "mod"    ? Code::Mod
                : call->function == "min"    ? Code::Min
                                             : Code::Max);
  }
  auto it = places.find(factor);
  if (it == places.end())
    return emit(Code::Fail);
  emit(Code::Symbol, it->second);
}

bool SymTable::apply(Code what, int64_t a, int64_t b, int64_t &result) {
  switch (what) {
  case Code::Add:
    return !__builtin_add_overflow(a, b, &result);
  case Code::Mul:
    return !__builtin_mul_overflow(a, b, &result);
  case Code::Min:
    result = std::min(a, b);
    return true;
  case Code::Max:
    result = std::max(a, b);
    return true;
  default:
    break;
  }
  if (b == 0 || (a == INT64_MIN && b == -1))
    return false;
  int64_t quotient = a / b, rest = a % b;
  bool down = rest != 0 && (rest < 0) != (b < 0);
  result = what == Code::FloorDiv ? quotient - down : rest + (down ? b : 0);
  return true;
}

std::optional<uint32_t> SymTable::evaluate(const std::vector<int64_t> &symbols,
                                           std::vector<int64_t> &values) const {
  values.resize(expressions.size());
  std::vector<int64_t> stack(deepest + 1);
  int64_t *top = stack.data(); // one past the top
  uint32_t place = 0;
  for (const Instruction &i : code) {
    switch (i.code) {
    case Code::Constant:
      *top++ = i.operand;
      break;
    case Code::Symbol:
      *top++ = symbols[static_cast<size_t>(i.operand)];
      break;
    case Code::Fail:
      return place;
    case Code::End:
      values[place++] = *--top;
      break;
    default:
      --top;
      if (!apply(i.code, top[-1], top[0], top[-1]))
        return place;
    }
  }
  return std::nullopt;
}
