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

/// Rewrites a function whose ops are the plans' ops (in topological order) and
/// constants. `strict` asks the code generators to round as the model does.
void emitGroups(mlir::func::FuncOp func, llvm::ArrayRef<GroupPlan> plans,
                bool strict);

} // namespace fusion::fuse

#endif // FUSION_LIB_FUSE_EMITGROUPS_H
