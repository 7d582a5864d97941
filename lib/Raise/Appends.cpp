//===- Appends.cpp - Caches that grow -------------------------------------===//
//
//   concat(past, new) along the keys of an attention -> kv_append(past, new)
//
// `past` is an argument of the function: what the caller keeps between calls.
// Keys may also be computed from what is cached (latent attention): then the
// whole is a result, as many rows long as there are keys.
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
    SmallVector<ConcatOp> latents;
    getOperation().walk([&](ConcatOp op) {
      bool isKept = llvm::any_of(op->getUsers(), [](Operation *user) {
        return isa<func::ReturnOp>(user);
      });
      if (isKept && op.getInputs().size() == 2 && isCached(op.getInputs()[0]) &&
          !isCached(op.getInputs()[1]) &&
          llvm::is_contained(keys, getSymShape(op.getResult())[op.getAxis()]))
        latents.push_back(op);
    });
    llvm::for_each(latents, append);
  }
};
} // namespace
