//===- HostLaunch.h - How a host kernel is launched -------------*- C++ -*-===//
//
// Grid, grain and scratch of a kernel on the host CPU: pure functions of the
// kernel's body and configuration, shared by Plan (which writes them into the
// launch) and Codegen/Host (whose code relies on them).
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_KERNELS_HOSTLAUNCH_H
#define FUSION_KERNELS_HOSTLAUNCH_H

#include "fusion/Dialect/Fusion/FusionOps.h"

namespace fusion::kernels {

/// Expressions over the kernel's own sizes d0, d1, ...
struct HostLaunch {
  SymExpr grid = 1;         ///< work items; the runtime splits [0, grid)
  SymExpr grain = 1;        ///< least number of items worth a worker
  SymExpr scratchBytes = 0; ///< scratch of each worker
};

HostLaunch getHostLaunch(KernelOp kernel);

} // namespace fusion::kernels

#endif // FUSION_KERNELS_HOSTLAUNCH_H
