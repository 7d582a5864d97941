//===- HostPasses.cpp - Host code generation as a pass
//------------------------===//

#include "fusion/Codegen/Host.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace fusion;

namespace fusion {
#define GEN_PASS_DECL_GENERATEHOST
#define GEN_PASS_DEF_GENERATEHOST
#include "fusion/Codegen/HostPasses.h.inc"
} // namespace fusion

namespace {
struct GenerateHost final : fusion::impl::GenerateHostBase<GenerateHost> {
  using GenerateHostBase::GenerateHostBase;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    HostOptions options;
    options.strict = strict;
    auto functions = generateHostKernels(module, options);
    if (failed(functions))
      return signalPassFailure();
    for (KernelOp kernel :
         llvm::make_early_inc_range(module.getOps<KernelOp>()))
      kernel.erase();
    for (Operation &op :
         llvm::make_early_inc_range(*functions->get().getBody()))
      op.moveBefore(module.getBody(), module.getBody()->end());
  }
};
} // namespace

void fusion::registerHostCodegenPasses() { PassRegistration<GenerateHost>(); }
