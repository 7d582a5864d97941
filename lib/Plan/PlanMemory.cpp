//===- PlanMemory.cpp - Live ranges and the arena's size ------------------===//

#include "fusion/Plan/Arena.h"
#include "fusion/Plan/Passes.h"

namespace fusion {
#define GEN_PASS_DEF_PLANMEMORY
#include "fusion/Plan/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;
using namespace fusion::plan;

namespace {
struct PlanMemory final : fusion::impl::PlanMemoryBase<PlanMemory> {
  using PlanMemoryBase::PlanMemoryBase;

  void runOnOperation() override {
    auto models = getOperation().getOps<ModelOp>();
    if (models.empty()) {
      getOperation().emitError("expected a plan.model; run "
                               "fusion-lower-to-launches");
      return signalPassFailure();
    }
    for (ProgramOp program : getOperation().getOps<ProgramOp>())
      planMemory(*models.begin(), program);
  }

  void planMemory(ModelOp model, ProgramOp program) {
    llvm::DenseMap<Operation *, LiveRange> ranges = getLiveRanges(program);
    SmallVector<AllocOp> allocs(program.getBody().getOps<AllocOp>());
    for (AllocOp alloc : allocs) {
      auto range = ranges.find(alloc);
      if (range != ranges.end()) {
        alloc.setFirst(range->second.first);
        alloc.setLast(range->second.last);
      } else if (alloc.getBuffer().use_empty()) {
        alloc.erase();
      }
    }
    auto sizes = getUpperSizes(model, program, unbounded);
    if (auto report = getArenaReport(program, sizes))
      program.setArena(ArrayRef<int64_t>{static_cast<int64_t>(report->bytes),
                                         static_cast<int64_t>(report->bound)});
  }
};
} // namespace
