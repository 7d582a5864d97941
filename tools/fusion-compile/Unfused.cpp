//===- Unfused.cpp - The form that --verify compares with -----------------===//
//
// With --verify the artifact also holds the graph as it was imported, one
// kernel an ONNX node: a program of the set "unfused" over the same weights.
// `fusion-run --verify` runs both and compares the values that both name.
//
//===----------------------------------------------------------------------===//

#include "Driver.h"

#include "fusion/Fuse/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::compile;

void Driver::keepUnfused() {
  if (options.verify)
    unfused = cast<ModuleOp>(module->getOperation()->clone());
}

bool Driver::addUnfused() {
  FuseOptions fuse;
  fuse.device = options.card ? "h200" : "host";
  fuse.disabled = {"all"};
  PassManager manager(&context);
  addComputeType(manager);
  buildFusePipeline(manager, fuse);
  if (failed(manager.run(*unfused)))
    return false;
  for (auto function :
       llvm::make_early_inc_range(unfused->getOps<func::FuncOp>())) {
    function->remove();
    function.setName("unfused");
    function->setAttr("fusion.set", StringAttr::get(&context, "unfused"));
    module->push_back(function);
  }
  unfused = nullptr;
  return true;
}
