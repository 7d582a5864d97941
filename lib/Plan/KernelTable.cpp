//===- KernelTable.cpp - Equal groups, one kernel -------------------------===//

#include "KernelTable.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fusion;

static void appendNew(std::vector<std::string> &order,
                      const std::vector<std::string> &names) {
  for (const std::string &name : names)
    if (!llvm::is_contained(order, name))
      order.push_back(name);
}

static std::vector<std::string> symbolsOf(ArrayRef<SymExpr> exprs) {
  std::vector<std::string> order;
  for (const SymExpr &e : exprs)
    for (const std::string &name : e.symbols())
      appendNew(order, {name});
  return order;
}

static std::vector<std::string> symbolsOf(Attribute attr) {
  if (auto text = dyn_cast<StringAttr>(attr))
    return symbolsOf(ArrayRef(getExpr(text)));
  return symbolsOf(getExprs(cast<ArrayAttr>(attr)));
}

const std::vector<std::string> &KernelTable::getSymbols(Type type) {
  auto [it, inserted] = symbolsOfType.try_emplace(type);
  if (inserted) {
    std::vector<std::string> order = symbolsOf(getSymShape(type));
    appendNew(order, symbolsOf(getStorageShape(type)));
    it->second = std::move(order);
  }
  return it->second;
}

std::vector<std::string> KernelTable::getSymbols(GroupOp group) {
  std::vector<std::string> order;
  for (Type type : group.getInputs().getTypes())
    appendNew(order, getSymbols(type));
  for (Operation &op : *group.getBlock()) {
    for (Type type : op.getResultTypes())
      appendNew(order, getSymbols(type));
    for (StringRef name : getExprAttrNames(&op))
      appendNew(order, symbolsOf(op.getAttr(name)));
  }
  return order;
}

Type KernelTable::Renaming::rename(Type type) {
  auto [it, inserted] = types.try_emplace(type);
  if (inserted)
    it->second = substituteSymbols(type, map);
  return it->second;
}

/// The attributes of an op without those that do not change what it computes.
DictionaryAttr KernelTable::Renaming::rename(Operation *op) {
  DictionaryAttr all = op->getAttrDictionary();
  if (all.empty())
    return all;
  const void *name = op->getName().getAsOpaquePointer();
  auto [it, inserted] = attrs.try_emplace({all, name});
  if (!inserted)
    return it->second;
  SmallVector<StringRef> exprNames = getExprAttrNames(op);
  NamedAttrList kept;
  for (NamedAttribute entry : all) {
    if (entry.getName() == FusionDialect::kSitesAttr ||
        entry.getName() == FusionDialect::kNameAttr)
      continue;
    Attribute value = entry.getValue();
    if (llvm::is_contained(exprNames, entry.getName().strref())) {
      if (auto text = dyn_cast<StringAttr>(value)) {
        value = getExprAttr(op->getContext(), getExpr(text).substitute(map));
      } else {
        SymShape exprs = getExprs(cast<ArrayAttr>(value));
        for (SymExpr &e : exprs)
          e = e.substitute(map);
        value = getExprsAttr(op->getContext(), exprs);
      }
    }
    kept.append(entry.getName(), value);
  }
  return it->second = kept.getDictionary(op->getContext());
}

/// The body as a list of pointers: the family, then for each op its name,
/// operands (as numbers of values), attributes and result types.
KernelTable::Key KernelTable::getKey(GroupOp group, Renaming &renaming) {
  Key key;
  llvm::DenseMap<Value, uintptr_t> numbers;
  auto number = [&](Value value) {
    return reinterpret_cast<const void *>(
        numbers.try_emplace(value, numbers.size() + 1).first->second);
  };
  key.push_back(group.getKernelAttr().getAsOpaquePointer());
  for (BlockArgument argument : group.getBlock()->getArguments()) {
    number(argument);
    key.push_back(renaming.rename(argument.getType()).getAsOpaquePointer());
  }
  for (Operation &op : *group.getBlock()) {
    key.push_back(op.getName().getAsOpaquePointer());
    for (Value operand : op.getOperands())
      key.push_back(number(operand));
    key.push_back(renaming.rename(&op).getAsOpaquePointer());
    for (Value result : op.getResults()) {
      number(result);
      key.push_back(renaming.rename(result.getType()).getAsOpaquePointer());
    }
    key.push_back(nullptr); // ends the op
  }
  return key;
}

KernelOp KernelTable::insert(KernelOp kernel) {
  symbols.insert(kernel);
  return kernel;
}

KernelOp KernelTable::makeKernel(GroupOp group, const Renaming &renaming) {
  OpBuilder builder(group.getContext());
  unsigned number = counts[group.getKind()]++;
  auto kernel = KernelOp::create(
      builder, group.getLoc(), (group.getKind() + "_" + Twine(number)).str(),
      group.getKernelAttr(), static_cast<int64_t>(renaming.map.size()));
  IRMapping mapping;
  group.getBody().cloneInto(&kernel.getBody(), mapping);
  substituteSymbols(kernel, renaming.map);
  kernel.walk([](Operation *op) {
    op->removeAttr(FusionDialect::kSitesAttr);
    op->removeAttr(FusionDialect::kNameAttr);
  });
  return insert(kernel);
}

KernelTable::Binding KernelTable::bind(GroupOp group) {
  std::vector<std::string> order = getSymbols(group);
  Renaming &renaming = renamings[order];
  if (renaming.map.empty())
    for (auto [i, name] : llvm::enumerate(order))
      renaming.map[name] = SymExpr::symbol("d" + std::to_string(i));
  KernelOp &kernel = kernels[getKey(group, renaming)];
  if (!kernel)
    kernel = makeKernel(group, renaming);
  return {kernel, std::move(order)};
}

KernelOp KernelTable::getCopy(Type element) {
  KernelOp &kernel = copies[element];
  if (kernel)
    return kernel;
  OpBuilder builder(element.getContext());
  Location loc = builder.getUnknownLoc();
  auto config = KernelConfigAttr::get(element.getContext(),
                                      builder.getStringAttr("pointwise"),
                                      builder.getDictionaryAttr({}));
  kernel = KernelOp::create(builder, loc,
                            "copy_" + std::to_string(copies.size() - 1), config,
                            /*num_sizes=*/1);
  Block &block = kernel.getBody().emplaceBlock();
  Value argument =
      block.addArgument(getTensorType({SymExpr::symbol("d0")}, element), loc);
  OpBuilder body = OpBuilder::atBlockEnd(&block);
  YieldOp::create(body, loc, argument);
  return insert(kernel);
}
