//===- ProveMasks.cpp - Masks that are proven become attributes -----------===//

#include "Attention.h"
#include "Bounds.h"
#include "MaskProof.h"
#include "Patterns.h"

#include "fusion/Raise/Passes.h"

#include "mlir/IR/Remarks.h"

#include <cmath>

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

  static bool isBounded(Value bias) {
    auto bounds = getBounds(bias);
    return bounds && bounds->low > -1e9 && bounds->high < 1e9 &&
           getSymShape(bias).size() == 4;
  }

  struct Parts {
    Value mask, bias;
    /// What hides is finite, where the mask does not say itself.
    std::optional<bool> finite;
  };

  /// A mask and a bias that `value` is made of: where(mask, bias, low) or
  /// mask + bias. As the bias is bounded only the mask hides.
  static std::optional<Parts> splitBias(Value value) {
    if (auto add = value.getDefiningOp<AddOp>())
      for (unsigned i : {0u, 1u})
        if (getSymShape(add->getOperand(i)).size() == 4 &&
            isBounded(other(add, i)))
          return Parts{add->getOperand(i), other(add, i), std::nullopt};
    auto where = value.getDefiningOp<WhereOp>();
    if (!where || !isFloat(value) ||
        getSymShape(where.getCondition()).size() != 4)
      return std::nullopt;
    for (bool kept : {true, false}) {
      Value bias = kept ? where.getOnTrue() : where.getOnFalse();
      auto hidden = getScalar(kept ? where.getOnFalse() : where.getOnTrue());
      if (!hidden || !isHidden(*hidden, elementType(bias)) || !isBounded(bias))
        continue;
      Value seen = where.getCondition();
      if (!kept) {
        OpBuilder builder(where);
        seen = NotOp::create(builder, where.getLoc(), seen.getType(), seen);
      }
      return Parts{seen, bias, std::isfinite(*hidden)};
    }
    return std::nullopt;
  }

  /// A mask that is proven beside a bias, which alone stays data.
  bool provePart(AttentionOp op, const ScoreSizes &sizes) {
    auto parts = splitBias(op.getBias());
    if (!parts)
      return false;
    const Result &result = prove(parts->mask, sizes);
    if (failed(result.facts))
      return false;
    MaskFacts facts = *result.facts;
    if (parts->finite)
      facts.finite = parts->finite;
    reportProven(op, facts);
    apply(op, facts);
    op.getBiasMutable().assign(parts->bias);
    return true;
  }

  static void reportProven(AttentionOp op, const MaskFacts &facts) {
    std::string node = nodeName(op.getLoc()), text = facts.str();
    remark::passed(op.getLoc(),
                   remark::RemarkOpts::name("mask").category("raise"))
        << "the mask is proven" << remark::metric("node", node)
        << remark::metric("facts", text);
  }

  void visit(AttentionOp op) {
    if (!op.getBias() || op.getCausal() || op.getKeyMask() ||
        op.getWindowLeft() >= 0 || op.getWindowRight() >= 0)
      return;
    SymShape q = getSymShape(op.getQuery()), k = getSymShape(op.getKey());
    ScoreSizes sizes = {q[0], q[2], k[2]};
    const Result &result = prove(op.getBias(), sizes);
    if (failed(result.facts) && provePart(op, sizes))
      return;
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
    reportProven(op, *result.facts);
    apply(op, *result.facts);
  }

  void runOnOperation() override {
    proven.clear();
    getOperation().walk([&](AttentionOp op) { visit(op); });
  }
};
} // namespace
