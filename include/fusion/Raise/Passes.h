//===- Passes.h - Passes and pipeline of the Raise phase --------*- C++ -*-===//

#ifndef FUSION_RAISE_PASSES_H
#define FUSION_RAISE_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace fusion {

#define GEN_PASS_DECL
#include "fusion/Raise/Passes.h.inc"

struct RaiseOptions : mlir::PassPipelineOptions<RaiseOptions> {
  Option<bool> proveMasks{
      *this, "prove-masks",
      llvm::cl::desc("turn masks that are proven causal into attributes"),
      llvm::cl::init(true)};
};

/// Decomposed sub-graphs of an imported module -> semantic ops.
void buildRaisePipeline(mlir::OpPassManager &manager,
                        const RaiseOptions &options);

#define GEN_PASS_REGISTRATION
#include "fusion/Raise/Passes.h.inc"

/// Registers the pipeline `fusion-raise`.
void registerRaisePipeline();

} // namespace fusion

#endif // FUSION_RAISE_PASSES_H
