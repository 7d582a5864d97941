//===- RopeBuild.cpp - The tables of a rotation ---------------------------===//
//
// x * cos + rotate(x) * sin, where rotate(x) has other signs than the op's
// (-b, a), is a rotation by sines of other signs.
//
//===----------------------------------------------------------------------===//

#include "Parts.h"
#include "Rope.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// The sign of element i of a table that is as wide as the rotation.
static int signOf(const RopeMatch &match, int64_t i, int64_t width) {
  bool second = match.interleaved ? i % 2 : i >= width / 2;
  return second ? match.secondSign : match.firstSign;
}

/// The signs as a constant along the last axis.
static DenseElementsAttr getSigns(const RopeMatch &match, Type element,
                                  int64_t width) {
  SmallVector<Attribute> signs;
  for (int64_t i = 0; i < width; ++i)
    signs.push_back(FloatAttr::get(element, signOf(match, i, width)));
  return DenseElementsAttr::get(RankedTensorType::get({width}, element), signs);
}

/// The constant `table` with the signs.
static Value foldSigns(OpBuilder &builder, Location loc, Value table,
                       const RopeMatch &match) {
  auto constant = table.getDefiningOp<ConstantOp>();
  auto dense =
      constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : nullptr;
  if (!dense)
    return {};
  int64_t width = lastSize(table), i = 0;
  SmallVector<APFloat> values;
  for (APFloat value : dense.getValues<APFloat>()) {
    if (signOf(match, i++ % width, width) < 0)
      value.changeSign();
    values.push_back(value);
  }
  return ConstantOp::create(builder, loc,
                            DenseElementsAttr::get(dense.getType(), values));
}

static Value negate(OpBuilder &builder, Location loc, Value value) {
  if (Value negated = getNegated(value))
    return negated;
  return NegOp::create(builder, loc, value);
}

static Value createSines(OpBuilder &builder, Location loc,
                         const RopeMatch &match, Value sin) {
  if (match.firstSign > 0 && match.secondSign > 0)
    return sin;
  if (match.firstSign < 0 && match.secondSign < 0)
    return negate(builder, loc, sin);
  if (Value folded = foldSigns(builder, loc, sin, match))
    return folded;
  Type element = elementType(sin);
  DenseElementsAttr signs = getSigns(match, element, lastSize(sin));
  // Signs that the table has already are taken off.
  if (auto mul = sin.getDefiningOp<MulOp>())
    for (unsigned i : {0u, 1u})
      if (auto factor = other(mul, i).getDefiningOp<ConstantOp>())
        if (auto dense = dyn_cast<DenseElementsAttr>(factor.getValue());
            dense && dense.getNumElements() == signs.getNumElements() &&
            dense.reshape(signs.getType()) == signs &&
            mul->getOperand(i).getType() == mul.getType())
          return mul->getOperand(i);
  auto halves = match.interleaved ? std::nullopt : getHalves(sin);
  if (halves) {
    Value first = halves->first, second = halves->second;
    Value &negated = match.firstSign < 0 ? first : second;
    negated = negate(builder, loc, negated);
    int64_t last = getSymShape(sin).size() - 1;
    return ConcatOp::create(builder, loc, ValueRange{first, second}, last);
  }
  Value factor = ConstantOp::create(builder, loc, signs);
  return MulOp::create(builder, loc, sin.getType(), sin, factor);
}

std::pair<Value, Value> raise::createTables(OpBuilder &builder, Location loc,
                                            const RopeMatch &match) {
  if (!match.secondCos)
    return {match.cos, createSines(builder, loc, match, match.sin)};
  auto join = [&](Value first, Value second) -> Value {
    int64_t last = getSymShape(first).size() - 1;
    return ConcatOp::create(builder, loc, ValueRange{first, second}, last);
  };
  return {join(match.cos, match.secondCos), join(match.sin, match.secondSin)};
}
