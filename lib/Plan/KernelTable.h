//===- KernelTable.h - Equal groups, one kernel -----------------*- C++ -*-===//

#ifndef FUSION_LIB_PLAN_KERNELTABLE_H
#define FUSION_LIB_PLAN_KERNELTABLE_H

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Dialect/Fusion/Symbols.h"

#include "mlir/IR/BuiltinOps.h"

#include <unordered_map>

namespace fusion {

/// Names of the attributes that bind a group to its kernel.
constexpr llvm::StringLiteral kKernelAttrName = "plan.kernel";
constexpr llvm::StringLiteral kSizesAttrName = "plan.sizes";

/// Finds or makes the kernel of a group. Two groups share a kernel when their
/// bodies are equal after their symbols are renamed to d0, d1, ... in order of
/// first appearance; names of sites and locations do not count.
///
/// Attributes and types are unique in a context, so equality of bodies is
/// equality of pointers, and a body is compared as a list of them.
class KernelTable {
public:
  explicit KernelTable(mlir::ModuleOp module) : symbols(module) {}

  struct Binding {
    KernelOp kernel;
    std::vector<std::string> sizes; ///< the symbols that became d0, d1, ...
  };
  Binding bind(GroupOp group);

  /// A kernel that copies `d0` elements of a type.
  KernelOp getCopy(mlir::Type element);

private:
  /// The renaming of one list of symbols, with what it made of types and
  /// attributes so far.
  struct Renaming {
    SymbolMap map;
    llvm::DenseMap<mlir::Type, mlir::Type> types;
    llvm::DenseMap<std::pair<mlir::DictionaryAttr, const void *>,
                   mlir::DictionaryAttr>
        attrs;

    mlir::Type rename(mlir::Type type);
    mlir::DictionaryAttr rename(mlir::Operation *op);
  };
  using Key = std::vector<const void *>;
  struct KeyHash {
    size_t operator()(const Key &key) const {
      return llvm::hash_combine_range(key.begin(), key.end());
    }
  };

  std::vector<std::string> getSymbols(GroupOp group);
  const std::vector<std::string> &getSymbols(mlir::Type type);
  Key getKey(GroupOp group, Renaming &renaming);
  KernelOp makeKernel(GroupOp group, const Renaming &renaming);
  KernelOp insert(KernelOp kernel);

  mlir::SymbolTable symbols;
  std::map<std::vector<std::string>, Renaming> renamings;
  llvm::DenseMap<mlir::Type, std::vector<std::string>> symbolsOfType;
  std::unordered_map<Key, KernelOp, KeyHash> kernels;
  llvm::DenseMap<mlir::Type, KernelOp> copies;
  llvm::StringMap<unsigned> counts; ///< kernels of a kind so far
};

} // namespace fusion

#endif // FUSION_LIB_PLAN_KERNELTABLE_H
