//===- CardPredictionTest.cpp - Predictions against measured times --------===//

#include "fusion/Kernels/CardPrediction.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::kernels;

namespace {

class Prediction : public ::testing::Test {
protected:
  Prediction() { context.loadDialect<FusionDialect>(); }

  CardPrediction predict(const std::string &text,
                         std::vector<int64_t> sizes = {}) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    EXPECT_TRUE(bool(module));
    KernelOp kernel = *module->getOps<KernelOp>().begin();
    return predictLaunch(kernel, getCardLaunches(kernel)[0], sizes,
                         *target::findDevice("h200"));
  }

  CardPrediction product(int64_t m, int64_t n, int64_t k) {
    auto matrix = [](int64_t rows, int64_t columns) {
      return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) +
             "xbf16>";
    };
    std::string x = matrix(m, k), w = matrix(n, k), y = matrix(m, n);
    return predict(
        "fusion.kernel @k config #fusion.config<\"matmul\", {programmatic}> "
        "sizes 0 (%x: " +
        x + ", %w: " + w + ") { %y = fusion.matmul %x, %w {transpose_rhs} : (" +
        x + ", " + w + ") -> " + y + " fusion.yield %y : " + y + " }");
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace

// Medians of bursts on an H200, in microseconds.
TEST_F(Prediction, MeasuredProducts) {
  struct Point {
    int64_t m, n, k;
    double us;
    const char *family;
  };
  for (const Point &p :
       {Point{1, 28672, 4096, 50.3, "streamed row"},
        Point{8, 28672, 4096, 55.0, "few rows, lhs in registers"},
        Point{16, 28672, 4096, 55.8, "few rows, wgmma with sides swapped"},
        Point{16, 4096, 4096, 10.0, "few rows, wgmma with sides swapped"},
        Point{128, 4096, 4096, 13.9, "wgmma"},
        Point{2048, 28672, 4096, 632.9, "wgmma"},
        Point{4096, 4096, 4096, 183.9, "wgmma"}}) {
    CardPrediction found = product(p.m, p.n, p.k);
    EXPECT_EQ(found.family, p.family) << p.m;
    EXPECT_NEAR(found.seconds * 1e6, p.us, 0.12 * p.us) << p.m << " " << p.n;
    EXPECT_FALSE(found.choice.empty());
  }
}

TEST_F(Prediction, MeasuredNorm) {
  std::string x = "tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>",
              g = "tensor<4096xbf16>";
  std::string text =
      "fusion.kernel @k config #fusion.config<\"row_reduction\", {}> sizes 1 "
      "(%a: " +
      x + ", %b: " + x + ", %g: " + g + ") { %s = fusion.add %a, %b : (" + x +
      ", " + x + ") -> " + x +
      " %n = fusion.rms_norm %s, %g {epsilon = 1.0e-5 : f32} : (" + x + ", " +
      g + ") -> " + x + " fusion.yield %s, %n : " + x + ", " + x + " }";
  EXPECT_NEAR(predict(text, {8192}).seconds * 1e6, 67.5, 4);
  EXPECT_NEAR(predict(text, {2048}).seconds * 1e6, 20.1, 2);
}
