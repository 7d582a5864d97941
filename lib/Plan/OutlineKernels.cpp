//===- OutlineKernels.cpp - Groups to kernels -----------------------------===//

#include "Lowering.h"
#include "fusion/Plan/Passes.h"

namespace fusion {
#define GEN_PASS_DEF_OUTLINEKERNELS
#include "fusion/Plan/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

namespace {

/// A kernel holds constants of at most this many elements; others are operands.
constexpr int64_t kMostInlineElements = 16;

/// Drops results that nothing uses, with the ops that only they need. A group
/// that appends to a session state keeps everything: its effect is the memory.
GroupOp dropUnusedResults(GroupOp group) {
  if (llvm::none_of(group.getOutputs(), [](Value v) { return v.use_empty(); }))
    return group;
  for (auto append : group.getBlock()->getOps<KvAppendOp>())
    if (hasStorage(append.getType()))
      return group;
  SmallVector<Value> kept, yielded;
  for (auto [output, value] :
       llvm::zip(group.getOutputs(), group.getYield().getValues()))
    if (!output.use_empty()) {
      kept.push_back(output);
      yielded.push_back(value);
    }
  if (kept.empty()) {
    group.erase();
    return nullptr;
  }
  OpBuilder builder(group);
  auto slim = GroupOp::create(
      builder, group.getLoc(), ValueRange(yielded).getTypes(),
      group.getKindAttr(), group.getInputs(), group.getKernelAttr());
  slim->setDiscardableAttrs(group->getDiscardableAttrDictionary());
  group.getYield()->setOperands(yielded);
  for (auto [old, output] : llvm::zip(kept, slim.getOutputs()))
    old.replaceAllUsesWith(output);
  slim.getBody().takeBody(group.getBody());
  group.erase();
  return slim;
}

void eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (!op.hasTrait<OpTrait::IsTerminator>() && op.use_empty())
      op.erase();
}

/// Large constants become inputs of the group, unused inputs disappear.
void settleInputs(GroupOp group) {
  Block &block = *group.getBlock();
  SmallVector<Value> inputs(group.getInputs());
  OpBuilder outside(group);
  for (auto constant :
       llvm::make_early_inc_range(block.getOps<fusion::ConstantOp>())) {
    if (constant.getType().getNumElements() <= kMostInlineElements ||
        isa<SplatElementsAttr>(constant.getValue()))
      continue;
    inputs.push_back(outside.clone(*constant)->getResult(0));
    constant.replaceAllUsesWith(
        block.addArgument(constant.getType(), constant.getLoc()));
    constant.erase();
  }
  for (unsigned i = block.getNumArguments(); i-- > 0;) {
    if (!block.getArgument(i).use_empty())
      continue;
    block.eraseArgument(i);
    inputs.erase(inputs.begin() + i);
  }
  group.getInputsMutable().assign(inputs);
}

/// Sizes as data that leave the function need a kernel that writes them.
void wrapShapeValues(func::FuncOp function) {
  for (auto value :
       llvm::make_early_inc_range(function.getOps<ShapeValueOp>())) {
    if (value.use_empty()) {
      value.erase();
      continue;
    }
    OpBuilder builder(value);
    auto config = KernelConfigAttr::get(builder.getContext(),
                                        builder.getStringAttr("pointwise"),
                                        builder.getDictionaryAttr({}));
    auto group = GroupOp::create(
        builder, value.getLoc(), TypeRange(value.getType()),
        builder.getStringAttr("shape_value"), ValueRange(), config);
    value.replaceAllUsesWith(group.getResult(0));
    Block &block = group.getBody().emplaceBlock();
    value->moveBefore(&block, block.end());
    OpBuilder body = OpBuilder::atBlockEnd(&block);
    YieldOp::create(body, value.getLoc(), value.getResult());
  }
}

/// Whether the launches of a function may overlap their predecessors: on a card
/// a step of few rows is so short that the gaps between kernels count. Blocks
/// that start early lie anywhere on the card, though: neighbours, which share
/// operands, no longer beside each other. That costs large products up to 4 %.
bool isProgrammatic(func::FuncOp function) {
  constexpr int64_t kFewRows = 64, kFewElements = 1 << 22;
  auto device = function->getAttrOfType<StringAttr>(FusionDialect::kDeviceAttr);
  if (!device || device.getValue() != "card")
    return false;
  if (auto bucket =
          function->getAttrOfType<DictionaryAttr>(FusionDialect::kBucketAttr)) {
    auto most = bucket.getAs<IntegerAttr>("max");
    if (most && most.getInt() <= kFewRows)
      return true;
  }
  // Sizes that are known, and small.
  return llvm::all_of(function.getOps<GroupOp>(), [](GroupOp group) {
    return llvm::all_of(group.getOutputs(), [](Value output) {
      auto elements = numElements(output.getType()).asConstant();
      return elements && *elements <= kFewElements;
    });
  });
}

/// Whether no kernel of the program writes the value.
bool isStepInvariant(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    return !function.getArgAttr(argument.getArgNumber(),
                                FusionDialect::kStateAttr);
  }
  return isa<fusion::WeightOp, fusion::ConstantOp>(value.getDefiningOp());
}

/// Tells the kernel to wait for its predecessor by itself, and what it may load
/// before that.
void makeProgrammatic(GroupOp group) {
  Builder builder(group.getContext());
  SmallVector<int64_t> invariant;
  for (auto [i, input] : llvm::enumerate(group.getInputs()))
    if (isStepInvariant(input))
      invariant.push_back(static_cast<int64_t>(i));
  KernelConfigAttr config = group.getKernelAttr();
  NamedAttrList params(config.getParams());
  params.set("programmatic", builder.getUnitAttr());
  if (!invariant.empty())
    params.set("step_invariant", builder.getDenseI64ArrayAttr(invariant));
  group.setKernelAttr(
      KernelConfigAttr::get(group.getContext(), config.getFamily(),
                            params.getDictionary(group.getContext())));
}

struct OutlineKernels final : fusion::impl::OutlineKernelsBase<OutlineKernels> {
  using OutlineKernelsBase::OutlineKernelsBase;

  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      wrapShapeValues(function);
      // Backwards, so that a group whose users have gone is seen as unused.
      SmallVector<GroupOp> groups(function.getOps<GroupOp>());
      for (GroupOp &group : llvm::reverse(groups)) {
        if (!group.getKernelAttr()) {
          group.emitOpError("expected a kernel family; run the fuse pipeline");
          return signalPassFailure();
        }
        group = dropUnusedResults(group);
        if (!group)
          continue;
        eraseDeadOps(*group.getBlock());
        settleInputs(group);
      }
    }
    packLowBitWeights(getOperation());
    if (foldNorms)
      for (auto function : getOperation().getOps<func::FuncOp>())
        foldNormsIntoProducts(function);
    KernelTable table(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (auto group : function.getOps<GroupOp>()) {
        if (isProgrammatic(function))
          makeProgrammatic(group);
        bind(table, group);
      }
  }

  void bind(KernelTable &table, GroupOp group) {
    KernelTable::Binding binding = table.bind(group);
    SmallVector<StringRef> sizes(binding.sizes.begin(), binding.sizes.end());
    group->setAttr(kKernelAttrName, FlatSymbolRefAttr::get(binding.kernel));
    group->setAttr(kSizesAttrName,
                   Builder(group.getContext()).getStrArrayAttr(sizes));
  }
};
} // namespace
