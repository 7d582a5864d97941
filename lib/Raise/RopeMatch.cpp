//===- RopeMatch.cpp - The algebra of rotary embeddings -------------------===//

#include "Parts.h"
#include "Rope.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

Value raise::getNegated(Value value) {
  if (auto neg = value.getDefiningOp<NegOp>())
    return neg.getInput();
  auto sub = value.getDefiningOp<SubOp>();
  if (!sub || getScalar(sub.getLhs()) != 0.0 ||
      sub.getRhs().getType() != sub.getType())
    return {};
  return sub.getRhs();
}

LogicalResult raise::checkTable(Value table, const Part &x, Operation *at,
                                Trace &trace) {
  SymShape shape = getSymShape(table);
  int64_t width = x.sizes.back().asConstant().value_or(-1);
  if (shape.empty() || shape.size() > x.sizes.size())
    return trace.fail("LAYOUT", at, "a table of 1 to the input's rank",
                      "rank " + Twine(shape.size()));
  auto outer = broadcastShapes(ArrayRef(x.sizes).drop_back(),
                               ArrayRef(shape).drop_back());
  if (!outer || *outer != SymShape(ArrayRef(x.sizes).drop_back()))
    return trace.fail("LAYOUT", at, "a table that broadcasts to the input",
                      "one that widens it");
  if (width < 2 || width % 2)
    return trace.fail("HEAD_DIM", at, "an even, constant head size",
                      x.sizes.back().str());
  if (lastSize(table) != width && lastSize(table) != width / 2)
    return trace.fail("LAYOUT", at,
                      "a table of width " + Twine(width) + " or half of it",
                      "width " + Twine(lastSize(table)));
  trace.step();
  return success();
}

//===----------------------------------------------------------------------===//
// x * cos + rotate(x) * sin
//===----------------------------------------------------------------------===//

/// Whether `piece` is every second element of x, from `which`; also as the
/// column `which` of x split into pairs.
static bool isAlternate(Value piece, Value x, int64_t which, int64_t half) {
  if (isPartOfLast(piece, x, which, 2, half))
    return true;
  Part part = getPart(piece);
  auto split = part.base.getDefiningOp<ReshapeOp>();
  return split && split.getInput() == x && lastSize(part.base) == 2 &&
         isPartOfLast(piece, part.base, which, 1, 1);
}

namespace {
/// (firstSign * b, secondSign * a) of x = (a, b).
struct Rotation {
  bool interleaved;
  int firstSign, secondSign;
};
} // namespace

/// `value` without a negation, which changes `sign`.
static Value takeSign(Value value, int &sign) {
  Value negated = getNegated(value);
  sign = negated ? -1 : 1;
  return negated ? negated : value;
}

/// `value` is rotate(x), whatever the signs of its elements.
static FailureOr<Rotation> matchRotation(Value value, Value x, Trace &trace) {
  int64_t half = lastSize(x) / 2;
  auto halves = getHalves(value);
  bool interleaved = !halves;
  if (!halves)
    halves = getInterleaved(value);
  Operation *op = value.getDefiningOp();
  if (!halves && op)
    // What is computed from x is the rotated factor, not a table.
    for (Value operand : op->getOperands())
      if (getPart(operand).base == getPart(x).base)
        trace.step();
  if (!halves)
    return trace.fail("PATTERN", op,
                      "two halves (or alternating elements) concatenated",
                      isa_and_nonnull<ConcatOp>(op) ? "pieces of other sizes"
                                                    : describe(value));
  trace.step();
  Rotation rotation{interleaved, 1, 1};
  Value first = takeSign(halves->first, rotation.firstSign);
  Value second = takeSign(halves->second, rotation.secondSign);
  bool matches = interleaved ? isAlternate(first, x, 1, half) &&
                                   isAlternate(second, x, 0, half)
                             : isPartOfLast(first, x, half, 1, half) &&
                                   isPartOfLast(second, x, 0, 1, half);
  if (!matches)
    return trace.fail("PATTERN", value.getDefiningOp(),
                      "the halves (-b, a) of the rotated value's (a, b)",
                      "other elements");
  trace.step();
  return rotation;
}

FailureOr<RopeMatch> raise::matchRopeSum(Operation *root, Trace &trace) {
  unsigned start = trace.mark();
  bool isDifference = isa<SubOp>(root);
  Type type = root->getResult(0).getType();
  for (unsigned i : {0u, 1u}) {
    if (isDifference && i == 1)
      break;
    auto straight = root->getOperand(i).getDefiningOp<MulOp>();
    auto crossed = other(root, i).getDefiningOp<MulOp>();
    if (!straight || !crossed)
      continue;
    for (unsigned j : {0u, 1u})
      for (unsigned k : {0u, 1u}) {
        trace.reset(start);
        Value x = straight->getOperand(j), cos = other(straight, j);
        Value rotated = crossed->getOperand(k), sin = other(crossed, k);
        if (x.getType() != type || rotated.getType() != type)
          continue;
        // Halves may be swapped before x is widened: the same values.
        Value narrow = stripWidening(x), turned = stripWidening(rotated);
        bool widened = narrow.getType() == turned.getType();
        auto rotation = matchRotation(widened ? turned : rotated,
                                      widened ? narrow : x, trace);
        if (failed(rotation))
          continue;
        RopeMatch match{getPart(x), cos, sin, rotation->interleaved};
        // The op adds (-b, a).
        int sign = isDifference ? -1 : 1;
        match.firstSign = -rotation->firstSign * sign;
        match.secondSign = rotation->secondSign * sign;
        if (failed(checkTable(cos, match.x, straight, trace)) ||
            failed(checkTable(sin, match.x, crossed, trace)))
          continue;
        return match;
      }
  }
  trace.reset(start);
  for (Value addend : root->getOperands())
    if (addend.getDefiningOp<CastOp>() &&
        stripCasts(addend).getDefiningOp<MulOp>())
      return trace.fail("CAST_ORDER", addend.getDefiningOp(),
                        "products added as they are", "a cast in between");
  return trace.fail("PATTERN", root, "x * cos + rotate(x) * sin",
                    "another sum");
}

