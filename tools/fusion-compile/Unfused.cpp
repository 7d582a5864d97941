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

bool Driver::addUnfusedFor(ModuleOp source, StringRef target) {
  FuseOptions fuse;
  fuse.device = target == "card" ? "h200" : "host";
  fuse.disabled = {"all"};
  PassManager manager(&context);
  addSession(manager);
  addComputeType(manager);
  addWeightLayout(manager);
  buildFusePipeline(manager, fuse);
  if (failed(manager.run(source)))
    return false;
  for (auto function : source.getOps<func::FuncOp>()) {
    function.setName("unfused");
    function->setAttr("fusion.set", StringAttr::get(&context, "unfused"));
  }
  if (target == "card")
    markCard(source, options.host);
  takeFunctions(source);
  return true;
}

bool Driver::addUnfused() {
  OwningOpRef<ModuleOp> card;
  if (options.card)
    card = options.host ? cast<ModuleOp>(unfused->getOperation()->clone())
                        : std::move(unfused);
  bool ok = !options.host || addUnfusedFor(*unfused, "host");
  ok = ok && (!options.card || addUnfusedFor(*card, "card"));
  unfused = nullptr;
  return ok;
}
