//===- Constants.cpp - Constants of a planned module ----------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace fusion;

/// The interpreter that Link evaluates with takes tensors up to this size.
static constexpr int64_t kMostEvaluatedElements = 1 << 22;

plan::ConstantOp ConstantPool::insert(StringRef name, Type type,
                                      Attribute value, StringRef layout) {
  OpBuilder builder(module.getContext());
  auto constant = plan::ConstantOp::create(
      builder, builder.getUnknownLoc(), name, name, type, value,
      FlatSymbolRefAttr(), IntegerAttr(), ArrayAttr(),
      layout.empty() ? StringAttr() : builder.getStringAttr(layout));
  symbols.insert(constant); // makes the symbol unique; the name stays
  return constant;
}

plan::ConstantOp ConstantPool::get(Value value, StringRef layout) {
  auto key = [&](Attribute bytes) -> Attribute {
    if (layout.empty())
      return bytes;
    return ArrayAttr::get(
        module.getContext(),
        {bytes, StringAttr::get(module.getContext(), layout)});
  };
  if (auto it = evaluated.find(value); it != evaluated.end())
    return it->second;
  Operation *op = value.getDefiningOp();
  if (auto weight = dyn_cast_or_null<fusion::WeightOp>(op)) {
    plan::ConstantOp &constant =
        known[{key(weight.getSource()), weight.getType()}];
    if (!constant)
      constant = insert(weight.getName(), weight.getType(), weight.getSource(),
                        layout);
    return constant;
  }
  if (auto small = dyn_cast_or_null<fusion::ConstantOp>(op)) {
    plan::ConstantOp &constant =
        known[{key(small.getValue()), small.getType()}];
    if (!constant)
      constant = insert("constant", small.getType(), small.getValue(), layout);
    return constant;
  }
  return nullptr;
}

static bool isEvaluable(GroupOp group) {
  for (Operation &op : group.getBlock()->without_terminator()) {
    auto fusable = dyn_cast<FusableOpInterface>(op);
    if (!fusable || !llvm::is_contained({OpClass::Constant,
                                         OpClass::Elementwise, OpClass::View,
                                         OpClass::Gather, OpClass::Reduction},
                                        fusable.getOpClass()))
      return false;
    for (Type type : op.getResultTypes()) {
      auto count = numElements(type).asConstant();
      if (!count || *count > kMostEvaluatedElements)
        return false;
    }
  }
  return true;
}

bool ConstantPool::evaluate(GroupOp group) {
  if (group.getInputs().empty() || !isEvaluable(group))
    return false;
  // A body that reads a size (an iota from the cached length) changes with it.
  auto name = group->getAttrOfType<FlatSymbolRefAttr>(kKernelAttrName);
  auto body = dyn_cast_or_null<KernelOp>(
      SymbolTable::lookupSymbolIn(module, name.getAttr()));
  if (!body || body.getNumSizes() != 0)
    return false;
  SmallVector<Attribute> sources;
  int64_t bytesIn = 0, bytesOut = 0;
  for (Value input : group.getInputs()) {
    plan::ConstantOp constant = get(input);
    auto count = numElements(input.getType()).asConstant();
    if (!constant || !count || *count > kMostEvaluatedElements)
      return false;
    // A reshaped constant would be another tensor to the kernel.
    if (constant.getTensor() != input.getType())
      return false;
    sources.push_back(FlatSymbolRefAttr::get(constant));
    bytesIn += *numBytes(input.getType()).asConstant();
  }
  for (Type type : group.getOutputs().getTypes())
    bytesOut += *numBytes(type).asConstant();
  if (bytesOut > 2 * bytesIn)
    return false;

  OpBuilder builder(module.getContext());
  auto kernel = group->getAttrOfType<FlatSymbolRefAttr>(kKernelAttrName);
  ArrayAttr sourcesAttr = builder.getArrayAttr(sources);
  for (auto [i, output] : llvm::enumerate(group.getOutputs())) {
    auto index = builder.getI64IntegerAttr(static_cast<int64_t>(i));
    Attribute identity = builder.getArrayAttr({kernel, index, sourcesAttr});
    plan::ConstantOp &constant = known[{identity, output.getType()}];
    if (!constant) {
      std::string name = "evaluated." + kernel.getValue().str();
      constant = plan::ConstantOp::create(builder, group.getLoc(), name, name,
                                          output.getType(), Attribute(), kernel,
                                          index, sourcesAttr, StringAttr());
      symbols.insert(constant);
    }
    evaluated[output] = constant;
  }
  return true;
}
