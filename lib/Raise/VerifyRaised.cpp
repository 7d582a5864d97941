//===- VerifyRaised.cpp - What was left decomposed, and why ---------------===//
//
// Tries each leftover against the pattern that it could belong to and says
// where matching stopped.
//
//===----------------------------------------------------------------------===//

#include "Activation.h"
#include "Attention.h"
#include "Parts.h"
#include "Patterns.h"
#include "RmsNorm.h"
#include "Roots.h"
#include "Rope.h"
#include "Softmax.h"

#include "fusion/Raise/Passes.h"

#include "mlir/IR/Remarks.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <cmath>

namespace fusion {
#define GEN_PASS_DEF_VERIFYRAISED
#include "fusion/Raise/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

static void report(StringRef pattern, Operation *leftover,
                   const Mismatch &mismatch) {
  // Materialised here: the in-flight remark keeps references only.
  std::string node = nodeName(leftover->getLoc()), at = describe(mismatch.at),
              code = mismatch.code.str();
  remark::missed(leftover->getLoc(),
                 remark::RemarkOpts::name(pattern).category("raise"))
      << "almost matched" << remark::metric("reason", code)
      << remark::metric("node", node) << remark::metric("stopped", at)
      << remark::metric("expected", mismatch.expected)
      << remark::metric("found", mismatch.found);
}

/// The users of `value` behind casts.
static SmallVector<Operation *> usersBehindCasts(Value value) {
  SmallVector<Operation *> users;
  for (Operation *user : value.getUsers()) {
    if (isa<CastOp>(user))
      llvm::append_range(users, usersBehindCasts(user->getResult(0)));
    else
      users.push_back(user);
  }
  return users;
}

/// What the model itself returns is no leftover of a pattern.
static bool isOnlyReturned(Operation *op) {
  if (op->getNumResults() != 1)
    return true;
  return llvm::all_of(usersBehindCasts(op->getResult(0)), [](Operation *user) {
    return isa<func::ReturnOp>(user);
  });
}

namespace {
/// The furthest of several attempts on one leftover.
struct Attempts {
  Trace best;
  void take(const Trace &trace) {
    if (trace.mismatch() && (!best.mismatch() || trace.depth() >= best.depth()))
      best = trace;
  }
  void report(StringRef pattern, Operation *leftover) {
    if (best.mismatch())
      ::report(pattern, leftover, *best.mismatch());
  }
};

struct VerifyRaised final : fusion::impl::VerifyRaisedBase<VerifyRaised> {
  /// The root of one number is a scale of attention, not a norm of rows.
  static bool isRootOfRows(Operation *op) {
    if (!isa<SqrtOp, RsqrtOp, PowOp, ExpOp>(op))
      return false;
    Value result = op->getResult(0);
    return !getSymShape(result).empty() && getRoot(result, floatBits(result));
  }

  static void visitRoot(Operation *root) {
    Attempts attempts;
    SmallVector<Operation *> users = usersBehindCasts(root->getResult(0));
    for (size_t i = 0; i < users.size(); ++i) {
      Operation *user = users[i];
      if (isa<ReciprocalOp>(user))
        llvm::append_range(users, usersBehindCasts(user->getResult(0)));
      Trace trace;
      if (isa<AddOp>(user) &&
          (getScalar(user->getOperand(0)) || getScalar(user->getOperand(1)))) {
        (void)trace.fail("PATTERN", user, "epsilon added inside the root",
                         "epsilon added to the root");
        attempts.take(trace);
      }
      if (isa<MaxOp>(user)) {
        (void)trace.fail("PATTERN", user, "epsilon added inside the root",
                         "a least value of the root");
        attempts.take(trace);
      }
      if (!isa<MulOp, DivOp>(user))
        continue;
      if (failed(matchRmsNorm(user, trace)))
        attempts.take(trace);
    }
    attempts.report("rms_norm", root);
  }

  /// A norm of a difference from one number a row is nearly that of x -
  /// mean(x).
  static void visitNorm(RmsNormOp norm) {
    auto sub = stripCasts(norm.getInput()).getDefiningOp<SubOp>();
    if (!sub || lastSize(sub.getRhs()) != 1 || lastSize(sub) == 1)
      return;
    Attempts attempts;
    Trace trace;
    (void)trace.fail("PATTERN", sub, "a difference from the mean of the row",
                     describe(sub.getRhs()));
    attempts.take(trace);
    attempts.report("layer_norm", norm);
  }

