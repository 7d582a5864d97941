//===- CacheAppends.cpp - Concatenations with a cached input --------------===//
//
//   concat(past, new) -> kv_append(past, new), where `past` has the role of a
//   cached key or value. No attention is looked for: the unfused form, whose
//   attentions are products and softmaxes, has its caches too.
//
//===----------------------------------------------------------------------===//

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Dialect/Fusion/MainFunction.h"
#include "fusion/Raise/Decoder/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fusion;

namespace fusion {
#define GEN_PASS_DEF_APPENDCACHES
#include "fusion/Raise/Decoder/Passes.h.inc"
} // namespace fusion

namespace {
struct AppendCachesPass final
    : fusion::impl::AppendCachesBase<AppendCachesPass> {
  using AppendCachesBase::AppendCachesBase;

  static bool isCache(func::FuncOp main, Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument || argument.getOwner() != &main.front())
      return false;
    auto role = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                  FusionDialect::kRoleAttr);
    return role && role.getValue().starts_with("past_");
  }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal())
      return;
    if (failed(checkGraph(main)))
      return signalPassFailure();
    SmallVector<ConcatOp> concats;
    main.walk([&](ConcatOp op) {
      if (op.getInputs().size() == 2 && isCache(main, op.getInputs()[0]) &&
          !isCache(main, op.getInputs()[1]))
        concats.push_back(op);
    });
    for (ConcatOp op : concats) {
      OpBuilder b(op);
      op.replaceAllUsesWith(KvAppendOp::create(b, op.getLoc(),
                                               op.getInputs()[0],
                                               op.getInputs()[1], op.getAxis())
                                .getResult());
      op.erase();
    }
  }
};
} // namespace
