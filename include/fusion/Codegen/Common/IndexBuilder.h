//===- IndexBuilder.h - Integers, loops and memory of what is known -*- C++
//-*-===//
//
// Index arithmetic that folds and never computes the same thing twice, and
// structured loops that open a scope for what is computed inside them.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_CODEGEN_COMMON_INDEXBUILDER_H
#define FUSION_CODEGEN_COMMON_INDEXBUILDER_H

#include "fusion/Support/SymExpr.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"

#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace fusion::codegen {

/// A position along one axis. Lane i of a vector is at `base + i * lane`.
struct Index {
  mlir::Value base;    ///< of index type
  int64_t lane = 0;    ///< distance between lanes; 0: all lanes are equal
  int64_t divisor = 1; ///< a number known to divide `base`
};
using Indices = llvm::SmallVector<Index, 4>;

/// Whether two positions in `tensor` are known to be the same. Along axes of
/// size 1 every position is.
bool isSameElement(mlir::Value tensor, llvm::ArrayRef<Index> a,
                   llvm::ArrayRef<Index> b);

/// Builds index arithmetic, hoists what depends on sizes alone to the
/// function's entry, and remembers values by what they are. Created where the
/// values of all sizes are known; everything later lies below that point.
class IndexBuilder {
public:
  /// `size` gives the value (index type) of the kernel's symbol d<i>; it is
  /// called once a symbol, with the builder at the hoisting point.
  using SizeFn = std::function<mlir::Value(unsigned)>;
  IndexBuilder(mlir::OpBuilder &builder, mlir::Location loc, SizeFn size);

  mlir::OpBuilder &b() { return builder; }
  mlir::Location loc() const { return location; }

  // Scalars of index type.
  mlir::Value constant(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value min(mlir::Value a, mlir::Value b);
  mlir::Value max(mlir::Value a, mlir::Value b);
  /// Rounds down; `b` is positive.
  mlir::Value floorDiv(mlir::Value a, mlir::Value b);
  mlir::Value mod(mlir::Value a, mlir::Value b);
  /// Of non-negative `a`: cheaper.
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value rem(mlir::Value a, mlir::Value b);
  mlir::Value ceilDiv(mlir::Value a, int64_t b);
  mlir::Value less(mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// The value of an expression over the kernel's sizes, hoisted.
  mlir::Value size(const SymExpr &expr);
  static std::optional<int64_t> asConstant(mlir::Value value);

  // Positions.
  Index index(int64_t value);
  Index index(mlir::Value value, int64_t lane = 0, int64_t divisor = 1);
  Index add(const Index &a, const Index &b);
  Index scale(const Index &a, const SymExpr &factor);
  /// Element `linear` of axes of the given sizes, as one position an axis.
  /// Nullopt when the lanes do not stay in one row (see `width`).
  std::optional<Indices> delinearize(const Index &linear,
                                     llvm::ArrayRef<SymExpr> shape,
                                     unsigned width);
  /// Row-major position within axes of the given sizes.
  Index linearize(llvm::ArrayRef<Index> indices, llvm::ArrayRef<SymExpr> shape);

  /// `for iv in lower, lower + step, ... < upper`. The body runs in a scope.
  void loop(mlir::Value lower, mlir::Value upper, int64_t step,
            llvm::function_ref<void(mlir::Value)> body);
  /// The same with values carried from one turn to the next.
  llvm::SmallVector<mlir::Value>
  loop(mlir::Value lower, mlir::Value upper, int64_t step,
       mlir::ValueRange init,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value,
                                                         mlir::ValueRange)>
           body);
  void when(mlir::Value condition, llvm::function_ref<void()> then,
            llvm::function_ref<void()> otherwise = nullptr);
  /// A value from one of two branches, which must have equal types.
  mlir::Value choose(mlir::Value condition,
                     llvm::function_ref<mlir::Value()> then,
                     llvm::function_ref<mlir::Value()> otherwise);

  // Memory: what is remembered in a scope is forgotten at its end.
  using Key = std::vector<const void *>;
  mlir::Value find(const Key &key) const;
  void remember(const Key &key, mlir::Value value);
  class Scope {
  public:
    explicit Scope(IndexBuilder &owner) : owner(owner) {
      owner.scopes.emplace_back();
    }
    ~Scope() { owner.scopes.pop_back(); }
    Scope(const Scope &) = delete;

  private:
    IndexBuilder &owner;
  };
  /// Runs `build` with the insertion point among the hoisted operations; what
  /// it creates dominates the function's body.
  mlir::Value hoisted(llvm::function_ref<mlir::Value()> build);

private:
  template <typename OpT>
  mlir::Value binary(mlir::Value a, mlir::Value b);
  mlir::Value sizeOf(const SymExpr &expr);

  mlir::OpBuilder &builder;
  mlir::Location location;
  SizeFn sizeFn;
  mlir::Operation *hoistAfter; ///< hoisted code goes behind it
  unsigned hoistDepth = 0;
  /// The first one holds what is hoisted.
  std::vector<std::map<Key, mlir::Value>> scopes;
};

} // namespace fusion::codegen

#endif // FUSION_CODEGEN_COMMON_INDEXBUILDER_H
