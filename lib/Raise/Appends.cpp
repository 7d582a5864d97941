//===- Appends.cpp - Caches that grow -------------------------------------===//
//
//   concat(past, new) along the keys of an attention -> kv_append(past, new)
//
// `past` is an argument of the function: what the caller keeps between calls.
// Keys may also be computed from what is cached (latent attention): then the
// whole is a result, as many rows long as there are keys. Where attention is
// not raised, a cache is what grows along the rows or the inner axis of a
// product and is a result as well.
//
//===----------------------------------------------------------------------===//

#include "Patterns.h"

#include "fusion/Raise/Passes.h"

#include "mlir/IR/Remarks.h"

namespace fusion {
#define GEN_PASS_DEF_RAISEAPPENDS
#include "fusion/Raise/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

/// The concat that `value` is, behind transposes and repeats of heads; `axis`
/// becomes its axis that corresponds.
static ConcatOp findConcat(Value value, int64_t &axis) {
  while (true) {
    if (auto concat = value.getDefiningOp<ConcatOp>())
      return concat;
    Operation *op = value.getDefiningOp();
    if (auto transpose = dyn_cast_or_null<TransposeOp>(op))
      axis = transpose.getPerm()[axis];
    else if (!isa_and_nonnull<CastOp>(op))
      return {};
    value = op->getOperand(0);
  }
}

/// Whether `value` is an argument, or a view of one.
static bool isCached(Value value) {
  while (isa_and_nonnull<ReshapeOp, SliceOp, TransposeOp, CastOp>(
      value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return isa<BlockArgument>(value);
}

/// Whether `concat` is what the caller is to keep: past, then new, returned.
static bool isKept(ConcatOp concat) {
  auto inputs = concat.getInputs();
  return inputs.size() == 2 && isCached(inputs[0]) && !isCached(inputs[1]) &&
         llvm::any_of(concat->getUsers(), [](Operation *user) {
           return isa<func::ReturnOp>(user);
         });
}

/// The axis of `view`'s result that is `axis` of its input: repeats put axes
/// beside it. -1 where it does not stay one.
static int64_t getAxisBehind(Operation *view, int64_t axis) {
  if (auto transpose = dyn_cast<TransposeOp>(view)) {
    ArrayRef<int64_t> perm = transpose.getPerm();
    return llvm::find(perm, axis) - perm.begin();
  }
  SymShape from = getSymShape(view->getOperand(0)),
           to = getSymShape(view->getResult(0));
  if (isa<CastOp>(view) || (isa<ExpandOp>(view) && from.size() == to.size()))
    return axis;
  if (!isa<ReshapeOp>(view))
    return -1;
  // As many elements behind it: the same axis, counted from there.
  SymExpr behind(1);
  for (const SymExpr &size : ArrayRef(from).drop_front(axis + 1))
    behind = behind * size;
  SymExpr product(1);
  for (int64_t i = to.size() - 1; i >= 0; --i) {
    if (product == behind && to[i] == from[axis])
      return i;
    product = product * to[i];
  }
  return -1;
}

/// Whether a product reads `value` behind views as a matrix of which `axis` is
/// one of the two last: keys or values of an attention that is decomposed.
static bool isReadByProduct(Value value, int64_t axis, unsigned depth = 8) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    int64_t rank = getSymShape(value).size();
    if (isa<MatmulOp>(user))
      return rank >= 3 && axis >= rank - 2;
    if (!isa<TransposeOp, ReshapeOp, ExpandOp, CastOp>(user) || depth == 0)
      return false;
    int64_t behind = getAxisBehind(user, axis);
    return behind >= 0 &&
           isReadByProduct(user->getResult(0), behind, depth - 1);
  });
}

/// A cache that the concatenation copies whole at every call.
static void reportMiss(ConcatOp concat, const Twine &expected,
                       const Twine &found) {
  std::string node = nodeName(concat.getLoc()),
              stopped = describe(concat.getOperation());
  std::string wanted = expected.str(), had = found.str();
  remark::missed(concat.getLoc(),
                 remark::RemarkOpts::name("kv_append").category("raise"))
      << "the cache is copied" << remark::metric("reason", "LAYOUT")
      << remark::metric("node", node) << remark::metric("stopped", stopped)
      << remark::metric("expected", wanted) << remark::metric("found", had);
}

namespace {
struct RaiseAppends final : fusion::impl::RaiseAppendsBase<RaiseAppends> {
  static void raise(Value operand) {
    int64_t axis = 2;
    ConcatOp concat = findConcat(operand, axis);
    if (!concat || concat.getAxis() != axis ||
        llvm::none_of(concat.getInputs(), isCached))
      return;
    if (!isCached(concat.getInputs()[0]))
      return reportMiss(concat, "the past, then the new rows",
                        "new rows before the past");
    if (concat.getInputs().size() != 2 || isCached(concat.getInputs()[1]))
      return reportMiss(
          concat, "one past and the new rows",
          Twine(concat.getInputs().size()) + " tensors, " +
              Twine(llvm::count_if(concat.getInputs(), isCached)) +
              " of them inputs of the model");
    append(concat);
  }

  static void append(ConcatOp concat) {
    reportMatch("kv_append", concat.getLoc());
    OpBuilder builder(concat);
    auto append =
        KvAppendOp::create(builder, concat.getLoc(), concat.getInputs()[0],
                           concat.getInputs()[1], concat.getAxis());
    concat.getResult().replaceAllUsesWith(append.getResult());
    concat.erase();
  }

  void runOnOperation() override {
    SmallVector<AttentionOp> attentions;
    getOperation().walk([&](AttentionOp op) { attentions.push_back(op); });
    SmallVector<SymExpr> keys;
    for (AttentionOp op : attentions) {
      raise(op.getKey());
      raise(op.getValue());
      keys.push_back(getSymShape(op.getKey())[2]);
    }
    SmallVector<ConcatOp> others;
    getOperation().walk([&](ConcatOp op) {
      SymExpr size = getSymShape(op.getResult())[op.getAxis()];
      if (isKept(op) && (llvm::is_contained(keys, size) ||
                         isReadByProduct(op.getResult(), op.getAxis())))
        others.push_back(op);
    });
    llvm::for_each(others, append);
  }
};
} // namespace
