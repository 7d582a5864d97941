//===- Hopper.h - Kernels for sm_90a ----------------------------*- C++ -*-===//
//
// From `fusion.kernel` to cubin. How a kernel can run is described by
// kernels::getCardLaunches.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_CODEGEN_HOPPER_H
#define FUSION_CODEGEN_HOPPER_H

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Kernels/CardLaunch.h"
#include "fusion/Kernels/CompiledCode.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/OwningOpRef.h"

namespace fusion {

struct HopperOptions {
  bool strict = false;  ///< round where the ONNX graph rounds
  bool assemble = true; ///< run ptxas; else stop at PTX
  std::string ptxas;    ///< its path; empty: searched for
  unsigned threads = 0; ///< ptxas processes at a time; 0: one a core
};

/// What became of one kernel.
struct HopperKernel {
  std::string name;
  std::string ptx;
  std::vector<uint8_t> cubin; ///< empty when not assembled
  /// With what ptxas said of each stage, once assembled.
  kernels::CardLaunch launch;
  unsigned way = 0;       ///< index of `launch` in kernels::getCardLaunches
  std::string passedOver; ///< why the way before that one is not taken
};

/// Dialects and interfaces that the code generator needs in the context.
void registerHopperDialects(mlir::DialectRegistry &registry);

/// A kernel written for the card.
struct GeneratedKernel {
  mlir::gpu::GPUModuleOp code; ///< null when no way fits
  kernels::CardLaunch launch;
  unsigned way = 0;   ///< its index in kernels::getCardLaunches
  std::string reason; ///< why the last way that was given up does not fit
};
/// Builds the kernel at the end of `module`, in the first way from `firstWay`
/// on whose template fits.
GeneratedKernel generateHopperKernel(KernelOp kernel, mlir::ModuleOp module,
                                     bool strict, unsigned firstWay = 0);

/// Every `fusion.kernel` of `module`, in order, as it is before lowering.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
generateHopperKernels(mlir::ModuleOp module, const HopperOptions &options);
/// The same as LLVM IR, optimised.
mlir::FailureOr<std::string> emitHopperLLVM(mlir::ModuleOp module,
                                            const HopperOptions &options);

/// Compiles every `fusion.kernel` of `module`, in order. A way that spills is
/// given up for the next one. Fails when a kernel compiles in no way, or when
/// ptxas is missing.
mlir::FailureOr<std::vector<HopperKernel>>
compileHopperKernels(mlir::ModuleOp module, const HopperOptions &options);

/// The same as what Link takes: an image for each assembled kernel.
std::vector<kernels::CompiledImage>
toImages(const std::vector<HopperKernel> &kernels);

/// Passes and options of the code generator for fusion-opt.
void registerHopperPasses();

} // namespace fusion

#endif // FUSION_CODEGEN_HOPPER_H
