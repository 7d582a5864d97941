//===- AttentionMatch.cpp - From the second product back to the first -----===//

#include "Attention.h"
#include "Bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

bool raise::isHidden(double value, Type element) {
  return value <= (element.isF16() ? -65504.0 : -1e30);
}

/// Scores below -1e4 + 100 are out of reach: a number of -1e4, the least that
/// published models select, gets no weight beside a score that is seen.
static bool hidesInPlace(double value) { return value <= -1e4; }

/// Whether the scores of a product are reached from `value` by what attention
/// puts around them.
static bool leadsToProduct(Value value, unsigned depth) {
  Operation *op = stripCasts(value).getDefiningOp();
  if (!op || depth == 0)
    return false;
  if (isa<MatmulOp>(op))
    return true;
  if (!isa<AddOp, SubOp, MulOp, DivOp, TanhOp, WhereOp, MaxOp>(op))
    return false;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    return leadsToProduct(operand, depth - 1);
  });
}

namespace {
/// Walks from the softmax towards the scores, one op a step.
struct ScoreWalk {
  AttentionMatch &match;
  Trace &trace;
  unsigned bits; ///< precision of the graph: casts to less round on purpose
  Value current;
  WhereOp selection = {}; ///< what gave match.visible

  bool isScaled() const { return match.scale != 1 || match.softcap != 0; }

  /// c * tanh(f * x), the soft cap c of c * f * x.
  LogicalResult takeCap(TanhOp tanh, double cap) {
    if (match.softcap != 0 || match.scale != 1)
      return trace.fail("PATTERN", tanh, "one soft cap outside of the scale",
                        "a second factor");
    if (!(cap > 0))
      return trace.fail("PATTERN", tanh, "a positive soft cap",
                        std::to_string(cap));
    match.softcap = cap;
    match.scale = cap;
    current = stripCasts(tanh.getInput(), bits);
    return success();
  }

  LogicalResult takeScale(const Scaled &scaled) {
    if (auto tanh = stripCasts(scaled.x, bits).getDefiningOp<TanhOp>())
      return takeCap(tanh, scaled.factor);
    match.scale *= scaled.factor;
    current = stripCasts(scaled.x, bits);
    return success();
  }

  LogicalResult takeSum(AddOp add) {
    if (match.softcap != 0)
      return trace.fail("PATTERN", add, "the mask outside of the cap",
                        "a sum inside");
    for (unsigned i : {0u, 1u}) {
      Value scores = add->getOperand(i);
      if (!leadsToProduct(scores, 10))
        continue;
      if (!sameShape(scores, add))
        return trace.fail("MASK", add, "a mask that broadcasts to the scores",
                          "one that widens them");
      match.added.push_back({other(add, i), match.scale});
      current = stripCasts(scores, bits);
      return success();
    }
    return trace.fail("PATTERN", add, "scores of a product and a mask",
                      describe(add.getLhs()) + " and " +
                          describe(add.getRhs()));
  }

  /// scores - mask. What is one number a row, as its maximum, is no mask.
  LogicalResult takeDifference(SubOp sub) {
    Value scores = sub.getLhs(), mask = sub.getRhs();
    SymShape shape = getSymShape(mask);
    if (match.softcap != 0 || shape.empty() || shape.back() == SymExpr(1) ||
        !leadsToProduct(scores, 10))
      return trace.fail("PATTERN", sub, "a mask taken from scores of a product",
                        describe(scores) + " and " + describe(mask));
    if (!sameShape(scores, sub))
      return trace.fail("MASK", sub, "a mask that broadcasts to the scores",
                        "one that widens them");
    match.added.push_back({mask, -match.scale});
    current = stripCasts(scores, bits);
    return success();
  }

  LogicalResult takeSelection(WhereOp where) {
    if (match.softcap != 0 || match.visible)
      return trace.fail("PATTERN", where, "one selection outside of the cap",
                        "a second one");
    for (bool kept : {true, false}) {
      Value scores = kept ? where.getOnTrue() : where.getOnFalse();
      auto hidden = getScalar(kept ? where.getOnFalse() : where.getOnTrue());
      if (!hidden || !leadsToProduct(scores, 10))
        continue;
      // What is scaled afterwards hides by its scaled value.
      *hidden *= match.scale;
      if (!hidesInPlace(*hidden))
        return trace.fail("MASK_UNPROVEN", where,
                          "a mask value that hides any score",
                          std::to_string(*hidden));
      if (!sameShape(scores, where))
        return trace.fail("MASK", where, "a mask that broadcasts to the scores",
                          "one that widens them");
      match.visible = where.getCondition();
      match.visibleWhen = kept;
      match.hidden = *hidden;
      selection = where;
      current = stripCasts(scores, bits);
      return success();
    }
    return trace.fail("PATTERN", where, "scores or a mask value",
                      "two other values");
  }

