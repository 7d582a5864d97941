//===- Factors.h - Products, whatever their association ---------*- C++ -*-===//
//
// (x * w) * r, x * (r * w) and x / (s / w) are products of the same factors.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RAISE_FACTORS_H
#define FUSION_LIB_RAISE_FACTORS_H

#include "Matchers.h"

namespace fusion::raise {

struct Factor {
  mlir::Value value;
  bool inverse; ///< a divisor
};

/// The factors of `value`: what is no product, quotient or reciprocal of its
/// element type, or is a leaf by `isLeaf`.
llvm::SmallVector<Factor>
getFactors(mlir::Value value,
           llvm::function_ref<bool(mlir::Value)> isLeaf = nullptr);

/// `value` times the factors.
mlir::Value createProduct(mlir::OpBuilder &builder, mlir::Location loc,
                          mlir::Value value, llvm::ArrayRef<Factor> factors);

/// `value` times a number of its element type.
mlir::Value createMultiple(mlir::OpBuilder &builder, mlir::Location loc,
                           mlir::Value value, double factor);

/// Whether two factors meet in `root`: a product or quotient of which one
/// operand has the first and the other the second.
bool meetIn(mlir::Operation *root, mlir::Value a, mlir::Value b,
            llvm::function_ref<bool(mlir::Value)> isLeaf = nullptr);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_FACTORS_H
