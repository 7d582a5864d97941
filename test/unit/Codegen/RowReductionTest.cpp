//===- RowReductionTest.cpp - Norms, softmax and reductions on the host ---===//

#include "Harness.h"

#include "fusion/Support/FloatTypes.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::test;

class RowWidth : public testing::TestWithParam<std::pair<int, int>> {};

// Both results leave: the sum and its norm.
TEST_P(RowWidth, AddRmsNorm) {
  auto [rows, n] = GetParam();
  std::string w = std::to_string(n);
  std::string t = "tensor<?x" + w + "xf32, #fusion.shape<[d0, " + w + "]>>";
  Program program("fusion.kernel @k config #fusion.config<\"row_reduction\", "
                  "{}> sizes 1 (%a: " +
                  t + ", %b: " + t + ", %g: tensor<" + w +
                  "xf32>) {"
                  "%0 = fusion.add %a, %b : (" +
                  t + ", " + t + ") -> " + t +
                  "%1 = fusion.rms_norm %0, %g {epsilon = 1.0e-5 : f32} : (" +
                  t + ", tensor<" + w + "xf32>) -> " + t +
                  "fusion.yield %0, %1 : " + t + ", " + t + " }");
  ASSERT_TRUE(program.ok()) << program.error();
  size_t count = size_t(rows) * n;
  auto a = randomFloats(count, 1), b = randomFloats(count, 2),
       g = randomFloats(n, 3);
  std::vector<double> sum(count), norm(count);
  for (int r = 0; r < rows; ++r) {
    double squares = 0;
    for (int j = 0; j < n; ++j) {
      double s = double(a[r * n + j]) + b[r * n + j];
      sum[r * n + j] = s;
      squares += s * s;
    }
    for (int j = 0; j < n; ++j)
      norm[r * n + j] = sum[r * n + j] / std::sqrt(squares / n + 1e-5) * g[j];
  }
  std::vector<Buffer> buffers{Buffer::of(a), Buffer::of(b), Buffer::of(g),
                              Buffer::poisoned(4 * count),
                              Buffer::poisoned(4 * count)};
  EXPECT_EQ(program.run(
                buffers, {rows},
                [&] {
                  EXPECT_LT(relativeError(buffers[3].as<float>(), sum), 1e-7);
                  EXPECT_LT(relativeError(buffers[4].as<float>(), norm), 3e-7);
                }),
            0);
}

