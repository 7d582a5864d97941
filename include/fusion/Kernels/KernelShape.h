//===- KernelShape.h - What a kernel computes, and its sizes ----*- C++ -*-===//
//
// Products, rows of a reduction, attention and appends as the templates of
// both targets read them; and which template executes a kernel on the host
// CPU, with what it needs besides: what the formulas of HostLaunch.h and the
// code generator must agree on. A body that its family's template cannot take
// goes to `Pointwise`, which takes anything that can be computed element by
// element.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_KERNELS_KERNELSHAPE_H
#define FUSION_KERNELS_KERNELSHAPE_H

#include "fusion/Kernels/StridedView.h"

namespace fusion::kernels {

enum class HostTemplate {
  Pointwise,
  RowReduction,
  Matmul,
  Attention,
  Append,
  Sequential,
};

/// Columns of one work item of a pointwise kernel.
constexpr int64_t kHostColumns = 2048;
/// Rows up to which a matmul runs as vector code that streams the weights.
constexpr int64_t kHostGemvRows = 4;
/// Rows of one sgemm call.
constexpr int64_t kHostRowTile = 256;
/// Columns that the vector code treats at once.
constexpr int64_t kHostGemvColumns = 1024;
/// Query rows of one work item of an attention.
constexpr int64_t kHostQueryTile = 64;

/// Weights of 4 or 8 bits in blocks along the contracted axis, each row of N
/// dense: what the low-bit vector code reads. Rows have K elements.
struct HostLowBitWeight {
  DequantizeOp op;
  mlir::BlockArgument codes;
  unsigned bits;
  int64_t block;
};

/// One matmul, or two that share their left operand, of matrices.
struct ProductShape {
  llvm::SmallVector<MatmulOp, 2> products;
  SymShape space; ///< shape of the products: batch.., M, N
  SymExpr batch;  ///< product of the batch axes that `rhs` has
  SymExpr m, n, k;
  /// Rhs has no batch axes: all leading axes of lhs are rows of one product.
  bool flat;
};
/// Nullopt when a result that depends on the products is no view of a value of
/// their shape.
std::optional<ProductShape> getProductShape(KernelOp kernel);

/// The axis along which neighbours are neighbours in memory.
std::optional<int64_t> getContiguousAxis(mlir::Value value);

/// What the host's template needs to know besides.
struct MatmulShape : ProductShape {
  /// Rhs's elements are contiguous along K (else along N).
  bool contiguousK;
  /// An f32 operand that sgemm can read where it lies.
  bool plainLhs, plainRhs;
  llvm::SmallVector<HostLowBitWeight, 2> lowBit; ///< empty, or one a product
  int64_t columnTile;                            ///< columns of one work item
  /// At most this many rows are known to come (M itself, or what the kernel's
  /// config parameter max_rows says).
  std::optional<int64_t> maxRows;
  bool isGemvOnly() const { return maxRows && *maxRows <= kHostGemvRows; }
  /// M is constant and too large for the vector code.
  bool isTiledOnly() const {
    auto rows = m.asConstant();
    return rows && *rows > kHostGemvRows;
  }
  /// Rows of a panel of lhs or a tile of results, at most.
  int64_t rowTile() const;

  // A worker's scratch, in bytes from its start: tiles of the products' results
  // (resultStride each), the panel of lhs, block sums of it, the panel of rhs,
  // rows that reductions of the prologue keep.
  SymExpr resultStride, lhsOffset, sumsOffset, rhsOffset, rowsOffset,
      scratchBytes;
};
std::optional<MatmulShape> getMatmulShape(KernelOp kernel);

/// A row of a reduction: all axes but `reduced` are row axes.
struct RowShape {
  mlir::Operation *hero;
  SymShape space;                  ///< shape of the reduced tensor
  llvm::SmallVector<int64_t> axes; ///< reduced, ascending
  llvm::SmallVector<int64_t> rowAxes;
  SymExpr rows, columns;
};
std::optional<RowShape> getRowShape(KernelOp kernel);
/// The same for reductions over the rows of a product's lhs, if there are any.
std::optional<RowShape> getPrologueRowShape(KernelOp kernel,
                                            const MatmulShape &shape);
/// Bytes that the reductions of a kernel keep of one row.
SymExpr getRowScratch(KernelOp kernel, const SymExpr &columns);
/// The tensor that a reduction-like op reduces, and its axes.
std::optional<std::pair<mlir::Value, llvm::SmallVector<int64_t>>>
getReduction(mlir::Operation *op);

struct AttentionShape {
  AttentionOp op;
  SymExpr batch, heads, kvHeads, s, t;
  int64_t d, dv;
  bool plainKey, plainValue; ///< f32 rows that are read where they lie
};
std::optional<AttentionShape> getAttentionShape(KernelOp kernel);

/// A worker's scratch: bytes from its start.
struct AttentionScratch {
  SymExpr query, scores, result, key, value, total;
  SymExpr scoresStride; ///< floats between rows of scores
};
AttentionScratch getAttentionScratch(const AttentionShape &shape);

struct AppendShape {
  llvm::SmallVector<KvAppendOp> ops; ///< one a result
  llvm::SmallVector<bool> inPlace;
  SymExpr rows; ///< work items: rows of the largest result that are written
};
std::optional<AppendShape> getAppendShape(KernelOp kernel);

HostTemplate getHostTemplate(KernelOp kernel);

/// Work items of a pointwise pass over a result.
SymExpr getPointwiseItems(const SymShape &shape);

} // namespace fusion::kernels

#endif // FUSION_KERNELS_KERNELSHAPE_H
