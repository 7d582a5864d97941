//===- KernelReports.h - What is said of the card's kernels -----*- C++ -*-===//

#ifndef FUSION_TOOLS_FUSION_COMPILE_KERNELREPORTS_H
#define FUSION_TOOLS_FUSION_COMPILE_KERNELREPORTS_H

#include "fusion/Codegen/Hopper.h"
#include "fusion/Fuse/Report.h"

namespace fusion::compile {

/// Adds to `report` the kernels that each program of a planned module launches
/// on the card: template, tiles, resources, and the time predicted at the sizes
/// of the program's bucket.
void reportKernels(mlir::ModuleOp module, llvm::ArrayRef<HopperKernel> kernels,
                   FusionReport &report);

} // namespace fusion::compile

#endif // FUSION_TOOLS_FUSION_COMPILE_KERNELREPORTS_H
