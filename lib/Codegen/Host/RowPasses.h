//===- RowPasses.h - The reductions of one row ------------------*- C++ -*-===//

#ifndef FUSION_LIB_CODEGEN_HOST_ROWPASSES_H
#define FUSION_LIB_CODEGEN_HOST_ROWPASSES_H

#include "KernelBuilder.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace fusion::codegen::host {

/// Computes the body's reductions over the axes of `shape` for one row and
/// lets the emitter use their values while it lives.
class RowPasses {
public:
  /// Buffers begin at byte `scratchStart` of the scratch.
  RowPasses(KernelBuilder &k, const kernels::RowShape &shape, Indices row,
            SymExpr scratchStart = 0)
      : k(k), shape(shape), row(std::move(row)), scratchStart(scratchStart) {}
  ~RowPasses();
  RowPasses(const RowPasses &) = delete;

  /// All reductions, in the body's order.
  void run();

  Indices positions(llvm::ArrayRef<Index> columns) const;
  /// One pass over the row's elements.
  KernelBuilder::Carried
  pass(mlir::ValueRange neutral,
       llvm::function_ref<KernelBuilder::Carried(llvm::ArrayRef<Index>,
                                                 mlir::ValueRange)>
           body,
       KernelBuilder::Combine combine);

  KernelBuilder &k;
  const kernels::RowShape &shape;
  Indices row; ///< one an axis of the space; the reduced ones are zero

private:
  bool inRow(llvm::ArrayRef<Index> indices) const;
  bool inReducedRow(llvm::ArrayRef<Index> indices) const;
  mlir::Value
  reduce(mlir::Value neutral,
         llvm::function_ref<mlir::Value(llvm::ArrayRef<Index>)> element,
         llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);
  mlir::Value stage(mlir::Value input, llvm::ArrayRef<Index> columns);
  mlir::Value allocate();
  void readFrom(mlir::Value value, mlir::Value buffer);
  void endPass();
  void provide(mlir::Value value, BodyEmitter::Provider provider);
  mlir::Value meanOf(mlir::Value sum);
  mlir::Value mix(mlir::Value x, mlir::Value scalar,
                  llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> op);
  mlir::Value parameter(mlir::Value tensor, llvm::ArrayRef<Index> indices);
  void reduction(mlir::Operation *op);
  void softmax(SoftmaxOp op);
  void rmsNorm(RmsNormOp op);
  void layerNorm(LayerNormOp op);

  SymExpr scratchStart;
  unsigned buffers = 0;
  llvm::MapVector<mlir::Value, mlir::Value> pending; ///< being staged
  llvm::DenseSet<mlir::Value> staged;
  llvm::SmallVector<mlir::Value> provided;
};

Indices rowIndices(KernelBuilder &k, const kernels::RowShape &shape,
                   mlir::Value row);

} // namespace fusion::codegen::host

#endif // FUSION_LIB_CODEGEN_HOST_ROWPASSES_H
