//===- FoldNorms.cpp - Products of few rows take the norm before them -----===//
//
// The card's template for packed weights and few rows makes the RMS norm of its
// lhs, or of a sum of two tensors, within the launch (Kernels/LowBitMatmul.h).
// Which weights are packed is known only here, so the groups of such a norm and
// of the only product that reads it become one, where the template takes it.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "fusion/Kernels/LowBitMatmul.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fusion;

namespace {

/// The norm of a group that computes nothing else, but for the sum that is
/// normalised.
RmsNormOp getOnlyNorm(GroupOp group) {
  RmsNormOp norm;
  for (Operation &op : group.getBlock()->without_terminator()) {
    if (isa<AddOp>(op))
      continue;
    if (norm || !isa<RmsNormOp>(op))
      return nullptr;
    norm = cast<RmsNormOp>(op);
  }
  for (auto add : group.getBlock()->getOps<AddOp>())
    if (!norm || norm.getInput() != add.getResult())
      return nullptr;
  return norm;
}

/// The only use of a norm outside its group, as lhs of products; null: there is
/// none, or others.
OpOperand *getProductUse(GroupOp normGroup, RmsNormOp norm) {
  OpOperand *use = nullptr;
  for (auto [value, output] :
       llvm::zip(normGroup.getYield().getValues(), normGroup.getOutputs())) {
    if (value != norm.getResult())
      continue;
    if (use || !output.hasOneUse())
      return nullptr;
    use = &*output.use_begin();
  }
  if (!use)
    return nullptr;
  auto group = dyn_cast<GroupOp>(use->getOwner());
  if (!group || group.getKernelAttr().getFamily().getValue() != "matmul" ||
      !group.getKernelAttr().getParams().get(kernels::kFragmentsParam) ||
      group.getKernelAttr().getParams().get("numerics"))
    return nullptr;
  BlockArgument lhs = group.getBlock()->getArgument(use->getOperandNumber());
  bool onlyLhs = llvm::all_of(lhs.getUses(), [](OpOperand &in) {
    return isa<MatmulOp>(in.getOwner()) && in.getOperandNumber() == 0;
  });
  return onlyLhs ? use : nullptr;
}

/// Both groups as one, behind the product's. Operands of the product keep their
/// numbers: what is normalised takes the place of lhs.
GroupOp merge(GroupOp normGroup, RmsNormOp norm, GroupOp group,
              unsigned lhsNumber) {
  Block &old = *group.getBlock(), &before = *normGroup.getBlock();
  auto add = norm.getInput().getDefiningOp<AddOp>();
  Value source = add ? add.getLhs() : norm.getInput();
  auto first = cast<BlockArgument>(source).getArgNumber();

  SmallVector<Value> inputs(group.getInputs());
  inputs[lhsNumber] = normGroup.getInputs()[first];
  SmallVector<BlockArgument> others;
  for (BlockArgument argument : before.getArguments())
    if (argument.getArgNumber() != first) {
      inputs.push_back(normGroup.getInputs()[argument.getArgNumber()]);
      others.push_back(argument);
    }
  SmallVector<Type> types(group.getOutputs().getTypes());
  SmallVector<Value> sums;
  for (Value value : normGroup.getYield().getValues())
    if (value != norm.getResult()) {
      sums.push_back(value);
      types.push_back(value.getType());
    }

  OpBuilder builder(group->getContext());
  builder.setInsertionPointAfter(group);
  Location loc = builder.getFusedLoc({group.getLoc(), normGroup.getLoc()});
  auto merged = GroupOp::create(builder, loc, types, group.getKindAttr(),
                                inputs, group.getKernelAttr());
  merged->setDiscardableAttrs(group->getDiscardableAttrDictionary());
  Block &block = merged.getBody().emplaceBlock();
  IRMapping inNorm, inProduct;
  for (BlockArgument argument : old.getArguments())
    inProduct.map(argument,
                  block.addArgument(argument.getArgNumber() == lhsNumber
                                        ? source.getType()
                                        : argument.getType(),
                                    argument.getLoc()));
  inNorm.map(source, block.getArgument(lhsNumber));
  for (BlockArgument argument : others)
    inNorm.map(argument,
               block.addArgument(argument.getType(), argument.getLoc()));
  OpBuilder body = OpBuilder::atBlockEnd(&block);
  for (Operation &op : before.without_terminator())
    body.clone(op, inNorm);
  inProduct.map(old.getArgument(lhsNumber), inNorm.lookup(norm.getResult()));
  for (Operation &op : old.without_terminator())
    body.clone(op, inProduct);
  SmallVector<Value> yielded;
  for (Value value : group.getYield().getValues())
    yielded.push_back(inProduct.lookup(value));
  for (Value sum : sums)
    yielded.push_back(inNorm.lookup(sum));
  YieldOp::create(body, loc, yielded);
  return merged;
}

bool isTaken(GroupOp group) {
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(group.getLoc());
  KernelOp kernel = KernelTable(*scratch).bind(group).kernel;
  std::string reason;
  auto shape = kernels::getLowBitMatmul(kernel, /*mostResident=*/2, reason);
  return shape && shape->norm;
}

void fold(GroupOp normGroup) {
  RmsNormOp norm = getOnlyNorm(normGroup);
  if (!norm)
    return;
  auto add = norm.getInput().getDefiningOp<AddOp>();
  Value source = add ? add.getLhs() : norm.getInput();
  if (!isa<BlockArgument>(source) ||
      (add && (!isa<BlockArgument>(add.getRhs()) || add.getRhs() == source)))
    return;
  OpOperand *use = getProductUse(normGroup, norm);
  if (!use)
    return;
  auto group = cast<GroupOp>(use->getOwner());
  // Readers of the sum come after the product.
  for (Operation *user : normGroup->getUsers())
    if (user != group && user->isBeforeInBlock(group))
      return;
  GroupOp merged = merge(normGroup, norm, group, use->getOperandNumber());
  if (!isTaken(merged)) {
    merged.erase();
    return;
  }
  auto next = merged.getOutputs().begin();
  for (Value output : group.getOutputs())
    output.replaceAllUsesWith(*next++);
  for (auto [value, output] :
       llvm::zip(normGroup.getYield().getValues(), normGroup.getOutputs()))
    if (value != norm.getResult())
      output.replaceAllUsesWith(*next++);
  group.erase();
  normGroup.erase();
}

} // namespace

void fusion::foldNormsIntoProducts(func::FuncOp function) {
  SmallVector<GroupOp> groups;
  for (auto group : function.getOps<GroupOp>())
    if (group.getKernelAttr().getFamily().getValue() == "row_reduction")
      groups.push_back(group);
  for (GroupOp group : groups)
    fold(group);
}
