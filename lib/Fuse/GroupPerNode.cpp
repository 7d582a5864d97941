//===- GroupPerNode.cpp - The unfused form --------------------------------===//

#include "EmitGroups.h"

#include "fusion/Fuse/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::fuse;

namespace fusion {
#define GEN_PASS_DEF_GROUPPERNODE
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

namespace {
struct GroupPerNodePass final
    : fusion::impl::GroupPerNodeBase<GroupPerNodePass> {
  using GroupPerNodeBase::GroupPerNodeBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isDeclaration())
        emitGroups(func, plan(func), {});
  }

  /// Runs of neighbouring ops of one node; an op of another node in between
  /// ends a run, so that no cycle can arise.
  static std::vector<GroupPlan> plan(func::FuncOp func) {
    std::vector<GroupPlan> plans;
    Location last = func.getLoc();
    for (Operation &op : func.getBody().front().without_terminator()) {
      if (isConstant(&op))
        continue;
      bool named = isa<NameLoc>(op.getLoc());
      if (plans.empty() || !named || op.getLoc() != last)
        plans.emplace_back();
      plans.back().ops.push_back(&op);
      last = op.getLoc();
    }
    std::vector<GroupPlan> split;
    for (GroupPlan &p : plans)
      splitPlan(std::move(p), split);
    return split;
  }

  /// Keeps what one family can execute; else one group an op.
  static void splitPlan(GroupPlan plan, std::vector<GroupPlan> &result) {
    if (plan.ops.size() > 1 && !classify(Candidate(plan.ops)).ok()) {
      for (Operation *op : plan.ops) {
        GroupPlan single;
        single.ops.push_back(op);
        result.push_back(std::move(single));
      }
      return;
    }
    result.push_back(std::move(plan));
  }
};
} // namespace
