//===- Matmul.h - The parts of a matmul kernel ------------------*- C++ -*-===//

#ifndef FUSION_LIB_CODEGEN_HOST_MATMUL_H
#define FUSION_LIB_CODEGEN_HOST_MATMUL_H

#include "KernelBuilder.h"

namespace fusion::codegen::host {

/// What the tiled and the streaming form of a matmul share.
struct MatmulKernel {
  MatmulKernel(KernelBuilder &k, const kernels::MatmulShape &s);

  KernelBuilder &k;
  const kernels::MatmulShape &s;
  llvm::SmallVector<MatmulOp, 2> products;
  /// Results over the space, with their numbers; and those that are not.
  llvm::SmallVector<std::pair<unsigned, kernels::StridedOutput>> outputs;
  llvm::SmallVector<unsigned> others;
  std::optional<kernels::RowShape> prologue; ///< reductions over lhs's rows
  mlir::Value m, n, depth;
  SymExpr paddedDepth; ///< floats between rows of panels along K

  // Positions. `batch`: one index an axis of the space but the last two (empty
  // for flat shapes); `row` counts all rows of a flat shape.
  Indices batchOf(mlir::Value item);
  Indices leading(const Indices &batch, mlir::Value row);
  Indices lhsAt(const Indices &lead, const Index &depth);
  Indices rhsAt(unsigned product, const Indices &batch, const Index &depth,
                const Index &column);

  /// Rows [row0, row0 + count) of lhs as f32, `paddedDepth` apart.
  void fillLhs(mlir::Value panel, const Indices &batch, mlir::Value row0,
               mlir::Value count);
  /// Stores all results of one row's columns [0, count) from column0 on;
  /// `tile(p)` points to product p's sums of that row.
  void storeRow(const Indices &batch, mlir::Value row, const Index &column0,
                mlir::Value count,
                llvm::function_ref<mlir::Value(unsigned)> tile);

  void run();
  // Matmul.cpp: through sgemm.
  void tiled();
  // Gemv.cpp: few rows, weights streamed once.
  void gemv();

private:
  void tile(const Indices &batch, mlir::Value row0, mlir::Value rows,
            mlir::Value column0, mlir::Value columns);
  void fillRhs(unsigned product, const Indices &batch, mlir::Value column0,
               mlir::Value columns);
  KernelBuilder::Matrix lhsMatrix(const Indices &batch, mlir::Value row0,
                                  mlir::Value rows);
  KernelBuilder::Matrix rhsMatrix(unsigned product, const Indices &batch,
                                  mlir::Value column0);
  std::optional<SymExpr> directStride();

  void gemvSegment(const Indices &batch, mlir::Value lower, mlir::Value upper);
  void gemvAlongN(unsigned product, const Indices &batch, mlir::Value column0,
                  mlir::Value count, mlir::Value sums);
  void gemvAlongK(unsigned product, const Indices &batch, mlir::Value column0,
                  mlir::Value count, mlir::Value sums);
};

/// LowBitGemv.cpp: the rows of x, rearranged for the weights' packing, and the
/// sums of their blocks.
void prepareLowBit(MatmulKernel &mk, mlir::Value panel, mlir::Value blockSums);
void lowBitGemv(MatmulKernel &mk, unsigned product, mlir::Value panel,
                mlir::Value blockSums, mlir::Value column0, mlir::Value count,
                mlir::Value sums);

} // namespace fusion::codegen::host

#endif // FUSION_LIB_CODEGEN_HOST_MATMUL_H
