//===- Sites.h - Where known patterns may fuse ------------------*- C++ -*-===//

#ifndef FUSION_LIB_FUSE_SITES_H
#define FUSION_LIB_FUSE_SITES_H

#include "Support.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fusion::fuse {

/// One place in a function where a known pattern may fuse.
struct Site {
  std::string kind;                         ///< one of siteKinds()
  std::string node;                         ///< the node that names it
  llvm::SmallVector<mlir::Operation *> ops; ///< in block order
  std::string id() const { return kind + ":" + node; }
};

/// All sites of a function, in the order in which they are tried.
std::vector<Site> findSites(mlir::func::FuncOp func);
/// Those that `fusion.sites` names, in the same order.
std::vector<Site> readSites(mlir::func::FuncOp func);

} // namespace fusion::fuse

#endif // FUSION_LIB_FUSE_SITES_H
