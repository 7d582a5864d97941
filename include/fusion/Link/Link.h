//===- Link.h - Planned IR and machine code to an artifact ------*- C++ -*-===//

#ifndef FUSION_LINK_LINK_H
#define FUSION_LINK_LINK_H

#include "fusion/Dialect/Plan/PlanOps.h"
#include "fusion/Kernels/CompiledCode.h"

#include "mlir/IR/BuiltinOps.h"

namespace fusion {

struct LinkOptions {
  std::string producer; ///< version of the compiler
  std::string options;  ///< canonical text of what shaped the model
  std::string explain;  ///< the fusion report as JSON
};

/// What an artifact would hold besides code and weights: programs, launches,
/// kernels, symbols. Fails with a diagnostic when the module is not planned, or
/// when a launched kernel has no code in a host image.
mlir::FailureOr<artifact::Model>
buildArtifactModel(mlir::ModuleOp module,
                   llvm::ArrayRef<kernels::CompiledImage> images,
                   const LinkOptions &options);

/// Writes `path`. Weights are streamed from their files, never held in memory
/// as a whole. The file appears only when it is complete; equal modules, code
/// and options give equal bytes.
mlir::LogicalResult linkArtifact(mlir::ModuleOp module,
                                 llvm::ArrayRef<kernels::CompiledImage> images,
                                 llvm::StringRef path,
                                 const LinkOptions &options);

} // namespace fusion

#endif // FUSION_LINK_LINK_H
