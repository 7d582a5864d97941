//===- CardAttentionTest.cpp - Which template takes an attention ----------===//

#include "fusion/Kernels/CardAttention.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::kernels;

namespace {

/// A kernel of `rows` query rows over a cache of `d0` keys.
class CardAttention : public ::testing::Test {
protected:
  CardAttention() { context.loadDialect<FusionDialect>(); }

  KernelOp parse(const std::string &batch, int heads, int kvHeads,
                 const std::string &rows, int depth, std::string type = "bf16",
                 std::string attributes = "") {
    auto tensor = [&](std::string heads, std::string keys) {
      std::string shape = "[" + batch + ", " + heads + ", " + keys + ", " +
                          std::to_string(depth) + "]";
      auto size = [](const std::string &s) {
        return isdigit(s[0]) ? s : std::string("?");
      };
      return "tensor<" + size(batch) + "x" + heads + "x" + size(keys) + "x" +
             std::to_string(depth) + "x" + type + ", #fusion.shape<" + shape +
             ">>";
    };
    std::string q = tensor(std::to_string(heads), rows);
    std::string kv = tensor(std::to_string(kvHeads), "d0");
    std::string text =
        "fusion.kernel @k config #fusion.config<\"attention\", {}> sizes 3 "
        "(%q: " +
        q + ", %k: " + kv + ", %v: " + kv +
        ") {\n %y = fusion.attention %q, %k, %v {scale = 0.125 : f32" +
        attributes + "} : (" + q + ", " + kv + ", " + kv + ") -> " + q +
        "\n fusion.yield %y : " + q + "\n}";
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (!module)
      return {};
    return *module->getOps<KernelOp>().begin();
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::string reason;
};

} // namespace

TEST_F(CardAttention, OneRowIsDecodeManyArePrefill) {
  auto decode = getCardLaunches(parse("1", 32, 8, "1", 128));
  EXPECT_EQ(decode.front().family, CardLaunch::Family::AttentionDecode);
  auto prefill = getCardLaunches(parse("1", 32, 8, "d1", 128));
  EXPECT_EQ(prefill.front().family, CardLaunch::Family::AttentionPrefill);
  EXPECT_EQ(prefill.front().stages[0].maps.size(), 2u);
  // 17 queries a KV head are more than two tiles of 8.
  auto many = getCardLaunches(parse("1", 17, 1, "1", 128));
  EXPECT_EQ(many.front().family, CardLaunch::Family::AttentionPrefill);
}

// The parts of all segments are resident together: 132 multiprocessors.
TEST_F(CardAttention, PartsFillTheCard) {
  for (int batch : {1, 2, 3, 8, 16, 17, 64, 200}) {
    auto kernel = parse(std::to_string(batch), 32, 8, "1", 128);
    auto p = getDecodeAttention(*kernel.getBlock(), reason);
    ASSERT_TRUE(p) << reason;
    int64_t segments = batch * 8;
    EXPECT_GE(p->parts, 1u);
    EXPECT_LE(*p->blocks.asConstant(), kDecodeBlocks);
    if (segments <= kDecodeBlocks)
      EXPECT_EQ(*p->blocks.asConstant(), segments * p->parts);
    if (p->parts > 1)
      EXPECT_LE(segments * p->parts, kDecodeBlocks);
  }
  auto p = getDecodeAttention(*parse("d1", 32, 8, "1", 128).getBlock(), reason);
  ASSERT_TRUE(p) << reason;
  EXPECT_EQ(p->parts, 0u);
}

TEST_F(CardAttention, SharedMemoryFitsAndDoesNotOverlap) {
  for (int depth : {16, 64, 80, 96, 128, 192, 256})
    for (int group : {1, 3, 4, 8, 16}) {
      auto kernel = parse("1", 2 * group, 2, "1", depth);
      auto p = getDecodeAttention(*kernel.getBlock(), reason);
      if (!p) {
        EXPECT_GT(group, depth > 128 ? 8 : 16);
        continue;
      }
      EXPECT_LE(p->sharedBytes, 227u * 1024);
      EXPECT_GE(p->maxima, p->partials + p->warps * p->queries * depth * 4);
      EXPECT_GE(p->maxima, p->partials + (p->words + kDecodeParts) * 16);
      EXPECT_GE(p->barriers, p->query + p->queries * depth * 2);
      EXPECT_GE(p->ring, p->barriers + p->warps * p->stages * 8);
      EXPECT_EQ(p->ring % 128, 0u);
      EXPECT_GE(p->sharedBytes,
                p->ring + p->warps * p->stages * p->stageBytes() + 96);
    }
  for (int depth : {64, 80, 96, 128, 192, 256}) {
    auto kernel = parse("2", 8, 2, "d1", depth);
    auto p = getPrefillAttention(*kernel.getBlock(), reason);
    ASSERT_TRUE(p) << reason;
    EXPECT_LE(p->sharedBytes, 227u * 1024) << depth;
    EXPECT_EQ(p->key % 1024, 0u);
    EXPECT_EQ(p->value % 1024, 0u);
    EXPECT_GE(p->key, p->query + 2 * p->queryBuffers * p->halfBytes());
    EXPECT_GE(p->barriers, p->value + p->stages * p->blockBytes());
  }
}

TEST_F(CardAttention, ReasonsToDecline) {
  auto why = [&](KernelOp kernel) {
    EXPECT_FALSE(getDecodeAttention(*kernel.getBlock(), reason));
    EXPECT_FALSE(getPrefillAttention(*kernel.getBlock(), reason));
    // General ways are left.
    EXPECT_NE(getCardLaunches(kernel).front().family,
              CardLaunch::Family::AttentionDecode);
    EXPECT_NE(getCardLaunches(kernel).front().family,
              CardLaunch::Family::AttentionPrefill);
    return reason;
  };
  EXPECT_EQ(why(parse("1", 4, 2, "1", 128, "f32")),
            "keys or values are not rows of 16-bit elements");
  EXPECT_EQ(why(parse("1", 4, 2, "1", 72)),
            "head size is not a multiple of 16 up to 256");
  EXPECT_EQ(why(parse("1", 4, 2, "d1", 32)), "head size below 64");
}

// A row that sees nothing but averages all keys is not split.
TEST_F(CardAttention, AveragingRowsStayWhole) {
  std::string window =
      ", causal, window_left = 3 : i64, masked_rows = \"uniform\"";
  auto p = getDecodeAttention(
      *parse("1", 32, 8, "1", 128, "bf16", window).getBlock(), reason);
  ASSERT_TRUE(p) << reason;
  EXPECT_EQ(p->parts, 1u);
  std::string causal = ", causal, masked_rows = \"uniform\"";
  p = getDecodeAttention(
      *parse("1", 32, 8, "1", 128, "bf16", causal).getBlock(), reason);
  ASSERT_TRUE(p) << reason;
  EXPECT_EQ(p->parts, 16u);
}