  /// max(masked scores, the least number): no score that is seen comes near.
  LogicalResult takeFloor(MaxOp max) {
    for (unsigned i : {0u, 1u}) {
      auto least = getScalar(other(max, i));
      if (!least || !sameShape(max->getOperand(i), max))
        continue;
      if (isScaled() || match.visible || match.floor || !match.added.empty() ||
          !isHidden(*least, elementType(max.getResult())))
        break;
      // Beside -65504 a score counts, in rows that see nothing.
      if (elementType(max.getResult()).isF16())
        return trace.fail("MASK_UNPROVEN", max,
                          "a least number beside which no score counts",
                          std::to_string(*least));
      match.floor = *least;
      current = stripCasts(max->getOperand(i), bits);
      return success();
    }
    return trace.fail("PATTERN", max, "masked scores above the least number",
                      "another maximum");
  }

  LogicalResult step() {
    Operation *op = current.getDefiningOp();
    if (auto scaled = getScaled(current))
      return takeScale(*scaled);
    if (auto add = dyn_cast_or_null<AddOp>(op))
      return takeSum(add);
    if (auto sub = dyn_cast_or_null<SubOp>(op))
      return takeDifference(sub);
    if (auto where = dyn_cast_or_null<WhereOp>(op))
      return takeSelection(where);
    if (auto max = dyn_cast_or_null<MaxOp>(op))
      return takeFloor(max);
    return trace.fail("PATTERN", op, "a product of query and key",
                      describe(current));
  }
};
} // namespace

/// Whether `condition` holds for no probability: that it is infinite, and what
/// else is asked.
static bool isInfinite(Value condition, Value probability, unsigned bits) {
  Operation *op = condition.getDefiningOp();
  if (auto both = dyn_cast_or_null<AndOp>(op))
    return llvm::any_of(both->getOperands(), [&](Value part) {
      return isInfinite(part, probability, bits);
    });
  auto infinite = dyn_cast_or_null<IsInfOp>(op);
  return infinite && stripCasts(infinite.getInput(), bits) == probability;
}

/// The softmax behind casts, a guard where(is_nan(s), 0, s) and others against
/// infinities, which no probability is.
static SoftmaxOp matchProbabilities(Value value, unsigned bits, bool &guarded) {
  value = stripCasts(value, bits);
  while (auto where = value.getDefiningOp<WhereOp>()) {
    auto isNan = where.getCondition().getDefiningOp<IsNanOp>();
    Value kept = stripCasts(where.getOnFalse(), bits);
    bool clears = isNan && getScalar(where.getOnTrue()) == 0.0 &&
                  stripCasts(isNan.getInput(), bits) == kept;
    if (!clears && !isInfinite(where.getCondition(), kept, bits))
      return {};
    guarded |= clears;
    value = kept;
  }
  return value.getDefiningOp<SoftmaxOp>();
}

/// Whether the mask value hides a score with all that is added to it. A bias
/// that is a mask itself may be as low; one that stays above half of the value
/// leaves the scores as much room as it has.
static LogicalResult checkHidden(const AttentionMatch &match, WhereOp selection,
                                 Trace &trace) {
  if (!selection || isHidden(match.hidden, elementType(selection.getResult())))
    return success();
  for (const Scaled &added : match.added) {
    auto bounds = getBounds(added.x);
    double low = bounds ? std::min(bounds->low * added.factor,
                                   bounds->high * added.factor)
                        : -std::numeric_limits<double>::infinity();
    if (low < match.hidden / 2)
      return trace.fail("MASK_UNPROVEN", selection,
                        "a mask value that hides any score and its bias",
                        std::to_string(match.hidden) + " beside " +
                            describe(added.x));
  }
  return success();
}

/// Queries [batch, heads, group, ..] of keys and values [batch, heads, 1, ..].
static LogicalResult checkGroups(MatmulOp scores, const SymShape &q,
                                 const SymShape &k, const SymShape &v,
                                 Trace &trace) {
  SymExpr one(1);
  if (!q[1].isConstant() || !q[2].isConstant() || k[1] != q[1] ||
      v[1] != q[1] || k[2] != one || v[2] != one)
    return trace.fail("HEAD_DIM", scores,
                      "constant groups of one key and value each",
                      q[2].str() + ", " + k[2].str() + ", " + v[2].str());
  return success();
}

