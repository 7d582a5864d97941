//===- Pipeline.cpp - The Fuse phase --------------------------------------===//

#include "fusion/Fuse/Passes.h"
#include "fusion/Target/Device.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/GlobPattern.h"

using namespace mlir;
using namespace fusion;

namespace fusion {
#define GEN_PASS_REGISTRATION
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

namespace {
struct FusePipelineOptions : PassPipelineOptions<FusePipelineOptions> {
  Option<std::string> device{*this, "device",
                             llvm::cl::desc("h100, h200 or host"),
                             llvm::cl::init("host")};
  ListOption<std::string> disable{*this, "disable",
                                  llvm::cl::desc("KIND or KIND@NODE, or all")};
  Option<std::string> numerics{*this, "numerics",
                               llvm::cl::desc("strict or default"),
                               llvm::cl::init("default")};
  Option<int64_t> fuel{*this, "fuel", llvm::cl::desc("number of fusions"),
                       llvm::cl::init(-1)};
  Option<std::string> measured{*this, "measured",
                               llvm::cl::desc("profile of a run"),
                               llvm::cl::init("")};
  Option<std::string> explain{*this, "explain",
                              llvm::cl::desc("summary, text or json"),
                              llvm::cl::init("")};
};
} // namespace

bool FuseOptions::disablesAll() const {
  return llvm::is_contained(disabled, "all");
}

static std::string join(ArrayRef<StringRef> names) {
  return llvm::join(names, ", ");
}

std::string FuseOptions::check() const {
  if (!target::findDevice(device))
    return "unknown device '" + device + "', expected one of " +
           llvm::join(target::deviceNames(), ", ");
  for (StringRef text : disabled) {
    auto [kind, node] = text.split('@');
    bool site = llvm::is_contained(siteKinds(), kind);
    bool rule = llvm::is_contained(ruleKinds(), kind) || kind == "all";
    if (!site && !(rule && node.empty()))
      return ("cannot disable '" + text + "', expected all, one of " +
              join(ruleKinds()) + ", or KIND or KIND@NODE with KIND one of " +
              join(siteKinds()))
          .str();
    auto glob = llvm::GlobPattern::create(node);
    if (!glob) {
      llvm::consumeError(glob.takeError());
      return ("'" + node + "' is no pattern of node names").str();
    }
  }
  return "";
}

static void build(OpPassManager &pm, const FuseOptions &options,
                  std::unique_ptr<Pass> formGroups) {
  CloneBucketsOptions buckets;
  buckets.device = options.device;
  buckets.single = options.disablesAll();
  pm.addPass(createCloneBuckets(buckets));
  if (options.disablesAll()) {
    pm.addPass(createGroupPerNode());
    pm.addPass(createVerifyFused());
    return;
  }
  pm.addPass(createCSEPass());
  pm.nest<func::FuncOp>().addPass(createCloneFreeOps());
  pm.addPass(createMarkSites());
  pm.addPass(std::move(formGroups));
  pm.addPass(createCSEPass());
  pm.addPass(createVerifyFused());
}

void fusion::buildFusePipeline(OpPassManager &pm, const FuseOptions &options) {
  build(pm, options, createFormGroups(options));
}

void fusion::registerFusePasses() {
  registerFuseTablePasses();
  PassPipelineRegistration<FusePipelineOptions>(
      "fusion-fuse", "groups for every bucket of token rows",
      [](OpPassManager &pm, const FusePipelineOptions &given) {
        FuseOptions options;
        options.device = given.device;
        options.disabled.assign(given.disable.begin(), given.disable.end());
        FormGroupsOptions form;
        form.device = options.device;
        for (const std::string &text : options.disabled)
          form.disable.push_back(text);
        form.numerics = given.numerics;
        form.fuel = given.fuel;
        form.explain = given.explain;
        form.measured = given.measured;
        build(pm, options, createFormGroups(form));
      });
}
