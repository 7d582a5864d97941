//===- Generate.cpp - A fusion.kernel as a kernel of its family -----------===//

#include "fusion/Codegen/Hopper.h"

#include "KernelFunction.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::hopper;
using kernels::CardLaunch;

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
  KernelFunction f(kernel, launch, module, strict);
  if (launch.family == CardLaunch::Family::RowReduction)
    buildRowReduction(f, reread);
  else
    buildPointwise(f);
  if (!f.group().failed() && f.failure.empty())
    return f.module;
  if (reason.empty())
    reason = f.failure;
  f.module.erase();
  return nullptr;
}
