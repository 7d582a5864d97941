//===- Symbols.h - Replacing symbolic sizes in IR ---------------*- C++ -*-===//

#ifndef FUSION_DIALECT_FUSION_SYMBOLS_H
#define FUSION_DIALECT_FUSION_SYMBOLS_H

#include "fusion/Support/SymExpr.h"

#include "mlir/IR/Operation.h"

#include <map>
#include <set>
#include <string>

namespace fusion {

using SymbolMap = std::map<std::string, SymExpr>;

/// The type with every symbol of its shape and storage replaced; function
/// types element by element.
mlir::Type substituteSymbols(mlir::Type type, const SymbolMap &map);

/// Replaces symbols in all types and size expressions (starts, start, step,
/// values, low, k, causal_offset) of `root` and what it contains.
void substituteSymbols(mlir::Operation *root, const SymbolMap &map);

/// The attributes of `op` that hold size expressions (StringAttr or ArrayAttr
/// of StringAttr).
llvm::SmallVector<llvm::StringRef> getExprAttrNames(mlir::Operation *op);

/// Every symbol in the types and size expressions of `root`, in order of
/// first appearance (arguments before bodies).
std::vector<std::string> collectSymbols(mlir::Operation *root);

} // namespace fusion

#endif // FUSION_DIALECT_FUSION_SYMBOLS_H
