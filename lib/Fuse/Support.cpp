//===- Support.cpp - Helpers of the Fuse phase ----------------------------===//

#include "Support.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::fuse;

static std::string findName(Location loc) {
  if (auto named = dyn_cast<NameLoc>(loc))
    return named.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location inner : fused.getLocations())
      if (std::string name = findName(inner); !name.empty())
        return name;
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return findName(call.getCallee());
  return "";
}

std::string fuse::nodeName(Location loc) {
  std::string name = findName(loc);
  if (!name.empty())
    return name;
  if (auto file = dyn_cast<FileLineColLoc>(loc))
    return "line " + std::to_string(file.getLine());
  return "unnamed";
}

std::vector<std::string> fuse::nodeNames(ArrayRef<Operation *> ops) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (Operation *op : ops)
    if (std::string name = nodeName(op->getLoc()); seen.insert(name).second)
      names.push_back(name);
  return names;
}

OpClass fuse::classOf(Operation *op) {
  auto fusable = dyn_cast_or_null<FusableOpInterface>(op);
  return fusable ? fusable.getOpClass() : OpClass::Opaque;
}

bool fuse::isAlias(Operation *op) {
  auto reshape = dyn_cast_or_null<ReshapeOp>(op);
  return reshape && !hasStorage(reshape.getInput().getType());
}

bool fuse::isConstant(Operation *op) {
  return op && classOf(op) == OpClass::Constant;
}

bool fuse::isSmallConstant(Operation *op) {
  if (isa_and_nonnull<ShapeValueOp>(op))
    return true;
  auto constant = dyn_cast_or_null<ConstantOp>(op);
  return constant && constant.getValue().getNumElements() <= 16;
}

Type fuse::spaceOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  Type bit = IntegerType::get(type.getContext(), 1);
  auto encoding = dyn_cast_or_null<ShapeAttr>(tensor.getEncoding());
  if (encoding && !encoding.getStorage().empty())
    return withElementType(type, bit);
  return RankedTensorType::get(tensor.getShape(), bit, tensor.getEncoding());
}

bool fuse::hasElementMaps(Operation *op) {
  auto fusable = dyn_cast<FusableOpInterface>(op);
  if (!fusable || fusable.getOpClass() != OpClass::Elementwise)
    return false;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    if (!fusable.getOperandMap(i))
      return false;
  return true;
}

ConstantValues::ConstantValues(Block &block) {
  for (Operation &op : block) {
    OpClass c = classOf(&op);
    bool derived =
        (c == OpClass::View || c == OpClass::Elementwise) &&
        op.getNumOperands() > 0 &&
        llvm::all_of(op.getOperands(), [&](Value v) { return contains(v); });
    if (c == OpClass::Constant || derived)
      known.insert(op.getResult(0));
  }
}
