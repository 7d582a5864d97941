//===- SplitAppends.cpp - The append leaves the attention group -----------===//

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Kernels/CardAttention.h"
#include "fusion/Plan/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace fusion {
#define GEN_PASS_DEF_SPLITAPPENDS
#include "fusion/Plan/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

namespace {

/// Ops of `block`, in order, that compute `roots` without looking behind the
/// values in `given`; and the values from outside that they read.
struct Slice {
  SmallVector<Operation *> ops;
  llvm::SetVector<Value> inputs;
};

Slice getSlice(Block &block, ValueRange roots,
               const llvm::SetVector<Value> &given) {
  llvm::DenseSet<Value> wanted(roots.begin(), roots.end());
  Slice slice;
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    bool used = llvm::any_of(op.getResults(), [&](Value result) {
      return wanted.contains(result) && !given.contains(result);
    });
    if (!used)
      continue;
    slice.ops.push_back(&op);
    wanted.insert(op.operand_begin(), op.operand_end());
  }
  std::reverse(slice.ops.begin(), slice.ops.end());
  for (BlockArgument argument : block.getArguments())
    if (wanted.contains(argument))
      slice.inputs.insert(argument);
  for (Value value : given)
    if (wanted.contains(value))
      slice.inputs.insert(value);
  return slice;
}

/// A group over `slice` that yields `results`; `outside` maps values of the
/// old body to values around the group.
GroupOp makeGroup(OpBuilder &builder, GroupOp old, const Slice &slice,
                  ValueRange results, const IRMapping &outside, StringAttr kind,
                  KernelConfigAttr config) {
  SmallVector<Value> inputs;
  for (Value value : slice.inputs)
    inputs.push_back(outside.lookup(value));
  auto group = GroupOp::create(builder, old.getLoc(), results.getTypes(), kind,
                               inputs, config);
  Block &block = group.getBody().emplaceBlock();
  IRMapping inside;
  for (Value value : slice.inputs)
    inside.map(value, block.addArgument(value.getType(), value.getLoc()));
  OpBuilder body = OpBuilder::atBlockEnd(&block);
  for (Operation *op : slice.ops)
    body.clone(*op, inside);
  SmallVector<Value> yielded;
  for (Value result : results)
    yielded.push_back(inside.lookup(result));
  YieldOp::create(body, old.getLoc(), yielded);
  return group;
}

void splitGroup(GroupOp group, ArrayRef<KvAppendOp> appends) {
  Block &block = *group.getBlock();
  OpBuilder builder(group);
  IRMapping outside;
  for (auto [argument, input] :
       llvm::zip(block.getArguments(), group.getInputs()))
    outside.map(argument, input);

  llvm::SetVector<Value> appended;
  for (KvAppendOp append : appends)
    appended.insert(append.getResult());
  auto config = KernelConfigAttr::get(builder.getContext(),
                                      builder.getStringAttr("append"),
                                      builder.getDictionaryAttr({}));
  GroupOp first = makeGroup(
      builder, group, getSlice(block, appended.getArrayRef(), {}),
      appended.getArrayRef(), outside, builder.getStringAttr("append"), config);
  for (auto [value, result] : llvm::zip(appended, first.getOutputs()))
    outside.map(value, result);

  SmallVector<Value> rest;
  for (Value value : group.getYield().getValues())
    if (!appended.contains(value))
      rest.push_back(value);
  GroupOp second =
      makeGroup(builder, group, getSlice(block, rest, appended), rest, outside,
                group.getKindAttr(), group.getKernelAttr());
  second->setDiscardableAttrs(group->getDiscardableAttrDictionary());

  auto next = second.getOutputs().begin();
  for (auto [value, output] :
       llvm::zip(group.getYield().getValues(), group.getOutputs()))
    output.replaceAllUsesWith(appended.contains(value) ? outside.lookup(value)
                                                       : Value(*next++));
  group.erase();
}

/// The same group with all that it appends among its results.
GroupOp yieldAppends(GroupOp group, ArrayRef<KvAppendOp> appends) {
  Block &block = *group.getBlock();
  llvm::SetVector<Value> results;
  results.insert(group.getYield().getValues().begin(),
                 group.getYield().getValues().end());
  for (KvAppendOp append : appends)
    results.insert(append.getResult());
  if (results.size() == group.getNumResults())
    return group;
  OpBuilder builder(group);
  IRMapping outside;
  for (auto [argument, input] :
       llvm::zip(block.getArguments(), group.getInputs()))
    outside.map(argument, input);
  GroupOp whole =
      makeGroup(builder, group, getSlice(block, results.getArrayRef(), {}),
                results.getArrayRef(), outside, group.getKindAttr(),
                group.getKernelAttr());
  whole->setDiscardableAttrs(group->getDiscardableAttrDictionary());
  for (auto [value, output] :
       llvm::zip(group.getYield().getValues(), group.getOutputs())) {
    auto *at = llvm::find(results, value);
    output.replaceAllUsesWith(whole.getOutputs()[at - results.begin()]);
  }
  group.erase();
  return whole;
}

struct SplitAppends final : fusion::impl::SplitAppendsBase<SplitAppends> {
  bool isForCard() {
    auto device =
        getOperation()->getAttrOfType<StringAttr>(FusionDialect::kDeviceAttr);
    return device && device.getValue() == "card";
  }

  void runOnOperation() override {
    SmallVector<GroupOp> groups(getOperation().getOps<GroupOp>());
    for (GroupOp group : groups) {
      SmallVector<KvAppendOp> appends(group.getBlock()->getOps<KvAppendOp>());
      bool attends = !group.getBlock()->getOps<AttentionOp>().empty();
      if (!attends || appends.empty())
        continue;
      // The card's decode attention appends to the caches itself.
      if (isForCard()) {
        group = yieldAppends(group, appends);
        std::string reason;
        if (kernels::getDecodeAttention(*group.getBlock(), reason))
          continue;
        appends = llvm::to_vector(group.getBlock()->getOps<KvAppendOp>());
      }
      splitGroup(group, appends);
    }
  }
};
} // namespace
