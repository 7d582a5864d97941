//===- SymEval.h - Shape arithmetic over symbolic sizes ---------*- C++ -*-===//
//
// Evaluates the operations that handlers make, element by element, where each
// element is an expression over the model's sizes. Operations that move data
// are run by the interpreter (lib/Eval) on the places of the elements, sums on
// unit vectors, so that only arithmetic on one element is spelled here.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_IMPORT_SYMEVAL_H
#define FUSION_LIB_IMPORT_SYMEVAL_H

#include "Symbols.h"

#include "mlir/IR/Operation.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>
#include <string>
#include <vector>

namespace fusion {

/// Larger results stay operations on data.
inline constexpr int64_t maxSymElements = 64;

/// An integer `num`, or a float: a known value `real`, or the exact quotient
/// num / den before the float's rounding.
struct SymElement {
  SymExpr num;
  SymExpr den = 1;
  std::optional<double> real;
  /// Integers up to here are exact in each float type that the element went
  /// through; 0 where it went through none.
  int64_t exactUpTo = 0;

  SymElement() = default;
  SymElement(SymExpr num) : num(std::move(num)) {}
  bool isConstant() const { return real || num.isConstant(); }
};

/// The elements of a small tensor, row-major.
struct SymElements {
  std::vector<int64_t> dims;
  std::vector<SymElement> values;

  bool isConstant() const;
};

class SymEval {
public:
  explicit SymEval(Symbols &symbols) : symbols(symbols) {}

  /// The elements of a value, null where they are not known.
  const SymElements *find(mlir::Value value);
  /// Evaluates an operation on known operands.
  void visit(mlir::Operation *op);

  /// Why the first operation since clearReason() was not evaluated although
  /// sizes flow into it; empty where none was met.
  const std::string &reason() const { return why; }
  void clearReason() { why.clear(); }

private:
  std::optional<SymElements> evaluate(mlir::Operation *op);
  bool readsSizes(mlir::Operation *op);
  void stop(const llvm::Twine &reason);

  Symbols &symbols;
  llvm::DenseMap<mlir::Value, SymElements> known;
  std::string why;
};

namespace symeval {

/// Arithmetic on one element.
class Scalars {
public:
  Scalars(Symbols &symbols, std::string &why) : symbols(symbols), why(why) {}

  /// One elementwise operation; nullopt, with a reason, where its result
  /// cannot be written.
  using Maybe = std::optional<SymElement>;
  Maybe apply(mlir::Operation *op, llvm::ArrayRef<SymElement> operands);
  /// Sums and products, of either kind.
  Maybe add(const SymElement &a, const SymElement &b);
  Maybe mul(const SymElement &a, const SymElement &b);
  bool isAtMost(const SymExpr &a, const SymExpr &b);
  Maybe minimum(const SymElement &a, const SymElement &b);
  Maybe maximum(const SymElement &a, const SymElement &b);
  Maybe div(const SymElement &a, const SymElement &b, bool isFloat);

private:
  Maybe fail(const llvm::Twine &reason);
  Maybe cast(mlir::Operation *op, const SymElement &a);
  Maybe unary(llvm::StringRef name, const SymElement &a, bool isFloat);
  Maybe binary(mlir::Operation *op, const SymElement &a, const SymElement &b);
  Maybe compare(llvm::StringRef name, const SymElement &a, const SymElement &b);
  Maybe select(const SymElement &c, const SymElement &a, const SymElement &b);
  Maybe negate(const SymElement &a);
  Maybe power(const SymElement &a, const SymElement &b, bool isFloat);
  Maybe root(const SymElement &a);
  Maybe rounded(llvm::StringRef name, const SymElement &a);
  Maybe integerDiv(const SymExpr &a, const SymExpr &b);
  Maybe integerMod(const SymExpr &a, const SymExpr &b, bool fmod);

  /// The element as a quotient of integers.
  Maybe asQuotient(const SymElement &a);
  /// As `asQuotient`, where every value in between is exact in the float type.
  Maybe asExact(const SymElement &a);
  bool unifyDens(SymElement &a, SymElement &b);
  SymExpr atMost(const SymExpr &a, const SymExpr &b);
  void guardExact(const SymElement &a);

  Symbols &symbols;
  std::string &why;
};

} // namespace symeval
} // namespace fusion

#endif // FUSION_LIB_IMPORT_SYMEVAL_H