  /// Where weights go to columns beside the keys, which are cut off afterwards:
  /// attention sinks.
  static ConcatOp getSinks(SoftmaxOp softmax) {
    auto concat = stripCasts(softmax.getInput()).getDefiningOp<ConcatOp>();
    int64_t last = getSymShape(softmax.getResult()).size() - 1;
    if (!concat || concat.getAxis() != last || softmax.getAxis() != last)
      return {};
    for (Operation *user : usersBehindCasts(softmax.getResult()))
      if (!isa<SliceOp>(user) || getSymShape(user->getResult(0))[last] ==
                                     getSymShape(softmax.getResult())[last])
        return {};
    return concat;
  }

  static void visitSoftmax(SoftmaxOp softmax) {
    Attempts attempts;
    if (ConcatOp sinks = getSinks(softmax)) {
      Trace trace;
      (void)trace.fail("PATTERN", sinks, "the scores of keys alone",
                       "columns beside them that no value has (sinks)");
      attempts.take(trace);
      return attempts.report("attention", softmax);
    }
    SmallVector<Operation *> users = usersBehindCasts(softmax.getResult());
    for (size_t i = 0; i < users.size(); ++i) {
      if (isa<WhereOp>(users[i]))
        llvm::append_range(users, usersBehindCasts(users[i]->getResult(0)));
      auto product = dyn_cast<MatmulOp>(users[i]);
      Trace trace;
      if (product && failed(matchAttention(product, trace)))
        attempts.take(trace);
    }
    if (!attempts.best.mismatch()) {
      Trace trace;
      (void)trace.fail("PATTERN", softmax, "a product with the value",
                       users.empty() ? std::string("no user")
                                     : describe(users.front()));
      attempts.take(trace);
    }
    attempts.report("attention", softmax);
  }

  /// Whether `op` is c * tanh(x / d): a soft cap, no part of an activation that
  /// multiplies it with x.
  static bool isSoftCap(Operation *op) {
    SmallVector<Operation *> users = usersBehindCasts(op->getResult(0));
    return isa<TanhOp>(op) && !users.empty() &&
           llvm::all_of(users, [](Operation *user) {
             if (isa<func::ReturnOp>(user))
               return true;
             if (user->getNumResults() != 1)
               return false;
             auto scaled = getScaled(user->getResult(0));
             return scaled && scaled->factor > 1;
           });
  }

  static void visitActivation(Operation *op) {
    if (isSoftCap(op))
      return;
    Attempts attempts;
    SmallVector<Operation *> users = usersBehindCasts(op->getResult(0));
    for (size_t i = 0; i < users.size() && i < 16; ++i) {
      if (!isa<AddOp, SubOp, MulOp, DivOp>(users[i]))
        continue;
      Trace trace;
      if (failed(matchActivation(users[i], trace)))
        attempts.take(trace);
      llvm::append_range(users, usersBehindCasts(users[i]->getResult(0)));
    }
    bool isSigmoid = isa<SigmoidOp>(op);
    if (isSigmoid && !attempts.best.mismatch()) {
      Trace trace;
      (void)trace.fail("PATTERN", op, "a product of sigmoid(alpha * x) with x",
                       "another use");
      attempts.take(trace);
    }
    attempts.report(isSigmoid ? "silu" : "gelu", op);
  }

  /// Exponentials that are summed are nearly a softmax.
  static void visitExponential(ExpOp op) {
    Attempts attempts;
    bool isSummed = false;
    SmallVector<Operation *> users = usersBehindCasts(op.getResult());
    for (size_t i = 0; i < users.size() && i < 16; ++i) {
      Operation *user = users[i];
      if (isa<WhereOp, MulOp>(user))
        llvm::append_range(users, usersBehindCasts(user->getResult(0)));
      isSummed |= isa<ReduceSumOp>(user);
      Trace trace;
      if (isa<DivOp, MulOp>(user) && failed(matchSoftmax(user, trace)))
        attempts.take(trace);
    }
    if (isSummed)
      attempts.report("softmax", op);
  }

  /// Whether both pieces are parts of one value, one of them perhaps negated.
  static bool isOfOneValue(ConcatOp concat) {
    Value bases[2];
    for (auto [base, input] : llvm::zip(bases, concat.getInputs())) {
      Value negated = getNegated(input);
      Value part = negated ? negated : input;
      base = getPart(part).base;
      if (base == part)
        return false;
    }
    return bases[0] == bases[1];
  }

