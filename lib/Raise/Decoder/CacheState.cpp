//===- CacheState.cpp - The KV cache as session state ---------------------===//

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Dialect/Fusion/MainFunction.h"
#include "fusion/Raise/Decoder/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fusion;

namespace fusion {
#define GEN_PASS_DEF_MAKECACHESTATE
#include "fusion/Raise/Decoder/Passes.h.inc"
} // namespace fusion

namespace {
struct MakeCacheStatePass final
    : fusion::impl::MakeCacheStateBase<MakeCacheStatePass> {
  using MakeCacheStateBase::MakeCacheStateBase;

  void runOnOperation() override {
    auto main = getMain(getOperation());
    if (failed(main) || failed(makeState(*main)))
      return signalPassFailure();
  }

  LogicalResult makeState(func::FuncOp main) {
    int64_t state = 0;
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      auto role =
          main.getArgAttrOfType<StringAttr>(i, FusionDialect::kRoleAttr);
      if (!role || !role.getValue().starts_with("past_"))
        continue;
      if (failed(convert(main, i)))
        return failure();
      main.setArgAttr(
          i, FusionDialect::kStateAttr,
          IntegerAttr::get(IntegerType::get(&getContext(), 64), state++));
    }
    if (state == 0)
      return main.emitError() << "--kv-cache=state found no cached key or "
                                 "value among the inputs";
    dropPresents(main);
    updateType(main);
    return success();
  }

  /// What appends nothing has been folded.
  LogicalResult checkNotEmpty(func::FuncOp main) {
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      for (auto [axis, size] :
           llvm::enumerate(getSymShape(main.getArgument(i))))
        if (size.asConstant() == 0)
          return main.emitError()
                 << "input " << main.getArgAttr(i, FusionDialect::kNameAttr)
                 << ": axis " << axis
                 << " has the size 0, with which nothing is appended to the "
                    "cache; choose another size, leave it open, or use "
                    "--kv-cache=expose";
    return success();
  }

  /// Gives argument i and its append the storage of the whole cache.
  LogicalResult convert(func::FuncOp main, unsigned i) {
    BlockArgument past = main.getArgument(i);
    auto append = past.hasOneUse()
                      ? dyn_cast<KvAppendOp>(*past.getUsers().begin())
                      : KvAppendOp();
    if (!append && failed(checkNotEmpty(main)))
      return failure();
    if (!append || append.getPast() != past)
      return main.emitError()
             << "input " << main.getArgAttr(i, FusionDialect::kNameAttr)
             << ": expected the cache to be read by one append alone; "
                "use --kv-cache=expose";
    if (append.getInBuffer())
      return main.emitError()
             << "input " << main.getArgAttr(i, FusionDialect::kNameAttr)
             << ": expected a cache that grows, found a buffer with room of "
                "its "
                "own; use --kv-cache=expose";
    SymShape shape = getSymShape(past), storage = shape;
    storage[append.getAxis()] = SymExpr(maxContext.getValue());
    for (const SymExpr &e : storage)
      if (!e.isConstant())
        return main.emitError()
               << "input " << main.getArgAttr(i, FusionDialect::kNameAttr)
               << ": expected constant sizes beside the cached length, found "
               << e.str() << "; fix it with --dim " << e.str() << "=N";
    past.setType(getTensorType(shape, storage, elementType(past)));
    append.getResult().setType(getTensorType(getSymShape(append.getResult()),
                                             storage, elementType(past)));
    return success();
  }

  void dropPresents(func::FuncOp main) {
    auto returnOp = cast<func::ReturnOp>(main.front().getTerminator());
    llvm::BitVector dead(main.getNumResults());
    SmallVector<Value> kept;
    for (auto [i, value] : llvm::enumerate(returnOp.getOperands())) {
      auto append = value.getDefiningOp<KvAppendOp>();
      if (append && hasStorage(value.getType()))
        dead.set(i);
      else
        kept.push_back(value);
    }
    returnOp.getOperandsMutable().assign(kept);
    (void)main.eraseResults(dead);
  }

  void updateType(func::FuncOp main) {
    auto returnOp = cast<func::ReturnOp>(main.front().getTerminator());
    main.setFunctionType(FunctionType::get(&getContext(),
                                           main.front().getArgumentTypes(),
                                           returnOp.getOperandTypes()));
  }
};
} // namespace
