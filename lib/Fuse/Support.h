//===- Support.h - Helpers of the Fuse phase --------------------*- C++ -*-===//

#ifndef FUSION_LIB_FUSE_SUPPORT_H
#define FUSION_LIB_FUSE_SUPPORT_H

#include "fusion/Dialect/Fusion/FusionOps.h"

namespace fusion::fuse {

/// The name of the node that a location stands for: the first NameLoc in it.
std::string nodeName(mlir::Location loc);
/// The node names of ops, each once, in order.
std::vector<std::string> nodeNames(llvm::ArrayRef<mlir::Operation *> ops);

/// The class of an op; Opaque for ops without the interface.
OpClass classOf(mlir::Operation *op);

/// Whether the op is a reshape of a densely laid out tensor: the same memory.
bool isAlias(mlir::Operation *op);
/// A constant that is cloned into its users: at most 16 elements, or sizes.
bool isSmallConstant(mlir::Operation *op);
/// An op that lives outside groups for good: a constant.
bool isConstant(mlir::Operation *op);

/// Stands for a shape: equal for types of equal shapes, whatever the element.
mlir::Type spaceOf(mlir::Type type);
inline mlir::Type spaceOf(mlir::Value value) {
  return spaceOf(value.getType());
}

/// Whether every element of result 0 reads one element of each operand, found
/// by an affine map.
bool hasElementMaps(mlir::Operation *op);

/// Which values are computed from constants alone, by views and elementwise
/// arithmetic.
class ConstantValues {
public:
  explicit ConstantValues(mlir::Block &block);
  bool contains(mlir::Value value) const { return known.contains(value); }

private:
  llvm::DenseSet<mlir::Value> known;
};

} // namespace fusion::fuse

#endif // FUSION_LIB_FUSE_SUPPORT_H
