//===- Parts.cpp - Building parts of values -------------------------------===//

#include "Parts.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

Value raise::createPart(OpBuilder &builder, Location loc, const Part &part) {
  bool isWhole = part.sizes == getSymShape(part.base);
  for (auto [start, step] : llvm::zip(part.starts, part.steps))
    isWhole &= start == SymExpr(0) && step == 1;
  if (isWhole)
    return part.base;
  return SliceOp::create(
      builder, loc, getTensorType(part.sizes, elementType(part.base)),
      part.base, getExprsAttr(builder.getContext(), part.starts), part.steps);
}

std::optional<std::pair<Value, Value>> raise::getHalves(Value value) {
  auto concat = value.getDefiningOp<ConcatOp>();
  if (!concat || concat.getInputs().size() != 2 ||
      concat.getAxis() + 1 !=
          static_cast<int64_t>(getSymShape(concat.getResult()).size()))
    return std::nullopt;
  Value a = concat.getInputs()[0], b = concat.getInputs()[1];
  if (lastSize(a) < 1 || lastSize(a) != lastSize(b))
    return std::nullopt;
  return std::make_pair(a, b);
}

/// x where `value` is reshape(x) that adds a last axis of size 1, else itself.
static Value dropLastUnit(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (!reshape)
    return value;
  SymShape shape = getSymShape(value);
  if (!shape.empty() && ArrayRef(shape).drop_back(1) ==
                            ArrayRef<SymExpr>(getSymShape(reshape.getInput())))
    return reshape.getInput();
  return value;
}

std::optional<std::pair<Value, Value>> raise::getStacked(Value value) {
  auto halves = getHalves(value);
  if (!halves || lastSize(halves->first) != 1)
    return std::nullopt;
  return std::make_pair(dropLastUnit(halves->first),
                        dropLastUnit(halves->second));
}

std::optional<std::pair<Value, Value>> raise::getInterleaved(Value value) {
  auto reshape = value.getDefiningOp<ReshapeOp>();
  auto pieces = reshape ? getStacked(reshape.getInput()) : std::nullopt;
  if (!pieces)
    return std::nullopt;
  SymShape pairs = getSymShape(reshape.getInput()), flat = getSymShape(value);
  if (pairs.size() != flat.size() + 1 ||
      ArrayRef(pairs).drop_back(2) != ArrayRef(flat).drop_back(1))
    return std::nullopt;
  return pieces;
}
