//===- EmitGroups.h - Clusters become fusion.group --------------*- C++ -*-===//

#ifndef FUSION_LIB_FUSE_EMITGROUPS_H
#define FUSION_LIB_FUSE_EMITGROUPS_H

#include "Families.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fusion::fuse {

/// Ops that become one group (none, where only border reshapes are among them).
struct GroupPlan {
  llvm::SmallVector<mlir::Operation *> ops; ///< in block order
  std::string kind;                         ///< empty: from the hero
  std::vector<std::string> sites;           ///< sites that lie in it
};

/// What a group of this form is called where no site names it.
std::string defaultKind(const Candidate &candidate, const Form &form);

/// What every group's kernel is told.
struct EmitOptions {
  /// The code generators are to round as the model does.
  bool strict = false;
  /// Products and attention carry the token rows of their bucket (`rows`), so
  /// that a kernel can be chosen for them.
  bool withRows = false;
  Abilities abilities;
};

/// Rewrites a function whose ops are the plans' ops (in topological order) and
/// constants.
void emitGroups(mlir::func::FuncOp func, llvm::ArrayRef<GroupPlan> plans,
                EmitOptions options);

} // namespace fusion::fuse

#endif // FUSION_LIB_FUSE_EMITGROUPS_H
