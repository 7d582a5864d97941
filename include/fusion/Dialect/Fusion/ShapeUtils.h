//===- ShapeUtils.h - Symbolic shapes of tensors ----------------*- C++ -*-===//
//
// Between tensor types and SymExpr, and the inference rules that ops share.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_DIALECT_FUSION_SHAPEUTILS_H
#define FUSION_DIALECT_FUSION_SHAPEUTILS_H

#include "fusion/Support/SymExpr.h"

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace fusion {

using SymShape = llvm::SmallVector<SymExpr, 4>;

/// What an op is to the fusion phase.
enum class OpClass {
  Constant,    ///< weight, constant, shape_value
  Elementwise, ///< one result element from one element of each operand
  View,        ///< the same elements in other places; free inside a group
  Gather, ///< each result element reads one element, found by data or position
  Reduction,    ///< axes disappear
  RowReduction, ///< a reduction along an axis and a pass over the same axis
  Contraction,  ///< matmul
  Attention,
  Append, ///< kv_append
  Opaque, ///< runs alone
};
const char *stringify(OpClass opClass);

/// The symbolic shape of a ranked tensor; a dynamic dimension without a name
/// in the encoding becomes a symbol `unnamed<axis>`.
SymShape getSymShape(mlir::Type type);
SymShape getSymShape(mlir::Value value);
/// The shape that strides are computed from: `storage`, else the shape.
SymShape getStorageShape(mlir::Type type);
bool hasStorage(mlir::Type type);

/// A tensor type of the given shape, with an encoding where it is dynamic.
mlir::RankedTensorType getTensorType(llvm::ArrayRef<SymExpr> shape,
                                     mlir::Type element);
/// The same, laid out as `storage`.
mlir::RankedTensorType getTensorType(llvm::ArrayRef<SymExpr> shape,
                                     llvm::ArrayRef<SymExpr> storage,
                                     mlir::Type element);
/// The type without its storage shape.
mlir::RankedTensorType logicalType(mlir::Type type);
/// The same shape with another element type (no storage).
mlir::RankedTensorType withElementType(mlir::Type type, mlir::Type element);
mlir::Type elementType(mlir::Type type);
mlir::Type elementType(mlir::Value value);

/// Number of elements.
SymExpr numElements(llvm::ArrayRef<SymExpr> shape);
SymExpr numElements(mlir::Type type);
/// Bytes of a dense row-major tensor, sub-byte elements packed.
SymExpr numBytes(mlir::Type type);
/// Bits of one element (i1 takes 8).
unsigned elementBits(mlir::Type element);

/// Row-major strides, in elements.
SymShape getStrides(llvm::ArrayRef<SymExpr> storage);

/// One dimension of a broadcast: nullopt when two constants conflict. Two
/// unequal symbolic sizes are taken to be equal (Import records the guard).
std::optional<SymExpr> broadcastDim(const SymExpr &a, const SymExpr &b);
std::optional<SymShape> broadcastShapes(llvm::ArrayRef<SymExpr> a,
                                        llvm::ArrayRef<SymExpr> b);

/// Expressions in a StringAttr or an array of them; verified by the ops.
SymExpr getExpr(mlir::StringAttr attr);
SymShape getExprs(mlir::ArrayAttr attr);
mlir::StringAttr getExprAttr(mlir::MLIRContext *context, const SymExpr &expr);
mlir::ArrayAttr getExprsAttr(mlir::MLIRContext *context,
                             llvm::ArrayRef<SymExpr> exprs);

/// `axis` counted from the front; nullopt when out of range.
std::optional<int64_t> normalizeAxis(int64_t axis, int64_t rank);

// Rules shared by op definitions.
llvm::LogicalResult inferBroadcast(std::optional<mlir::Location> loc,
                                   mlir::ValueRange operands,
                                   mlir::Type element,
                                   llvm::SmallVectorImpl<mlir::Type> &types);
llvm::LogicalResult inferReduction(std::optional<mlir::Location> loc,
                                   mlir::Value input,
                                   llvm::ArrayRef<int64_t> axes, bool keepdims,
                                   llvm::SmallVectorImpl<mlir::Type> &types);
llvm::LogicalResult verifyAxes(mlir::Operation *op, mlir::Value input,
                               llvm::ArrayRef<int64_t> axes);
/// Equal element types and ranks, and no two constant sizes that differ.
bool compatibleTypes(mlir::TypeRange a, mlir::TypeRange b);
bool compatibleShapes(llvm::ArrayRef<SymExpr> a, llvm::ArrayRef<SymExpr> b);
/// The broadcast map of an elementwise op; nullopt for other ops.
std::optional<mlir::AffineMap> defaultOperandMap(mlir::Operation *op,
                                                 unsigned operand);
/// What the attribute `axes` or `axis` says; without one, the last axis.
llvm::SmallVector<int64_t> defaultReducedAxes(mlir::Operation *op);

} // namespace fusion

#endif // FUSION_DIALECT_FUSION_SHAPEUTILS_H
