//===- Names.cpp - ONNX nodes behind launches and buffers -----------------===//

#include "Lowering.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::plan;

/// A site lists at most this many nodes.
static constexpr size_t kMostSiteNodes = 4;

std::string fusion::nameOf(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : llvm::reverse(fused.getLocations()))
      if (std::string name = nameOf(part); !name.empty())
        return name;
  return "";
}

std::string fusion::getSite(GroupOp group) {
  llvm::SmallSetVector<StringAttr, 8> nodes;
  for (Operation &op : group.getBlock()->without_terminator()) {
    std::string name = nameOf(op.getLoc());
    if (!name.empty())
      nodes.insert(StringAttr::get(op.getContext(), name));
  }
  SmallVector<StringRef> names;
  for (StringAttr node : nodes)
    names.push_back(node.getValue());
  if (names.size() <= kMostSiteNodes)
    return llvm::join(names, ", ");
  return (names.front() + ", .. " + std::to_string(names.size() - 2) +
          " more .., " + names.back())
      .str();
}

std::string fusion::getValueName(GroupOp group, unsigned index) {
  OperandRange values = group.getYield().getValues();
  std::string name = nameOf(values[index].getLoc());
  for (auto [i, other] : llvm::enumerate(values))
    if (i != index && nameOf(other.getLoc()) == name)
      return "";
  return name;
}

void fusion::dropForeignValues(ArrayRef<ProgramOp> programs) {
  llvm::StringMap<Type> types;
  for (ProgramOp program : programs)
    if (program.getSet())
      for (AllocOp alloc : program.getBody().getOps<AllocOp>())
        if (auto value = alloc.getValue())
          types[*value] = alloc.getTensor();
  if (types.empty())
    return;
  for (ProgramOp program : programs) {
    if (program.getSet())
      continue;
    SymbolMap fixed;
    if (auto values = program.getFixed())
      for (NamedAttribute value : *values)
        fixed[value.getName().str()] =
            SymExpr(cast<IntegerAttr>(value.getValue()).getInt());
    for (AllocOp alloc : program.getBody().getOps<AllocOp>()) {
      auto it = types.find(alloc.getValue().value_or(""));
      if (it == types.end() ||
          elementType(it->second) != elementType(alloc.getTensor()) ||
          numElements(it->second).substitute(fixed) !=
              numElements(alloc.getTensor()))
        alloc.removeValueAttr();
    }
  }
}
