//===- KeptTypes.h - Which fp32 values stay fp32 ----------------*- C++ -*-===//

#ifndef FUSION_LIB_RAISE_KEPTTYPES_H
#define FUSION_LIB_RAISE_KEPTTYPES_H

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "llvm/ADT/DenseSet.h"

namespace fusion::raise {

/// Decides for each fp32 value of a block whether a 16-bit form of the model
/// keeps it in fp32.
///
/// Kept are: scalars; what is computed from integers and constants alone
/// (positions, angles, masks, `1 + w`); tables of rotations and biases of
/// attentions; statistics (reductions, what only they read, and what is
/// computed from them alone); what the model itself widened; scales of
/// quantised weights; caches that are inputs and outputs. All else are
/// activations and weights.
class KeptTypes {
public:
  explicit KeptTypes(mlir::Block &block);

  bool contains(mlir::Value value) const { return kept.contains(value); }
  /// A constant, or a view of one.
  bool isConstant(mlir::Value value) const { return constants.contains(value); }

private:
  void visit(mlir::Operation *op);
  bool isKept(mlir::Operation *op);
  bool isKeptArithmetic(mlir::Operation *op);
  bool isKeptProduct(MatmulOp op);
  bool isStatistic(mlir::Operation *op);
  /// Keeps what `value` is computed from, where that is light: no product, no
  /// attention, no norm. False when it is not.
  bool request(mlir::Value value);
  /// The same for the bias of an attention, or for the parts of it that are.
  void requestMask(mlir::Value bias);

  llvm::DenseSet<mlir::Value> kept, constants;
};

/// An fp32 tensor.
bool isF32(mlir::Value value);
/// A constant of one element.
bool isScalarConstant(mlir::Value value);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_KEPTTYPES_H
