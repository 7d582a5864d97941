//===- Symbols.cpp - Replacing symbolic sizes in IR -----------------------===//

#include "fusion/Dialect/Fusion/Symbols.h"
#include "fusion/Dialect/Fusion/FusionOps.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace fusion;

SmallVector<StringRef> fusion::getExprAttrNames(Operation *op) {
  if (isa<SliceOp>(op))
    return {"starts"};
  if (isa<ShapeValueOp>(op))
    return {"values"};
  if (isa<IotaOp>(op))
    return {"start", "step"};
  if (isa<PadOp>(op))
    return {"low"};
  if (isa<TriluOp>(op))
    return {"k"};
  if (isa<AttentionOp>(op))
    return {"causal_offset"};
  return {};
}

Type fusion::substituteSymbols(Type type, const SymbolMap &map) {
  if (auto function = dyn_cast<FunctionType>(type)) {
    auto each = [&](TypeRange types) {
      SmallVector<Type> result;
      for (Type t : types)
        result.push_back(substituteSymbols(t, map));
      return result;
    };
    return FunctionType::get(type.getContext(), each(function.getInputs()),
                             each(function.getResults()));
  }
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !isa_and_nonnull<ShapeAttr>(tensor.getEncoding()))
    return type;
  auto replace = [&](SymShape shape) {
    for (SymExpr &e : shape)
      e = e.substitute(map);
    return shape;
  };
  SymShape storage;
  if (hasStorage(type))
    storage = replace(getStorageShape(type));
  return getTensorType(replace(getSymShape(type)), storage,
                       tensor.getElementType());
}

static Attribute substituteAttr(Attribute attr, const SymbolMap &map) {
  MLIRContext *context = attr.getContext();
  if (auto text = dyn_cast<StringAttr>(attr))
    return getExprAttr(context, getExpr(text).substitute(map));
  SymShape exprs = getExprs(cast<ArrayAttr>(attr));
  for (SymExpr &e : exprs)
    e = e.substitute(map);
  return getExprsAttr(context, exprs);
}

void fusion::substituteSymbols(Operation *root, const SymbolMap &map) {
  // The types of one module are few; each is rewritten once.
  llvm::DenseMap<Type, Type> memo;
  auto replace = [&](Type type) {
    auto [it, inserted] = memo.try_emplace(type);
    if (inserted)
      it->second = substituteSymbols(type, map);
    return it->second;
  };
  root->walk([&](Operation *op) {
    for (Value result : op->getResults())
      result.setType(replace(result.getType()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          argument.setType(replace(argument.getType()));
    if (auto function = dyn_cast<FunctionOpInterface>(op))
      function.setType(replace(function.getFunctionType()));
    for (StringRef name : getExprAttrNames(op))
      op->setAttr(name, substituteAttr(op->getAttr(name), map));
  });
}

namespace {
/// Symbols in the order in which they are first seen.
struct Collector {
  std::vector<std::string> order;
  std::set<std::string> seen;
  llvm::DenseSet<Type> types;

  void add(const SymExpr &expr) {
    for (const std::string &name : expr.symbols())
      if (seen.insert(name).second)
        order.push_back(name);
  }
  void add(Type type) {
    if (!isa<RankedTensorType>(type) || !types.insert(type).second)
      return;
    for (const SymExpr &e : getSymShape(type))
      add(e);
    for (const SymExpr &e : getStorageShape(type))
      add(e);
  }
  void add(Attribute attr) {
    if (auto text = dyn_cast<StringAttr>(attr))
      return add(getExpr(text));
    for (const SymExpr &e : getExprs(cast<ArrayAttr>(attr)))
      add(e);
  }
};
} // namespace

std::vector<std::string> fusion::collectSymbols(Operation *root) {
  Collector collector;
  root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (Type type : block.getArgumentTypes())
          collector.add(type);
    for (Type type : op->getResultTypes())
      collector.add(type);
    for (StringRef name : getExprAttrNames(op))
      collector.add(op->getAttr(name));
  });
  return collector.order;
}
