//===- PlanTesting.h - Planned modules for tests ----------------*- C++ -*-===//

#ifndef FUSION_TEST_UNIT_PLAN_PLANTESTING_H
#define FUSION_TEST_UNIT_PLAN_PLANTESTING_H

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Plan/Passes.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <string>

namespace fusion {

/// Parses fused IR and runs the plan pipeline.
class PlanTesting {
public:
  PlanTesting() {
    context.loadDialect<FusionDialect, plan::PlanDialect,
                        mlir::func::FuncDialect>();
  }

  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }
  bool plan(mlir::ModuleOp module) {
    mlir::PassManager manager(&context);
    buildPlanPipeline(manager, PlanOptions());
    return mlir::succeeded(manager.run(module));
  }

  mlir::MLIRContext context;
};

} // namespace fusion

#endif // FUSION_TEST_UNIT_PLAN_PLANTESTING_H
