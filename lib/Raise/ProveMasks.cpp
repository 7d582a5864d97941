//===- ProveMasks.cpp - Masks that are proven become attributes -----------===//

#include "MaskProof.h"
#include "Patterns.h"

#include "fusion/Raise/Passes.h"

#include "mlir/IR/Remarks.h"

namespace fusion {
#define GEN_PASS_DEF_PROVEMASKS
#include "fusion/Raise/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

namespace {
struct ProveMasks final : fusion::impl::ProveMasksBase<ProveMasks> {
  struct Result {
    FailureOr<MaskFacts> facts = failure();
    std::string reason;
  };
  using Key = std::tuple<void *, std::string, std::string, std::string>;
  /// Layers share their mask: it is evaluated once.
  std::map<Key, Result> proven;

  const Result &prove(Value mask, const ScoreSizes &sizes) {
    Key key{mask.getAsOpaquePointer(), sizes.batch.str(), sizes.rows.str(),
            sizes.keys.str()};
    auto [it, isNew] = proven.try_emplace(key);
    if (isNew)
      it->second.facts = proveMask(mask, sizes, it->second.reason);
    return it->second;
  }

  static Value createKeyMask(AttentionOp op, Value padding) {
    OpBuilder builder(op);
    auto type = withElementType(padding.getType(), builder.getI1Type());
    if (type == padding.getType())
      return padding;
    return CastOp::create(builder, op.getLoc(), type, padding, false);
  }

  static void apply(AttentionOp op, const MaskFacts &facts) {
    Builder builder(op.getContext());
    op.getBiasMutable().clear();
    op.setCausal(facts.causal);
    op.setCausalOffsetAttr(builder.getStringAttr(facts.offset.str()));
    op.setWindowLeftAttr(builder.getI64IntegerAttr(facts.windowLeft));
    if (facts.padding)
      op.getKeyMaskMutable().assign(createKeyMask(op, facts.padding));
    if (facts.finite == true)
      op.setMaskedRowsAttr(builder.getStringAttr("uniform"));
  }

  void visit(AttentionOp op) {
    if (!op.getBias() || op.getCausal() || op.getKeyMask() ||
        op.getWindowLeft() >= 0 || op.getWindowRight() >= 0)
      return;
    SymShape q = getSymShape(op.getQuery()), k = getSymShape(op.getKey());
    const Result &result = prove(op.getBias(), {q[0], q[2], k[2]});
    std::string node = nodeName(op.getLoc());
    auto options = remark::RemarkOpts::name("mask").category("raise");
    if (failed(result.facts)) {
      std::string mask = describe(op.getBias());
      remark::missed(op.getLoc(), options)
          << "the mask stays data" << remark::metric("reason", "MASK_UNPROVEN")
          << remark::metric("node", node) << remark::metric("stopped", mask)
          << remark::metric("expected", "a causal mask, a window, padding")
          << remark::metric("found", result.reason);
      return;
    }
    std::string facts = result.facts->str();
    remark::passed(op.getLoc(), options)
        << "the mask is proven" << remark::metric("node", node)
        << remark::metric("facts", facts);
    apply(op, *result.facts);
  }

  void runOnOperation() override {
    proven.clear();
    getOperation().walk([&](AttentionOp op) { visit(op); });
  }
};
} // namespace
