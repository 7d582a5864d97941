//===- InitAll.h - Registration for the tools -------------------*- C++ -*-===//
//
// Every dialect, pass and pipeline of the project, for tools that take IR as
// text. Header only: it links what the including tool links.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_INITALL_H
#define FUSION_INITALL_H

#include "fusion/Codegen/Hopper.h"
#include "fusion/Codegen/Host.h"
#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Dialect/Plan/PlanOps.h"
#include "fusion/Eval/Eval.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/Plan/Passes.h"
#include "fusion/Raise/Decoder/Passes.h"
#include "fusion/Raise/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Transforms/Passes.h"

namespace fusion {

inline void registerAllDialects(mlir::DialectRegistry &registry) {
  registry.insert<FusionDialect, plan::PlanDialect, mlir::func::FuncDialect>();
  registerHostCodegenDialects(registry);
  registerHopperDialects(registry);
}

inline void registerAllPasses() {
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  mlir::registerSymbolDCEPass();
  registerHostCodegenPasses();
  eval::registerFoldConstantsPass();
  registerDecoderPasses();
  registerRaisePasses();
  registerRaisePipeline();
  registerFusePasses();
  registerPlanPasses();
  registerPlanPipeline();
  registerHopperPasses();
}

} // namespace fusion

#endif // FUSION_INITALL_H
