//===- Hopper.h - Kernels for sm_90a ----------------------------*- C++ -*-===//
//
// From `fusion.kernel` to cubin. The launch of each kernel is described by
// kernels::getCardLaunch.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_CODEGEN_HOPPER_H
#define FUSION_CODEGEN_HOPPER_H

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Kernels/CardLaunch.h"
#include "fusion/Kernels/CompiledCode.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

namespace mlir::gpu {
class GPUModuleOp;
} // namespace mlir::gpu

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
  std::string skipped; ///< why there is no code for the card; empty: there is
  std::string ptx;
  std::vector<uint8_t> cubin; ///< empty when not assembled
  /// With what ptxas said of each stage, once assembled.
  kernels::CardLaunch launch;
  /// The row is read again for each reduction because keeping it in registers
  /// would have spilled.
  bool reread = false;
};

/// Dialects and interfaces that the code generator needs in the context.
void registerHopperDialects(mlir::DialectRegistry &registry);

/// Builds the kernel for the card at the end of `module`; null, with a reason,
/// when its family has no code for the card. `reread` keeps no row in
/// registers.
mlir::gpu::GPUModuleOp generateHopperKernel(KernelOp kernel,
                                            mlir::ModuleOp module, bool strict,
                                            bool reread, std::string &reason);

/// Compiles every `fusion.kernel` of `module`, in order. Kernels without code
/// for the card are reported as skipped, by a remark too. Fails when a kernel
/// that should compile does not, or when ptxas is missing.
mlir::FailureOr<std::vector<HopperKernel>>
compileHopperKernels(mlir::ModuleOp module, const HopperOptions &options);

/// The same as what Link takes: an image for each assembled kernel.
std::vector<kernels::CompiledImage>
toImages(const std::vector<HopperKernel> &kernels);

/// Passes and options of the code generator for fusion-opt.
void registerHopperPasses();

} // namespace fusion

#endif // FUSION_CODEGEN_HOPPER_H
