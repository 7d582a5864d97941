//===- Pipeline.cpp - The plan pipeline -----------------------------------===//

#include "fusion/Plan/Passes.h"

using namespace mlir;
using namespace fusion;

void fusion::buildPlanPipeline(OpPassManager &pm, const PlanOptions &options) {
  pm.addNestedPass<func::FuncOp>(createSplitAppends());
  OutlineKernelsOptions outline;
  outline.foldNorms = options.foldNorms;
  pm.addPass(createOutlineKernels(outline));
  pm.addPass(createLowerToLaunches());
  PlanMemoryOptions memory;
  memory.unbounded = options.unbounded;
  pm.addPass(createPlanMemory(memory));
  pm.addPass(createVerifyPlanned());
}

void fusion::registerPlanPipeline() {
  PassPipelineRegistration<>(
      "fusion-plan-pipeline", "fused functions to programs of launches",
      [](OpPassManager &pm) { buildPlanPipeline(pm, PlanOptions()); });
}
