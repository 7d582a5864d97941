//===- Generate.cpp - A fusion.kernel as a kernel of its family -----------===//

#include "fusion/Codegen/Hopper.h"

#include "KernelFunction.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::hopper;
using kernels::CardLaunch;

static void build(KernelFunction &f, bool reread) {
  switch (f.launch.family) {
  case CardLaunch::Family::RowReduction:
    return buildRowReduction(f, reread);
  case CardLaunch::Family::Pointwise:
    return buildPointwise(f);
  case CardLaunch::Family::Unsupported:
    return f.fail(f.launch.reason);
  }
}

gpu::GPUModuleOp fusion::generateHopperKernel(KernelOp kernel, ModuleOp module,
                                              bool strict, bool reread,
                                              std::string &reason) {
  CardLaunch launch = kernels::getCardLaunch(kernel);
  if (launch.family == CardLaunch::Family::Unsupported) {
    reason = launch.reason;
    return nullptr;
  }
  // What the emitter of bodies cannot express is a reason, not an error.
  ScopedDiagnosticHandler handler(
      kernel.getContext(), [&](Diagnostic &diagnostic) {
        if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
          return failure();
        if (reason.empty())
          reason = diagnostic.str();
        return success();
      });
  gpu::GPUModuleOp code = createKernelModule(kernel, module);
  for (unsigned stage = 0; stage < launch.stages.size(); ++stage) {
    KernelFunction f(kernel, launch, stage, code, strict);
    build(f, reread);
    if (!f.group().failed() && f.failure.empty())
      continue;
    if (reason.empty())
      reason = f.failure;
    code.erase();
    return nullptr;
  }
  return code;
}
