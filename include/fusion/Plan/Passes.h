//===- Passes.h - The plan phase --------------------------------*- C++ -*-===//
//
// Fused functions in, `plan.program`s out: what will be launched, over which
// memory.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_PLAN_PASSES_H
#define FUSION_PLAN_PASSES_H

#include "fusion/Dialect/Plan/PlanOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace fusion {

#define GEN_PASS_DECL
#include "fusion/Plan/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "fusion/Plan/Passes.h.inc"

struct PlanOptions {
  /// Stands for sizes without an upper end in the arena report.
  int64_t unbounded = 1024;
  /// Norms join products of few rows and packed weights.
  bool foldNorms = true;
};

void buildPlanPipeline(mlir::OpPassManager &pm, const PlanOptions &options);
/// `fusion-plan-pipeline`
void registerPlanPipeline();

} // namespace fusion

#endif // FUSION_PLAN_PASSES_H