/// A mask over groups is that of all heads, or has heads and groups both.
static LogicalResult checkGroupMask(Value mask, MatmulOp scores, Trace &trace) {
  SymShape q = getSymShape(scores.getLhs()), shape = getSymShape(mask);
  if (q.size() != 5)
    return success();
  while (shape.size() < 5)
    shape.insert(shape.begin(), SymExpr(1));
  SymExpr one(1);
  bool isShared = shape[1] == one && shape[2] == one;
  if (isShared || (shape[1] == q[1] && shape[2] == q[2]))
    return success();
  return trace.fail("MASK", mask.getDefiningOp(),
                    "a mask of all heads or of each",
                    shape[1].str() + " by " + shape[2].str() + " heads");
}

/// Batch and heads of query, key and value as attention wants them.
static LogicalResult checkShapes(MatmulOp root, MatmulOp scores, Trace &trace) {
  SymShape q = getSymShape(scores.getLhs()), k = getSymShape(scores.getRhs()),
           v = getSymShape(root.getRhs());
  size_t rank = q.size();
  if (Type element = elementType(root.getResult()); element.isF64())
    return trace.fail("PATTERN", root, "elements of at most 32 bits", "f64");
  if (rank < 3 || rank > 5 || k.size() != rank || v.size() != rank)
    return trace.fail("LAYOUT", scores, "query, key and value of four axes",
                      "ranks " + Twine(rank) + ", " + Twine(k.size()) + ", " +
                          Twine(v.size()));
  if (k[0] != q[0] || v[0] != q[0])
    return trace.fail("LAYOUT", scores, "one batch size",
                      q[0].str() + ", " + k[0].str() + ", " + v[0].str());
  SymExpr head = q[scores.getTransposeLhs() ? rank - 2 : rank - 1];
  if (!head.isConstant())
    return trace.fail("HEAD_DIM", scores, "a constant head size", head.str());
  if (rank == 3)
    return success();
  if (rank == 5)
    return checkGroups(scores, q, k, v, trace);
  auto heads = q[1].asConstant(), kvHeads = k[1].asConstant();
  // One head of key or value is that of all heads of the other.
  if (kvHeads == 1)
    kvHeads = v[1].asConstant();
  bool areAlike = v[1] == k[1] || v[1] == SymExpr(1) || k[1] == SymExpr(1);
  if (!heads || !kvHeads || !areAlike || *kvHeads == 0 || *heads % *kvHeads)
    return trace.fail("HEAD_DIM", scores,
                      "constant head counts, those of key and value equal",
                      q[1].str() + ", " + k[1].str() + ", " + v[1].str());
  return success();
}

FailureOr<AttentionMatch> raise::matchAttention(MatmulOp root, Trace &trace) {
  AttentionMatch match;
  unsigned bits = floatBits(root);
  auto softmax = matchProbabilities(root.getLhs(), bits, match.guarded);
  if (!softmax)
    return trace.fail("PATTERN", root, "a product of softmax and value",
                      describe(root.getLhs()));
  trace.step();
  int64_t rank = getSymShape(softmax.getResult()).size();
  if (softmax.getAxis() != rank - 1 || softmax.getLog())
    return trace.fail("AXIS_NOT_LAST", softmax, "a softmax over the keys",
                      "axis " + Twine(softmax.getAxis()));
  if (root.getTransposeLhs())
    return trace.fail("LAYOUT", root, "probabilities [.., rows, keys]",
                      "a transpose of them");
  ScoreWalk walk{match, trace, bits, stripCasts(softmax.getInput(), bits)};
  for (unsigned steps = 0; steps < 12; ++steps) {
    if (auto scores = walk.current.getDefiningOp<MatmulOp>()) {
      if (failed(checkHidden(match, walk.selection, trace)))
        return failure();
      match.scores = scores;
      if (failed(checkShapes(root, scores, trace)))
        return failure();
      for (const Scaled &added : match.added)
        if (failed(checkGroupMask(added.x, scores, trace)))
          return failure();
      if (match.visible && failed(checkGroupMask(match.visible, scores, trace)))
        return failure();
      return match;
    }
    trace.step();
    if (failed(walk.step()))
      return failure();
  }
  return trace.fail("PATTERN", softmax, "a product of query and key",
                    "a longer chain");
}
