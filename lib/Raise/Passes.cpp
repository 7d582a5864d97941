//===- Passes.cpp - The passes that apply patterns, and their order -------===//

#include "fusion/Raise/Passes.h"
#include "Patterns.h"

#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

namespace fusion {
#define GEN_PASS_DEF_CANONICALIZESPELLINGS
#define GEN_PASS_DEF_RAISENORMS
#define GEN_PASS_DEF_RAISEACTIVATIONS
#define GEN_PASS_DEF_RAISEROTATIONS
#define GEN_PASS_DEF_RAISEATTENTION
#include "fusion/Raise/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;

LogicalResult raise::apply(Operation *root, RewritePatternSet &&patterns) {
  GreedyRewriteConfig config;
  config.setUseTopDownTraversal(true).setRegionSimplificationLevel(
      GreedySimplifyRegionLevel::Disabled);
  return applyPatternsGreedily(root, std::move(patterns), config);
}

void raise::reportMatch(StringRef pattern, Location loc) {
  remark::passed(loc, remark::RemarkOpts::name(pattern).category("raise"))
      << remark::metric("node", nodeName(loc));
}

namespace {
/// Applies sets of patterns, each to its fixed point.
template <typename... Populate>
void run(Operation *root, Populate... populate) {
  auto applyOne = [&](auto add) {
    RewritePatternSet patterns(root->getContext());
    add(patterns);
    // Where the driver stops before the fixed point the module is right all
    // the same, only less raised.
    (void)raise::apply(root, std::move(patterns));
  };
  (applyOne(populate), ...);
}

struct CanonicalizeSpellings final
    : fusion::impl::CanonicalizeSpellingsBase<CanonicalizeSpellings> {
  void runOnOperation() override {
    run(getOperation(), [](RewritePatternSet &patterns) {
      raise::populateArithmeticSpellings(patterns);
      raise::populateMomentSpellings(patterns);
      raise::populateSoftmaxSpellings(patterns);
      raise::populateViewSpellings(patterns);
      raise::populateIndexSpellings(patterns);
      raise::populateTransposeSpellings(patterns);
      raise::populateScatterSpellings(patterns);
      raise::populateBatchSpellings(patterns);
      raise::populateRowSpellings(patterns);
      raise::populateGroupSpellings(patterns);
      raise::populateMaskSpellings(patterns);
      raise::populateChannelSpellings(patterns);
      raise::populateDequantizeSpellings(patterns);
      raise::populateDialectCanonicalizations(patterns);
    });
  }
};

struct RaiseNorms final : fusion::impl::RaiseNormsBase<RaiseNorms> {
  void runOnOperation() override {
    // A factor is a norm's weight before the norm's input is looked at.
    run(
        getOperation(),
        [](RewritePatternSet &patterns) {
          raise::populateRmsNorm(patterns);
          raise::populateNormCasts(patterns);
        },
        [](RewritePatternSet &patterns) {
          raise::populateLayerNorm(patterns);
          raise::populateNormCasts(patterns);
        });
  }
};

struct RaiseActivations final
    : fusion::impl::RaiseActivationsBase<RaiseActivations> {
  void runOnOperation() override {
    run(getOperation(), [](RewritePatternSet &patterns) {
      raise::populateActivations(patterns);
    });
  }
};

struct RaiseRotations final : fusion::impl::RaiseRotationsBase<RaiseRotations> {
  void runOnOperation() override {
    run(getOperation(), [](RewritePatternSet &patterns) {
      raise::populateRopeHalf(patterns);
      raise::populateRopeInterleaved(patterns);
      raise::populateRopeAround(patterns);
      raise::populateRopeTables(patterns);
    });
  }
};

struct RaiseAttention final : fusion::impl::RaiseAttentionBase<RaiseAttention> {
  void runOnOperation() override {
    run(
        getOperation(),
        [](RewritePatternSet &patterns) { raise::populateAttention(patterns); },
        [](RewritePatternSet &patterns) {
          raise::populateAttentionOperands(patterns);
          raise::populateDialectCanonicalizations(patterns);
        });
  }
};
} // namespace

void fusion::buildRaisePipeline(OpPassManager &manager,
                                const RaiseOptions &options) {
  OpPassManager &function = manager.nest<func::FuncOp>();
  function.addPass(createCSEPass());
  function.addPass(createCanonicalizeSpellings());
  function.addPass(createCSEPass());
  function.addPass(createRaiseNorms());
  function.addPass(createRaiseActivations());
  function.addPass(createRaiseRotations());
  function.addPass(createRaiseAttention());
  function.addPass(createRaiseAppends());
  function.addPass(createEqualLengths());
  if (options.proveMasks)
    function.addPass(createProveMasks());
  function.addPass(createCanonicalizeSpellings());
  function.addPass(createCSEPass());
  function.addPass(createVerifyRaised());
}

void fusion::registerRaisePipeline() {
  PassPipelineRegistration<RaiseOptions>(
      "fusion-raise", "decomposed sub-graphs become semantic ops",
      buildRaisePipeline);
}
