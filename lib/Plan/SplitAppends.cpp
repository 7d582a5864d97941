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

/// A group as two: `first` computes the values `stored` of its body, `second`
/// the other results. Both lie before the old one, which is still used.
struct Split {
  GroupOp first, second;
  llvm::SetVector<Value> stored;
};

Split splitGroup(GroupOp group, const llvm::SetVector<Value> &stored,
                 StringRef family) {
  Block &block = *group.getBlock();
  OpBuilder builder(group);
  IRMapping outside;
  for (auto [argument, input] :
       llvm::zip(block.getArguments(), group.getInputs()))
    outside.map(argument, input);

  StringAttr kind = builder.getStringAttr(family);
  auto config = KernelConfigAttr::get(builder.getContext(), kind,
                                      builder.getDictionaryAttr({}));
  Split split;
  split.stored = stored;
  split.first =
      makeGroup(builder, group, getSlice(block, stored.getArrayRef(), {}),
                stored.getArrayRef(), outside, kind, config);
  for (auto [value, result] : llvm::zip(stored, split.first.getOutputs()))
    outside.map(value, result);

  SmallVector<Value> rest;
  for (Value value : group.getYield().getValues())
    if (!stored.contains(value))
      rest.push_back(value);
  split.second = makeGroup(builder, group, getSlice(block, rest, stored), rest,
                           outside, group.getKindAttr(), group.getKernelAttr());
  split.second->setDiscardableAttrs(group->getDiscardableAttrDictionary());
  return split;
}

/// The two groups take the place of the old one.
void replaceGroup(GroupOp group, Split &split) {
  auto next = split.second.getOutputs().begin();
  for (auto [value, output] :
       llvm::zip(group.getYield().getValues(), group.getOutputs())) {
    auto *at = llvm::find(split.stored, value);
    output.replaceAllUsesWith(
        at == split.stored.end()
            ? Value(*next++)
            : split.first.getOutputs()[at - split.stored.begin()]);
  }
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

/// The computed value that `value` is a view of; null when that is an argument.
Value getComputed(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<TransposeOp, ReshapeOp, ExpandOp, SliceOp>(op))
      return value;
    value = op->getOperand(0);
  }
  return {};
}

/// Keys and values that the group computes (rotates, say) are stored first,
/// where the card's fast templates, which copy blocks of them from memory, can
/// then take the attention.
void storeOperands(GroupOp group) {
  auto isFast = [](GroupOp g) {
    std::string reason;
    return kernels::getDecodeAttention(*g.getBlock(), reason) ||
           kernels::getPrefillAttention(*g.getBlock(), reason);
  };
  if (isFast(group))
    return;
  llvm::SetVector<Value> stored;
  for (auto attention : group.getBlock()->getOps<AttentionOp>())
    for (Value operand : {attention.getKey(), attention.getValue()})
      if (Value computed = getComputed(operand))
        stored.insert(computed);
  if (stored.empty())
    return;
  Split split = splitGroup(group, stored, "pointwise");
  if (isFast(split.second))
    return replaceGroup(group, split);
  split.second.erase();
  split.first.erase();
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
      if (attends && appends.empty() && isForCard())
        storeOperands(group);
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
      llvm::SetVector<Value> appended;
      for (KvAppendOp append : appends)
        appended.insert(append.getResult());
      Split split = splitGroup(group, appended, "append");
      replaceGroup(group, split);
    }
  }
};
} // namespace
