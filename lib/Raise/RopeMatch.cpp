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
struct Rotation {
  bool interleaved;
};
} // namespace

/// `value` is rotate(x).
static FailureOr<Rotation> matchRotation(Value value, Value x, Trace &trace) {
  int64_t half = lastSize(x) / 2;
  auto halves = getHalves(value);
  bool interleaved = !halves;
  if (!halves)
    halves = getInterleaved(value);
  if (!halves)
    return trace.fail("PATTERN", value.getDefiningOp(),
                      "two halves (or alternating elements) concatenated",
                      describe(value));
  trace.step();
  Value negated = getNegated(halves->first);
  if (!negated)
    return trace.fail("PATTERN", halves->first.getDefiningOp(),
                      "a negated first half", describe(halves->first));
  trace.step();
  bool matches = interleaved ? isAlternate(negated, x, 1, half) &&
                                   isAlternate(halves->second, x, 0, half)
                             : isPartOfLast(negated, x, half, 1, half) &&
                                   isPartOfLast(halves->second, x, 0, 1, half);
  if (!matches)
    return trace.fail("PATTERN", value.getDefiningOp(),
                      "the halves (-b, a) of the rotated value's (a, b)",
                      "other elements");
  trace.step();
  return Rotation{interleaved};
}

FailureOr<RopeMatch> raise::matchRopeSum(AddOp root, Trace &trace) {
  unsigned start = trace.mark();
  for (unsigned i : {0u, 1u}) {
    auto straight = root->getOperand(i).getDefiningOp<MulOp>();
    auto crossed = other(root, i).getDefiningOp<MulOp>();
    if (!straight || !crossed)
      continue;
    for (unsigned j : {0u, 1u})
      for (unsigned k : {0u, 1u}) {
        trace.reset(start);
        Value x = straight->getOperand(j), cos = other(straight, j);
        Value rotated = crossed->getOperand(k), sin = other(crossed, k);
        if (x.getType() != root.getType() ||
            rotated.getType() != root.getType())
          continue;
        // Halves may be swapped before x is widened: the same values.
        Value narrow = stripWidening(x), turned = stripWidening(rotated);
        bool widened = narrow.getType() == turned.getType();
        auto rotation = matchRotation(widened ? turned : rotated,
                                      widened ? narrow : x, trace);
        if (failed(rotation))
          continue;
        RopeMatch match{getPart(x), cos, sin, rotation->interleaved};
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
  Operation *left = p.getDefiningOp(), *right = q.getDefiningOp();
  for (unsigned i : {0u, 1u})
    for (unsigned j : {0u, 1u})
      for (unsigned k : {0u, 1u}) {
        trace.reset(start);
        Value a = left->getOperand(i), cos = other(left, i);
        Value b = right->getOperand(j), sin = other(right, j);
        if (getCofactor(sum->getOperand(k), b) != cos ||
            getCofactor(other(sum, k), a) != sin)
          continue;
        trace.step();
        int64_t half = lastSize(a);
        Part x = getPart(a);
        int64_t step = x.steps.empty() ? 0 : x.steps.back();
        if (a.getType() != first.getType() || half < 1 ||
            (step != 2 && (interleaved || step != 1)))
          continue;
        x.steps.back() = 1;
        x.sizes.back() = SymExpr(2 * half);
        Part partner = getPart(b), expected = getPart(a);
        expected.starts.back() =
            expected.starts.back() + SymExpr(step == 2 ? 1 : half);
        if (partner.base != expected.base ||
            partner.starts != expected.starts ||
            partner.sizes != expected.sizes || partner.steps != expected.steps)
          continue;
        RopeMatch match{x, cos, sin, interleaved, !interleaved && step == 2};
        // One angle a pair: tables are as wide as a half.
        if (lastSize(cos) != half || lastSize(sin) != half ||
            failed(checkTable(cos, x, left, trace)) ||
            failed(checkTable(sin, x, right, trace)))
          continue;
        return match;
      }
  trace.reset(start);
  return trace.fail("PATTERN", sum, "b*cos + a*sin of the same a and b",
                    "other factors");
}
