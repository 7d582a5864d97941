//===- VerifyFused.cpp - What Fuse promises to Plan -----------------------===//

#include "Families.h"

#include "fusion/Fuse/Passes.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::fuse;

namespace fusion {
#define GEN_PASS_DEF_VERIFYFUSED
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

static LogicalResult verifyGroup(GroupOp group) {
  if (!group.getKernelAttr())
    return group.emitOpError("expected a kernel family; run "
                             "fusion-form-groups");
  SmallVector<Operation *> ops;
  for (Operation &op : group.getBlock()->without_terminator()) {
    if (isSmallConstant(&op))
      continue;
    if (isConstant(&op))
      return group.emitOpError("holds a constant that should be an input, ")
             << op.getName();
    ops.push_back(&op);
  }
  Candidate candidate(ops);
  if (candidate.ops().size() != ops.size())
    return group.emitOpError("holds a contiguous reshape at its border");
  // Kernels of a card say how many rows they are for.
  auto rows =
      group.getKernelAttr().getParams().getAs<DenseI64ArrayAttr>("rows");
  Abilities abilities;
  abilities.foldsRow = rows && rows.asArrayRef().back() == 1;
  Form form = classify(candidate, abilities);
  if (!form.ok())
    return group.emitOpError("no kernel family executes it: ")
           << form.refusal->code << ", " << form.refusal->why;
  if (group.getKernelAttr().getFamily() != stringify(form.family))
    return group.emitOpError("expected family ")
           << stringify(form.family) << ", found "
           << group.getKernelAttr().getFamily().getValue();
  if (group.getOutputs().empty())
    return group.emitOpError("expected at least one output");
  return success();
}

static LogicalResult verifyFunction(func::FuncOp func) {
  if (!func->getAttrOfType<DictionaryAttr>(FusionDialect::kBucketAttr))
    return func.emitOpError("expected the attribute ")
           << FusionDialect::kBucketAttr;
  for (Operation &op : func.getBody().front().without_terminator()) {
    if (auto group = dyn_cast<GroupOp>(op)) {
      if (failed(verifyGroup(group)))
        return failure();
    } else if (!isConstant(&op) && !isAlias(&op)) {
      return op.emitOpError("expected to be in a fusion.group");
    }
  }
  return success();
}

namespace {
struct VerifyFusedPass final : fusion::impl::VerifyFusedBase<VerifyFusedPass> {
  using VerifyFusedBase::VerifyFusedBase;

  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isDeclaration() && failed(verifyFunction(func)))
        return signalPassFailure();
  }
};
} // namespace