  /// Only what looks like a rotation: two parts of one value change places.
  void visitConcat(ConcatOp concat) {
    if (concat.getInputs().size() != 2 || !isOfOneValue(concat))
      return;
    Attempts attempts;
    for (Operation *product : concat->getUsers()) {
      if (!isa<MulOp>(product))
        continue;
      for (Operation *sum : usersBehindCasts(product->getResult(0))) {
        Trace trace;
        if (!isa<AddOp, SubOp>(sum) || succeeded(matchRopeSum(sum, trace)))
          continue;
        attempts.take(trace);
      }
    }
    if (attempts.best.mismatch())
      rotations.insert(attempts.best.mismatch()->at);
    attempts.report("rope", concat);
  }

  /// A query or key that is a sum of two products, or pairs of such, is nearly
  /// a rotation.
  void visitOperand(Value value) {
    while (isa_and_nonnull<ReshapeOp, TransposeOp, CastOp, ExpandOp, KvAppendOp,
                           SliceOp>(value.getDefiningOp())) {
      Operation *op = value.getDefiningOp();
      value = op->getOperand(isa<KvAppendOp>(op) ? 1 : 0);
    }
    Operation *op = value.getDefiningOp();
    auto isProduct = [](Value v) {
      return stripCasts(v).getDefiningOp<MulOp>() != nullptr;
    };
    auto isSumOfProducts = [&](Operation *sum) {
      return isa_and_nonnull<AddOp, SubOp>(sum) &&
             isProduct(sum->getOperand(0)) && isProduct(sum->getOperand(1));
    };
    Attempts attempts;
    Trace trace;
    if (auto concat = dyn_cast_or_null<ConcatOp>(op)) {
      auto inputs = concat.getInputs();
      if (inputs.size() != 2)
        return;
      auto pieces = getStacked(value);
      Value first = pieces ? pieces->first : inputs[0],
            second = pieces ? pieces->second : inputs[1];
      if (isSumOfProducts(first.getDefiningOp()) &&
          failed(matchRopePairs(first, second, pieces.has_value(), trace)))
        attempts.take(trace);
    } else if (isSumOfProducts(op) && failed(matchRopeSum(op, trace))) {
      attempts.take(trace);
    }
    // What its concatenation was told for is told.
    const auto &mismatch = attempts.best.mismatch();
    if (mismatch)
      rotations.insert(op);
    if (mismatch && rotations.insert(mismatch->at).second)
      attempts.report("rope", op);
  }

  /// The rotation behind what stands between one and attention, or the op
  /// where there is none.
  static Operation *findRotation(Value value) {
    while (Operation *op = value.getDefiningOp()) {
      if (auto concat = dyn_cast<ConcatOp>(op)) {
        for (Value input : concat.getInputs())
          if (Operation *found = findRotation(input);
              isa_and_nonnull<RopeOp>(found))
            return found;
        return op;
      }
      if (!isa<ReshapeOp, TransposeOp, CastOp, ExpandOp, SliceOp, KvAppendOp>(
              op))
        return op;
      value = op->getOperand(isa<KvAppendOp>(op) ? 1 : 0);
    }
    return nullptr;
  }

  /// Queries are rotated as keys are, or neither.
  void visitRotations(AttentionOp attention) {
    Operation *query = findRotation(attention.getQuery()),
              *key = findRotation(attention.getKey());
    bool hasQuery = isa_and_nonnull<RopeOp>(query),
         hasKey = isa_and_nonnull<RopeOp>(key);
    Operation *other = hasQuery ? key : query;
    if (hasQuery == hasKey || !other || !rotations.insert(other).second)
      return;
    Attempts attempts;
    Trace trace;
    (void)trace.fail("PATTERN", other,
                     hasQuery ? "a key that is rotated as the query is"
                              : "a query that is rotated as the key is",
                     describe(other));
    attempts.take(trace);
    attempts.report("rope", attention);
  }

  /// Where rotations were said to stop.
  llvm::SmallPtrSet<Operation *, 8> rotations;

  void runOnOperation() override {
    rotations.clear();
    getOperation().walk([&](Operation *op) {
      if (auto attention = dyn_cast<AttentionOp>(op)) {
        visitOperand(attention.getQuery());
        visitOperand(attention.getKey());
        visitRotations(attention);
      }
      if (isOnlyReturned(op))
        return;
      if (isRootOfRows(op))
        visitRoot(op);
      else if (auto softmax = dyn_cast<SoftmaxOp>(op))
        visitSoftmax(softmax);
      else if (auto norm = dyn_cast<RmsNormOp>(op))
        visitNorm(norm);
      else if (isa<SigmoidOp, ErfOp, TanhOp>(op))
        visitActivation(op);
      else if (auto exponential = dyn_cast<ExpOp>(op))
        visitExponential(exponential);
      else if (auto concat = dyn_cast<ConcatOp>(op))
        visitConcat(concat);
    });
  }
};
} // namespace