TEST_P(RowWidth, SoftmaxOfScaledSum) {
  auto [rows, n] = GetParam();
  Program program(
      R"(fusion.kernel @k config #fusion.config<"row_reduction", {}> sizes 2
    (%a: tensor<?x?xf32, #fusion.shape<[d0, d1]>>, %b: tensor<?xf32, #fusion.shape<[d1]>>) {
    %0 = fusion.add %a, %b : (tensor<?x?xf32, #fusion.shape<[d0, d1]>>, tensor<?xf32, #fusion.shape<[d1]>>) -> tensor<?x?xf32, #fusion.shape<[d0, d1]>>
    %1 = fusion.softmax %0 axis = 1 : (tensor<?x?xf32, #fusion.shape<[d0, d1]>>) -> tensor<?x?xf32, #fusion.shape<[d0, d1]>>
    fusion.yield %1 : tensor<?x?xf32, #fusion.shape<[d0, d1]>> })");
  ASSERT_TRUE(program.ok()) << program.error();
  size_t count = size_t(rows) * n;
  auto a = randomFloats(count, 1, -20, 20), b = randomFloats(n, 2, -20, 20);
  std::vector<double> expected(count);
  for (int r = 0; r < rows; ++r) {
    double top = -1e300, sum = 0;
    for (int j = 0; j < n; ++j)
      top = std::max(top, double(a[r * n + j]) + b[j]);
    for (int j = 0; j < n; ++j)
      sum += expected[r * n + j] = std::exp(double(a[r * n + j]) + b[j] - top);
    for (int j = 0; j < n; ++j)
      expected[r * n + j] /= sum;
  }
  std::vector<Buffer> buffers{Buffer::of(a), Buffer::of(b),
                              Buffer::poisoned(4 * count)};
  EXPECT_EQ(program.run(buffers, {rows, n},
                        [&] {
                          EXPECT_LT(
                              relativeError(buffers[2].as<float>(), expected),
                              2e-6);
                        }),
            0);
}

INSTANTIATE_TEST_SUITE_P(RowReduction, RowWidth,
                         testing::Values(std::pair(1, 576), std::pair(7, 64),
                                         std::pair(3, 37), std::pair(2, 5),
                                         std::pair(4, 1), std::pair(1, 5000)));

TEST(RowReduction, LayerNormOverTwoAxesInBf16) {
  Program program(
      R"(fusion.kernel @k config #fusion.config<"row_reduction", {}> sizes 0
    (%x: tensor<3x4x20xbf16>, %w: tensor<4x20xbf16>, %b: tensor<4x20xbf16>) {
    %0 = fusion.layer_norm %x, %w, %b {epsilon = 1.0e-5 : f32, axis = 1 : i64} : (tensor<3x4x20xbf16>, tensor<4x20xbf16>, tensor<4x20xbf16>) -> tensor<3x4x20xbf16>
    fusion.yield %0 : tensor<3x4x20xbf16> })");
  ASSERT_TRUE(program.ok()) << program.error();
  auto narrow = [](std::vector<float> v) {
    std::vector<uint16_t> r;
    for (float f : v)
      r.push_back(floatToBf16(f));
    return r;
  };
  auto x = narrow(randomFloats(240, 1)), w = narrow(randomFloats(80, 2)),
       b = narrow(randomFloats(80, 3));
  std::vector<Buffer> buffers{Buffer::of(x), Buffer::of(w), Buffer::of(b),
                              Buffer::poisoned(480)};
  program.run(buffers, {}, [&] {
    auto y = buffers[3].as<uint16_t>();
    for (int r = 0; r < 3; ++r) {
      double mean = 0, variance = 0;
      for (int j = 0; j < 80; ++j)
        mean += bf16ToFloat(x[r * 80 + j]) / 80.0;
      for (int j = 0; j < 80; ++j)
        variance += std::pow(bf16ToFloat(x[r * 80 + j]) - mean, 2) / 80;
      for (int j = 0; j < 80; ++j) {
        double e = (bf16ToFloat(x[r * 80 + j]) - mean) /
                       std::sqrt(variance + 1e-5) * bf16ToFloat(w[j]) +
                   bf16ToFloat(b[j]);
        ASSERT_NEAR(bf16ToFloat(y[r * 80 + j]), e, std::abs(e) / 250 + 1e-6);
      }
    }
  });
}

// What passes keep for each other, read from the row's end.
TEST(RowReduction, KeptElementsReversed) {
  Program program(
      R"(fusion.kernel @k config #fusion.config<"row_reduction", {}> sizes 0
    (%x: tensor<3x37xf32>) {
    %0 = fusion.abs %x : (tensor<3x37xf32>) -> tensor<3x37xf32>
    %1 = fusion.reduce_max %0 axes = [1] {keepdims} : (tensor<3x37xf32>) -> tensor<3x1xf32>
    %2 = fusion.slice %0 starts = ["0", "36"] steps = [1, -1] : (tensor<3x37xf32>) -> tensor<3x37xf32>
    %3 = fusion.softmax %0 axis = 1 : (tensor<3x37xf32>) -> tensor<3x37xf32>
    %4 = fusion.slice %3 starts = ["0", "36"] steps = [1, -1] : (tensor<3x37xf32>) -> tensor<3x37xf32>
    fusion.yield %1, %2, %4 : tensor<3x1xf32>, tensor<3x37xf32>, tensor<3x37xf32> })");
  ASSERT_TRUE(program.ok()) << program.error();
  auto x = randomFloats(111, 1);
  std::vector<Buffer> buffers{Buffer::of(x), Buffer::poisoned(12),
                              Buffer::poisoned(444), Buffer::poisoned(444)};
  program.run(buffers, {}, [&] {
    auto top = buffers[1].as<float>(), reversed = buffers[2].as<float>(),
         parts = buffers[3].as<float>();
    for (int r = 0; r < 3; ++r) {
      double largest = 0, sum = 0;
      for (int j = 0; j < 37; ++j) {
        largest = std::max(largest, std::abs(double(x[r * 37 + j])));
        sum += std::exp(std::abs(double(x[r * 37 + j])));
      }
      EXPECT_EQ(top[r], float(largest));
      for (int j = 0; j < 37; ++j) {
        double element = std::abs(double(x[r * 37 + 36 - j]));
        ASSERT_EQ(reversed[r * 37 + j], float(element));
        ASSERT_NEAR(parts[r * 37 + j], std::exp(element) / sum, 1e-7);
      }
    }
  });
}

// A mean along an inner axis, its square root in the same kernel, a transposed
// copy of the input besides.
TEST(RowReduction, MeanAlongMiddleAxis) {
  Program program(
      R"(fusion.kernel @k config #fusion.config<"row_reduction", {}> sizes 1
    (%x: tensor<2x?x9xf32, #fusion.shape<[2, d0, 9]>>) {
    %0 = fusion.abs %x : (tensor<2x?x9xf32, #fusion.shape<[2, d0, 9]>>) -> tensor<2x?x9xf32, #fusion.shape<[2, d0, 9]>>
    %1 = fusion.reduce_mean %0 axes = [1] : (tensor<2x?x9xf32, #fusion.shape<[2, d0, 9]>>) -> tensor<2x9xf32>
    %2 = fusion.sqrt %1 : (tensor<2x9xf32>) -> tensor<2x9xf32>
    %3 = fusion.reduce_max %0 axes = [1] {keepdims} : (tensor<2x?x9xf32, #fusion.shape<[2, d0, 9]>>) -> tensor<2x1x9xf32>
    %4 = fusion.sub %0, %3 : (tensor<2x?x9xf32, #fusion.shape<[2, d0, 9]>>, tensor<2x1x9xf32>) -> tensor<2x?x9xf32, #fusion.shape<[2, d0, 9]>>
    %5 = fusion.transpose %4 perm = [0, 2, 1] : (tensor<2x?x9xf32, #fusion.shape<[2, d0, 9]>>) -> tensor<2x9x?xf32, #fusion.shape<[2, 9, d0]>>
    fusion.yield %2, %5 : tensor<2x9xf32>, tensor<2x9x?xf32, #fusion.shape<[2, 9, d0]>> })");
  ASSERT_TRUE(program.ok()) << program.error();
  for (int n : {1, 16, 35}) {
    auto x = randomFloats(18 * n, 4);
    std::vector<Buffer> buffers{Buffer::of(x), Buffer::poisoned(72),
                                Buffer::poisoned(72 * n)};
    program.run(buffers, {n}, [&] {
      auto y = buffers[1].as<float>(), z = buffers[2].as<float>();
      for (int b = 0; b < 2; ++b)
        for (int c = 0; c < 9; ++c) {
          double sum = 0;
          float top = 0;
          for (int i = 0; i < n; ++i) {
            float v = std::abs(x[(b * n + i) * 9 + c]);
            sum += v;
            top = std::max(top, v);
          }
          ASSERT_NEAR(y[b * 9 + c], std::sqrt(sum / n), 1e-6);
          for (int i = 0; i < n; ++i)
            ASSERT_FLOAT_EQ(z[(b * 9 + c) * n + i],
                            std::abs(x[(b * n + i) * 9 + c]) - top);
        }
    });
  }
}

TEST(RowReduction, ArgMaxTakesFirst) {
  Program program(
      R"(fusion.kernel @k config #fusion.config<"row_reduction", {}> sizes 0 (%x: tensor<2x50xf32>) {
    %0 = fusion.arg_max %x axis = 1 : (tensor<2x50xf32>) -> tensor<2xi64>
    fusion.yield %0 : tensor<2xi64> })");
  ASSERT_TRUE(program.ok()) << program.error();
  auto x = randomFloats(100, 1);
  x[17] = x[33] = 5;
  x[50 + 49] = 9;
  std::vector<Buffer> buffers{Buffer::of(x), Buffer::poisoned(16)};
  program.run(buffers, {}, [&] {
    EXPECT_EQ(buffers[1].as<int64_t>(), (std::vector<int64_t>{17, 49}));
  });
}

TEST(Sequential, CumSumAndScatter) {
  Program sum(
      R"(fusion.kernel @k config #fusion.config<"sequential", {}> sizes 0 (%x: tensor<3x5xi64>) {
    %0 = fusion.cumsum %x axis = 1 {exclusive, reverse} : (tensor<3x5xi64>) -> tensor<3x5xi64>
    fusion.yield %0 : tensor<3x5xi64> })");
  Program scatter(
      R"(fusion.kernel @k config #fusion.config<"sequential", {}> sizes 0 (%x: tensor<4x3xf32>, %i: tensor<2x1xi64>, %u: tensor<2x3xf32>) {
    %0 = fusion.scatter_nd %x, %i, %u {reduction = "add"} : (tensor<4x3xf32>, tensor<2x1xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
    fusion.yield %0 : tensor<4x3xf32> })");
  ASSERT_TRUE(sum.ok() && scatter.ok()) << sum.error() << scatter.error();
  std::vector<int64_t> x;
  for (int i = 0; i < 15; ++i)
    x.push_back(i * i - 20);
  std::vector<Buffer> buffers{Buffer::of(x), Buffer::poisoned(120)};
  sum.run(buffers, {}, [&] {
    auto y = buffers[1].as<int64_t>();
    for (int r = 0; r < 3; ++r) {
      int64_t running = 0;
      for (int j = 4; j >= 0; running += x[r * 5 + j--])
        ASSERT_EQ(y[r * 5 + j], running);
    }
  });
  auto data = randomFloats(12, 1), updates = randomFloats(6, 2);
  std::vector<Buffer> b{Buffer::of(data),
                        Buffer::of(std::vector<int64_t>{-1, 3}),
                        Buffer::of(updates), Buffer::poisoned(48)};
  scatter.run(b, {}, [&] {
    auto y = b[3].as<float>();
    for (int j = 0; j < 3; ++j) {
      ASSERT_EQ(y[j], data[j]);
      ASSERT_FLOAT_EQ(y[9 + j], data[9 + j] + updates[j] + updates[3 + j]);
    }
  });
}
