//===- Host.h - Native code of kernels for the host CPU ---------*- C++ -*-===//

#ifndef FUSION_CODEGEN_HOST_H
#define FUSION_CODEGEN_HOST_H

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Kernels/CompiledCode.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace fusion {

struct HostOptions {
  /// Round at every op as the ONNX graph does, not only where a group ends.
  bool strict = false;
  /// One image each.
  std::vector<artifact::KernelCode::Target> levels = {
      artifact::KernelCode::Target::HostV3,
      artifact::KernelCode::Target::HostV4};
};

/// Dialects and translations that the functions below need.
void registerHostCodegenDialects(mlir::DialectRegistry &registry);

/// Compiles every `fusion.kernel` of the module on all cores. The module's
/// context needs registerHostCodegenDialects().
mlir::FailureOr<std::vector<kernels::CompiledImage>>
compileHostKernels(mlir::ModuleOp module, const HostOptions &options = {});

/// The kernels as MLIR before it is lowered (--emit=kernel).
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
generateHostKernels(mlir::ModuleOp module, const HostOptions &options = {});

/// The kernels as optimised LLVM IR of the first level (--emit=llvm).
mlir::FailureOr<std::string> emitHostLLVM(mlir::ModuleOp module,
                                          const HostOptions &options = {});

/// Pass `fusion-generate-host`: replaces kernels by their functions.
void registerHostCodegenPasses();

} // namespace fusion

#endif // FUSION_CODEGEN_HOST_H
