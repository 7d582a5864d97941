//===- Families.h - What one kernel can execute -----------------*- C++ -*-===//
//
// Legality of a group, apart from cycles: which kernel family executes a set
// of ops, or why none does.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_FUSE_FAMILIES_H
#define FUSION_LIB_FUSE_FAMILIES_H

#include "Support.h"

#include "llvm/ADT/SetVector.h"

namespace fusion::fuse {

enum class Family {
  Pointwise,    ///< all outputs over one iteration space, elements pulled
  RowReduction, ///< reductions and pointwise work over the same rows
  Matmul,       ///< one product, or two of one lhs, with pro- and epilogue
  Attention,    ///< attention with rotations, appends and views around it
  Append,       ///< one append
  Sequential,   ///< one op, one worker
};
llvm::StringRef stringify(Family family);

/// Why ops cannot be one kernel: a stable code and a text for people.
struct Refusal {
  llvm::StringRef code;
  std::string why;
};

/// Ops that may become one group, with what enters and leaves it. Reshapes of
/// dense tensors at the border are left out: they are free outside.
class Candidate {
public:
  /// `ops` in block order.
  explicit Candidate(llvm::ArrayRef<mlir::Operation *> ops);

  llvm::ArrayRef<mlir::Operation *> ops() const { return core; }
  bool contains(mlir::Operation *op) const { return members.contains(op); }
  /// Values from outside, each once; small constants are not among them.
  llvm::ArrayRef<mlir::Value> inputs() const { return entering; }
  /// Values that are needed outside.
  llvm::ArrayRef<mlir::Value> outputs() const { return leaving; }
  /// Border reshapes, to be placed before and behind the group.
  llvm::ArrayRef<mlir::Operation *> before() const { return aliasesBefore; }
  llvm::ArrayRef<mlir::Operation *> behind() const { return aliasesBehind; }

private:
  void stripBorder(llvm::ArrayRef<mlir::Operation *> ops);

  llvm::SmallVector<mlir::Operation *> core, aliasesBefore, aliasesBehind;
  llvm::DenseSet<mlir::Operation *> members;
  llvm::SmallVector<mlir::Value> entering, leaving;
};

/// What kernels of a device can do in a bucket beyond what all can.
struct Abilities {
  /// Products of one row compute what comes before them on the way, and any
  /// number of products of one lhs is one kernel.
  bool foldsRow = false;
};

/// The family, or the reason why there is none.
struct Form {
  Family family = Family::Pointwise;
  mlir::Operation *hero = nullptr; ///< null without one
  std::optional<Refusal> refusal = std::nullopt;
  bool ok() const { return !refusal; }
};
Form classify(const Candidate &candidate, Abilities abilities = {});

} // namespace fusion::fuse

#endif // FUSION_LIB_FUSE_FAMILIES_H
