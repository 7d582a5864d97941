//===- Text.cpp - Card kernels for people to read -------------------------===//

#include "fusion/Codegen/Hopper.h"

#include "Serialize.h"

using namespace mlir;
using namespace fusion;

FailureOr<OwningOpRef<ModuleOp>>
fusion::generateHopperKernels(ModuleOp module, const HopperOptions &options) {
  OwningOpRef<ModuleOp> result(ModuleOp::create(module.getLoc()));
  for (KernelOp op : module.getOps<KernelOp>()) {
    GeneratedKernel kernel = generateHopperKernel(op, *result, options.strict);
    if (!kernel.code)
      return op.emitError("kernel @")
             << op.getSymName() << " has no code for sm_90a: " << kernel.reason;
  }
  return result;
}

FailureOr<std::string> fusion::emitHopperLLVM(ModuleOp module,
                                              const HopperOptions &options) {
  auto kernels = generateHopperKernels(module, options);
  if (failed(kernels))
    return failure();
  std::string text;
  for (auto kernel : (*kernels)->getOps<gpu::GPUModuleOp>()) {
    if (failed(hopper::lowerToLLVM(kernel)))
      return failure();
    auto code = hopper::translateToLLVM(kernel);
    if (failed(code))
      return failure();
    text += *code;
  }
  return text;
}
