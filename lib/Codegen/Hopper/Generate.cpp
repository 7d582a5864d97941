//===- Generate.cpp - A fusion.kernel as a kernel of its family -----------===//

#include "fusion/Codegen/Hopper.h"

#include "KernelFunction.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::hopper;
using kernels::CardLaunch;

static void build(KernelFunction &f) {
  switch (f.launch.family) {
  case CardLaunch::Family::RowReduction:
    return buildRowReduction(f);
  case CardLaunch::Family::Skinny:
    return buildSkinny(f);
  case CardLaunch::Family::SkinnyTiles:
    return buildSkinnyTiles(f);
  case CardLaunch::Family::FewRows:
    return buildFewRows(f);
  case CardLaunch::Family::SimtMatmul:
    return buildSimtMatmul(f);
  case CardLaunch::Family::SimtAttention:
    return buildSimtAttention(f);
  case CardLaunch::Family::WgmmaMatmul:
    return buildWgmmaMatmul(f);
  case CardLaunch::Family::LowBitMatmul:
    return buildLowBitMatmul(f);
  case CardLaunch::Family::Pulled:
    return buildPulled(f);
  case CardLaunch::Family::AttentionDecode:
    return buildAttentionDecode(f);
  case CardLaunch::Family::AttentionPrefill:
    return buildAttentionPrefill(f);
  }
}

/// One way; null, with the reason, when its template does not fit the kernel.
static gpu::GPUModuleOp generateOne(KernelOp kernel, const CardLaunch &launch,
                                    ModuleOp module, bool strict,
                                    std::string &reason) {
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
    build(f);
    if (!f.group().failed() && f.failure.empty())
      continue;
    if (reason.empty())
      reason = f.failure;
    code.erase();
    return nullptr;
  }
  return code;
}

GeneratedKernel fusion::generateHopperKernel(KernelOp kernel, ModuleOp module,
                                             bool strict, unsigned firstWay) {
  GeneratedKernel result;
  std::vector<CardLaunch> ways = kernels::getCardLaunches(kernel);
  for (result.way = firstWay; result.way < ways.size(); ++result.way) {
    std::string reason;
    result.launch = ways[result.way];
    result.code = generateOne(kernel, result.launch, module, strict, reason);
    if (result.code)
      break;
    result.reason = reason;
  }
  return result;
}
