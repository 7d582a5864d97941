//===- PlanTest.cpp - Kernels, arena and speed of the plan ----------------===//

#include "PlanTesting.h"
#include "fusion/Plan/Arena.h"

#include <chrono>
#include <gtest/gtest.h>

using namespace fusion;
using namespace mlir;

namespace {

std::string type(const std::string &rows, int64_t width) {
  return "tensor<?x" + std::to_string(width) + "xf32, #fusion.shape<[" + rows +
         ", " + std::to_string(width) + "]>>";
}

std::string group(const std::string &result, const std::string &body,
                  const std::string &inputs, const std::string &inputTypes,
                  const std::string &outputType, const std::string &family) {
  return "  %" + result + " = fusion.group \"" + family + "\" (" + inputs +
         ") : (" + inputTypes + ") -> " + outputType +
         " kernel #fusion.config<\"" + family + "\", {}> {\n    %r = " + body +
         " -> " + outputType + "\n    fusion.yield %r : " + outputType +
         "\n  }\n";
}

/// The dataflow of a decoder: for each layer two residual additions, a matmul
/// that widens by four and one that narrows.
std::string decoder(const std::string &name, const std::string &rows,
                    int layers) {
  std::string t = type(rows, 64), wide = type(rows, 256);
  std::string text = "func.func @" + name + "(%x0: " + t + ") -> " + t +
                     " attributes {fusion.bucket = {rows = \"" + rows +
                     "\"}} {\n";
  std::string up = "tensor<64x256xf32>", down = "tensor<256x64xf32>";
  for (int i = 0; i < layers; ++i) {
    std::string n = std::to_string(i), next = std::to_string(i + 1);
    text += "  %u" + n + " = fusion.weight \"up" + n + "\" at <\"m\", " +
            std::to_string(i * 131072) + ", 65536> : " + up + "\n";
    text += "  %d" + n + " = fusion.weight \"down" + n + "\" at <\"m\", " +
            std::to_string(i * 131072 + 65536) + ", 65536> : " + down + "\n";
    text += group("n" + n,
                  "fusion.rms_norm %a {epsilon = 1.0e-5 : f32} : (" + t + ")",
                  "%a = %x" + n, t, t, "row_reduction");
    text +=
        group("h" + n, "fusion.matmul %a, %b : (" + t + ", " + up + ")",
              "%a = %n" + n + ", %b = %u" + n, t + ", " + up, wide, "matmul");
    text += group("s" + n, "fusion.silu %a : (" + wide + ")", "%a = %h" + n,
                  wide, wide, "pointwise");
    text +=
        group("o" + n, "fusion.matmul %a, %b : (" + wide + ", " + down + ")",
              "%a = %s" + n + ", %b = %d" + n, wide + ", " + down, t, "matmul");
    text +=
        group("x" + next, "fusion.add %a, %b : (" + t + ", " + t + ")",
              "%a = %x" + n + ", %b = %o" + n, t + ", " + t, t, "pointwise");
  }
  return text + "  return %x" + std::to_string(layers) + " : " + t + "\n}\n";
}

size_t count(ModuleOp module) {
  auto kernels = module.getOps<KernelOp>();
  return std::distance(kernels.begin(), kernels.end());
}

TEST(Plan, LayersAndProgramsShareKernels) {
  PlanTesting testing;
  // Two functions with other names of their sizes, six layers each.
  auto module = testing.parse(decoder("a", "seq", 6) + decoder("b", "seq", 6));
  ASSERT_TRUE(module);
  ASSERT_TRUE(testing.plan(*module));
  EXPECT_EQ(5u, count(*module));
}

TEST(Plan, ArenaIsWithinATenthOfTheBound) {
  PlanTesting testing;
  auto module = testing.parse(decoder("main", "seq", 8));
  ASSERT_TRUE(testing.plan(*module));
  plan::ProgramOp program = *module->getOps<plan::ProgramOp>().begin();
  for (int64_t seq : {1, 7, 64, 1000}) {
    auto report = getArenaReport(program, {{"seq", seq}});
    ASSERT_TRUE(report);
    // The residual stream, one wide value and its activation.
    EXPECT_EQ(uint64_t(seq * 4 * (64 + 256 + 256)), report->bound) << seq;
    EXPECT_LE(report->bytes, report->bound + report->bound / 10) << seq;
  }
  EXPECT_FALSE(getArenaReport(program, {})) << "a size without a value";
}

TEST(Plan, UpperSizes) {
  PlanTesting testing;
  auto module =
      testing.parse("module attributes {fusion.dims = {seq = [1, 300]}} {\n" +
                    decoder("main", "seq", 1) + "}");
  ASSERT_TRUE(testing.plan(*module));
  plan::ModelOp model = *module->getOps<plan::ModelOp>().begin();
  plan::ProgramOp program = *module->getOps<plan::ProgramOp>().begin();
  EXPECT_EQ(300, getUpperSizes(model, program, 1024)["seq"]);
  program.setMaxRows(64);
  EXPECT_EQ(64, getUpperSizes(model, program, 1024)["seq"]);
  program.setFixedAttr(
      Builder(&testing.context)
          .getDictionaryAttr(
              {Builder(&testing.context)
                   .getNamedAttr(
                       "seq",
                       Builder(&testing.context).getI64IntegerAttr(1))}));
  EXPECT_EQ(1, getUpperSizes(model, program, 1024)["seq"]);
}

TEST(Plan, ThousandsOfGroupsTakeLittleTime) {
  PlanTesting testing;
  auto module =
      testing.parse(decoder("a", "seq", 200) + decoder("b", "seq", 200));
  ASSERT_TRUE(module);
  auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(testing.plan(*module));
  std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", static_cast<int>(seconds.count() * 1000));
  EXPECT_LT(seconds.count(), 5.0); // loose: machines of tests are busy
}

} // namespace
