//===- AnnotateLaunches.cpp - Hints that follow from the program ----------===//

#include "Lowering.h"

#include "fusion/Kernels/CardLaunch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::plan;
using artifact::CacheHint;
using artifact::Invariance;

/// Weights of a step with at most this many rows are read once and whole.
static constexpr int64_t kMostStreamingRows = 64;

static Invariance getInvariance(Operation *root,
                                const llvm::DenseSet<Value> &written) {
  if (isa<plan::WeightOp, plan::InputOp>(root))
    return Invariance::All;
  if (!isa<StateOp>(root))
    return Invariance::None;
  return written.contains(root->getResult(0)) ? Invariance::OlderRows
                                              : Invariance::All;
}

/// Whether the kernel waits for its predecessor by itself.
static bool isProgrammatic(LaunchOp launch, const SymbolTable &symbols) {
  auto kernel = symbols.lookup<KernelOp>(launch.getKernelAttr().getValue());
  return kernel && kernels::isProgrammatic(kernel);
}

void fusion::annotateLaunches(ProgramOp program, const SymbolTable &symbols) {
  llvm::DenseMap<Value, unsigned> reads;
  llvm::DenseSet<Value> written;
  for (LaunchOp launch : program.getBody().getOps<LaunchOp>()) {
    for (Value input : launch.getInputs())
      ++reads[input];
    for (Value output : launch.getOutputs())
      written.insert(resolveViews(output).first);
  }
  bool streaming = program.getMaxRows() <= kMostStreamingRows;
  bool decode = program.getMaxRows() == 1;
  bool first = true;
  for (LaunchOp launch : program.getBody().getOps<LaunchOp>()) {
    SmallVector<int32_t> hints, invariance;
    for (Value buffer : launch->getOperands()) {
      Operation *root = resolveViews(buffer).first.getDefiningOp();
      bool once = isa<plan::WeightOp>(root) && streaming && reads[buffer] == 1;
      hints.push_back(
          static_cast<int32_t>(once ? CacheHint::EvictFirst : CacheHint::None));
      invariance.push_back(static_cast<int32_t>(getInvariance(root, written)));
    }
    launch.setHints(hints);
    launch.setInvariance(invariance);
    launch.setChain(decode);
    // The first launch has a normal edge: nothing of this step precedes it.
    launch.setProgrammatic(!first && isProgrammatic(launch, symbols));
    first = false;
  }
}