//===----------------------------------------------------------------------===//
// (a * cos - b * sin, b * cos + a * sin)
//===----------------------------------------------------------------------===//

/// value = p - q: as a difference or as a sum with a negated product.
static bool getDifference(Value value, Value &p, Value &q) {
  if (auto sub = value.getDefiningOp<SubOp>()) {
    p = sub.getLhs(), q = sub.getRhs();
    return true;
  }
  auto add = value.getDefiningOp<AddOp>();
  for (unsigned i : {0u, 1u}) {
    Value negated = add ? getNegated(add->getOperand(i)) : Value();
    if (!negated)
      continue;
    p = other(add, i), q = negated;
    return true;
  }
  return false;
}

/// The factor of product `value` beside `factor`.
static Value getCofactor(Value value, Value factor) {
  auto mul = value.getDefiningOp<MulOp>();
  for (unsigned i : {0u, 1u})
    if (mul && mul->getOperand(i) == factor)
      return other(mul, i);
  return {};
}

/// `table` without leading axes of size 1 that a view adds.
static Value dropLeadingUnits(Value table) {
  while (auto reshape = table.getDefiningOp<ReshapeOp>()) {
    SymShape from = getSymShape(reshape.getInput()), to = getSymShape(table);
    size_t added = to.size() - std::min(from.size(), to.size());
    if (added == 0 || ArrayRef(to).drop_front(added) != ArrayRef<SymExpr>(from))
      break;
    table = reshape.getInput();
  }
  return table;
}

/// (a*cos - b*sin, b*cos + a*sin) of the products `left` and `right` and the
/// sum; `way` says which operands are a, b and b's product in the sum.
static std::optional<RopeMatch> matchFactors(Operation *left, Operation *right,
                                             AddOp sum, unsigned way,
                                             bool ownTables, bool interleaved,
                                             Trace &trace) {
  unsigned i = way & 1, j = way >> 1 & 1, k = way >> 2 & 1;
  Value a = left->getOperand(i), cos = other(left, i);
  Value b = right->getOperand(j), sin = other(right, j);
  Value secondCos = getCofactor(sum->getOperand(k), b),
        secondSin = getCofactor(other(sum, k), a);
  if (!secondCos || !secondSin)
    return std::nullopt;
  bool isSame = dropLeadingUnits(secondCos) == dropLeadingUnits(cos) &&
                dropLeadingUnits(secondSin) == dropLeadingUnits(sin);
  if (isSame == ownTables ||
      (ownTables && (interleaved || !sameShape(cos, secondCos) ||
                     !sameShape(sin, secondSin))))
    return std::nullopt;
  trace.step();
  int64_t half = lastSize(a);
  Part x = getPart(a);
  int64_t step = x.steps.empty() ? 0 : x.steps.back();
  if (a.getType() != sum.getType() || half < 1 ||
      (step != 2 && (interleaved || step != 1)))
    return std::nullopt;
  x.steps.back() = 1;
  x.sizes.back() = SymExpr(2 * half);
  Part partner = getPart(b), expected = getPart(a);
  expected.starts.back() =
      expected.starts.back() + SymExpr(step == 2 ? 1 : half);
  if (partner.base != expected.base || partner.starts != expected.starts ||
      partner.sizes != expected.sizes || partner.steps != expected.steps)
    return std::nullopt;
  RopeMatch match{x, cos, sin, interleaved, !interleaved && step == 2};
  if (ownTables)
    match.secondCos = secondCos, match.secondSin = secondSin;
  // One angle a pair: tables are as wide as a half.
  if (lastSize(cos) != half || lastSize(sin) != half ||
      failed(checkTable(cos, x, left, trace)) ||
      failed(checkTable(sin, x, right, trace)))
    return std::nullopt;
  return match;
}

FailureOr<RopeMatch> raise::matchRopePairs(Value first, Value second,
                                           bool interleaved, Trace &trace) {
  Value p, q;
  if (!getDifference(first, p, q) || !p.getDefiningOp<MulOp>() ||
      !q.getDefiningOp<MulOp>())
    return trace.fail("PATTERN", first.getDefiningOp(), "a*cos - b*sin",
                      describe(first));
  trace.step();
  auto sum = second.getDefiningOp<AddOp>();
  if (!sum)
    return trace.fail("PATTERN", second.getDefiningOp(), "b*cos + a*sin",
                      describe(second));
  trace.step();
  unsigned start = trace.mark();
  // With tables of their own, second elements are one choice more.
  for (bool ownTables : {false, true})
    for (unsigned way = 0; way < 8; ++way) {
      trace.reset(start);
      auto match = matchFactors(p.getDefiningOp(), q.getDefiningOp(), sum, way,
                                ownTables, interleaved, trace);
      if (match)
        return *match;
    }
  trace.reset(start);
  return trace.fail("PATTERN", sum, "b*cos + a*sin of the same a and b",
                    "other factors");
}
