//===- MatmulTest.cpp - Matrix products on the host -----------------------===//

#include "Harness.h"

#include "fusion/Support/FloatTypes.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::test;

static std::vector<double> product(const std::vector<float> &x,
                                   const std::vector<float> &w, int m, int n,
                                   int k, bool transposed) {
  std::vector<double> y(size_t(m) * n);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j)
      for (int a = 0; a < k; ++a)
        y[size_t(i) * n + j] +=
            double(x[i * k + a]) * (transposed ? w[j * k + a] : w[a * n + j]);
  return y;
}

struct Size {
  int m, n, k;
  bool transposed, symbolic;
};
class Matmul : public testing::TestWithParam<Size> {};

TEST_P(Matmul, WithNormBeforeAndSiluAfter) {
  const Size &size = GetParam();
  const int m = size.m, n = size.n, k = size.k;
  const bool transposed = size.transposed, symbolic = size.symbolic;
  auto shape = [&](int columns) {
    std::string c = std::to_string(columns);
    return symbolic
               ? "tensor<1x?x" + c + "xf32, #fusion.shape<[1, d0, " + c + "]>>"
               : "tensor<1x" + std::to_string(m) + "x" + c + "xf32>";
  };
  std::string x = shape(k), y = shape(n);
  std::string w =
      transposed
          ? "tensor<" + std::to_string(n) + "x" + std::to_string(k) + "xf32>"
          : "tensor<" + std::to_string(k) + "x" + std::to_string(n) + "xf32>";
  std::string attr = transposed ? " {transpose_rhs}" : "";
  for (bool fused : {false, true}) {
    std::string text =
        "fusion.kernel @k config #fusion.config<\"matmul\", {}> sizes " +
        std::string(symbolic ? "1" : "0") + " (%x: " + x + ", %w: " + w +
        ", %r: " + y + ") {";
    if (fused)
      text += "%0 = fusion.rms_norm %x {epsilon = 1.0e-5 : f32} : (" + x +
              ") -> " + x;
    text += "%1 = fusion.matmul " + std::string(fused ? "%0" : "%x") + ", %w" +
            attr + " : (" + x + ", " + w + ") -> " + y;
    if (fused)
      text += "%2 = fusion.silu %1 : (" + y + ") -> " + y +
              " %3 = fusion.add %2, %r : (" + y + ", " + y + ") -> " + y;
    text +=
        "fusion.yield " + std::string(fused ? "%3" : "%1") + " : " + y + " }";
    Program program(text);
    ASSERT_TRUE(program.ok()) << program.error();
    auto xs = randomFloats(m * k, 1), ws = randomFloats(n * k, 2),
         rs = randomFloats(m * n, 3);
    auto input = xs;
    if (fused)
      for (int i = 0; i < m; ++i) {
        double squares = 0;
        for (int a = 0; a < k; ++a)
          squares += double(xs[i * k + a]) * xs[i * k + a];
        for (int a = 0; a < k; ++a)
          input[i * k + a] = xs[i * k + a] / std::sqrt(squares / k + 1e-5);
      }
    auto expected = product(input, ws, m, n, k, transposed);
    if (fused)
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] = expected[i] / (1 + std::exp(-expected[i])) + rs[i];
    std::vector<Buffer> buffers{Buffer::of(xs), Buffer::of(ws), Buffer::of(rs),
                                Buffer::poisoned(4 * m * n)};
    std::vector<int64_t> sizes;
    if (symbolic)
      sizes.push_back(m);
    EXPECT_EQ(program.run(buffers, sizes,
                          [&] {
                            EXPECT_LT(
                                relativeError(buffers[3].as<float>(), expected),
                                1e-6);
                          }),
              0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Host, Matmul,
    testing::Values(Size{1, 576, 192, false, false},
                    Size{1, 576, 192, true, false},
                    Size{1, 2100, 40, false, true}, Size{3, 50, 37, true, true},
                    Size{4, 50, 37, false, true}, Size{5, 70, 33, false, true},
                    Size{5, 70, 33, true, true}, Size{300, 40, 20, true, true},
                    Size{64, 300, 48, false, false},
                    Size{1, 1, 7, true, false}),
    [](const auto &info) {
      const Size &s = info.param;
      return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" +
             std::to_string(s.k) + (s.transposed ? "t" : "n") +
             (s.symbolic ? "s" : "c");
    });

// Both products of a gated unit; f16 weights.
TEST(Matmul, SwigluOverHalfWeights) {
  for (int m : {1, 9}) {
    Program program(
        R"(fusion.kernel @k config #fusion.config<"matmul", {}> sizes 1
      (%x: tensor<?x40xf32, #fusion.shape<[d0, 40]>>, %g: tensor<40x70xf16>, %u: tensor<40x70xf16>) {
      %a = fusion.cast %g : (tensor<40x70xf16>) -> tensor<40x70xf32>
      %b = fusion.cast %u : (tensor<40x70xf16>) -> tensor<40x70xf32>
      %0 = fusion.matmul %x, %a : (tensor<?x40xf32, #fusion.shape<[d0, 40]>>, tensor<40x70xf32>) -> tensor<?x70xf32, #fusion.shape<[d0, 70]>>
      %1 = fusion.matmul %x, %b : (tensor<?x40xf32, #fusion.shape<[d0, 40]>>, tensor<40x70xf32>) -> tensor<?x70xf32, #fusion.shape<[d0, 70]>>
      %2 = fusion.silu %0 : (tensor<?x70xf32, #fusion.shape<[d0, 70]>>) -> tensor<?x70xf32, #fusion.shape<[d0, 70]>>
      %3 = fusion.mul %2, %1 : (tensor<?x70xf32, #fusion.shape<[d0, 70]>>, tensor<?x70xf32, #fusion.shape<[d0, 70]>>) -> tensor<?x70xf32, #fusion.shape<[d0, 70]>>
      fusion.yield %3 : tensor<?x70xf32, #fusion.shape<[d0, 70]>> })");
    ASSERT_TRUE(program.ok()) << program.error();
    auto x = randomFloats(m * 40, 1);
    std::vector<uint16_t> g, u;
    std::vector<float> gf, uf;
    for (float f : randomFloats(2800, 2)) {
      g.push_back(floatToF16(f));
      gf.push_back(f16ToFloat(g.back()));
    }
    for (float f : randomFloats(2800, 3)) {
      u.push_back(floatToF16(f));
      uf.push_back(f16ToFloat(u.back()));
    }
    auto a = product(x, gf, m, 70, 40, false),
         b = product(x, uf, m, 70, 40, false);
    for (size_t i = 0; i < a.size(); ++i)
      a[i] = a[i] / (1 + std::exp(-a[i])) * b[i];
    std::vector<Buffer> buffers{Buffer::of(x), Buffer::of(g), Buffer::of(u),
                                Buffer::poisoned(4 * m * 70)};
    EXPECT_EQ(program.run(buffers, {m},
                          [&] {
                            EXPECT_LT(relativeError(buffers[3].as<float>(), a),
                                      1e-6);
                          }),
              0);
  }
}

// Batched, the rhs broadcast over one axis, the result in [batch, M, heads, N].
TEST(Matmul, BatchedWithViews) {
  Program program(
      R"(fusion.kernel @k config #fusion.config<"matmul", {}> sizes 1
    (%x: tensor<2x3x?x16xf32, #fusion.shape<[2, 3, d0, 16]>>, %w: tensor<2x1x20x16xf32>) {
    %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<2x3x?x16xf32, #fusion.shape<[2, 3, d0, 16]>>, tensor<2x1x20x16xf32>) -> tensor<2x3x?x20xf32, #fusion.shape<[2, 3, d0, 20]>>
    %1 = fusion.transpose %0 perm = [0, 2, 1, 3] : (tensor<2x3x?x20xf32, #fusion.shape<[2, 3, d0, 20]>>) -> tensor<2x?x3x20xf32, #fusion.shape<[2, d0, 3, 20]>>
    %2 = fusion.reshape %1 : (tensor<2x?x3x20xf32, #fusion.shape<[2, d0, 3, 20]>>) -> tensor<2x?x60xf32, #fusion.shape<[2, d0, 60]>>
    fusion.yield %2 : tensor<2x?x60xf32, #fusion.shape<[2, d0, 60]>> })");
  ASSERT_TRUE(program.ok()) << program.error();
  for (int m : {1, 6}) {
    auto x = randomFloats(6 * m * 16, 1), w = randomFloats(640, 2);
    std::vector<double> expected(120 * m);
    for (int b = 0; b < 2; ++b)
      for (int h = 0; h < 3; ++h)
        for (int i = 0; i < m; ++i)
          for (int j = 0; j < 20; ++j)
            for (int a = 0; a < 16; ++a)
              expected[((b * m + i) * 3 + h) * 20 + j] +=
                  double(x[((b * 3 + h) * m + i) * 16 + a]) *
                  w[(b * 20 + j) * 16 + a];
    std::vector<Buffer> buffers{Buffer::of(x), Buffer::of(w),
                                Buffer::poisoned(480 * m)};
    EXPECT_EQ(program.run(buffers, {m},
                          [&] {
                            EXPECT_LT(
                                relativeError(buffers[2].as<float>(), expected),
                                1e-6);
                          }),
              0);
  }
}

// The sum before the product leaves too; rows of lhs run backwards.
TEST(Matmul, PrologueLeavesAndRowsReversed) {
  Program program(
      R"(fusion.kernel @k config #fusion.config<"matmul", {}> sizes 0
    (%x: tensor<6x24xf32>, %b: tensor<24xf32>, %w: tensor<24x20xf32>) {
    %0 = fusion.add %x, %b : (tensor<6x24xf32>, tensor<24xf32>) -> tensor<6x24xf32>
    %1 = fusion.slice %x starts = ["5", "0"] steps = [-1, 1] : (tensor<6x24xf32>) -> tensor<6x24xf32>
    %2 = fusion.matmul %1, %w : (tensor<6x24xf32>, tensor<24x20xf32>) -> tensor<6x20xf32>
    fusion.yield %0, %2 : tensor<6x24xf32>, tensor<6x20xf32> })");
  ASSERT_TRUE(program.ok()) << program.error();
  auto x = randomFloats(144, 1), b = randomFloats(24, 2),
       w = randomFloats(480, 3);
  std::vector<float> reversed(144);
  std::vector<double> sum(144);
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 24; ++j) {
      reversed[i * 24 + j] = x[(5 - i) * 24 + j];
      sum[i * 24 + j] = double(x[i * 24 + j]) + b[j];
    }
  auto expected = product(reversed, w, 6, 20, 24, false);
  std::vector<Buffer> buffers{Buffer::of(x), Buffer::of(b), Buffer::of(w),
                              Buffer::poisoned(576), Buffer::poisoned(480)};
  EXPECT_EQ(
      program.run(buffers, {},
                  [&] {
                    EXPECT_LT(relativeError(buffers[3].as<float>(), sum), 1e-7);
                    EXPECT_LT(relativeError(buffers[4].as<float>(), expected),
                              1e-6);
                  }),
      0);
}

// Products that no template takes: of integers, and of vectors.
TEST(Matmul, IntegersAndVectors) {
  Program program(
      R"(fusion.kernel @k config #fusion.config<"matmul", {}> sizes 0 (%x: tensor<3x9xi8>, %w: tensor<9x21xui8>) {
    %0 = fusion.matmul %x, %w : (tensor<3x9xi8>, tensor<9x21xui8>) -> tensor<3x21xi32>
    fusion.yield %0 : tensor<3x21xi32> })");
  Program dot(
      R"(fusion.kernel @k config #fusion.config<"matmul", {}> sizes 0 (%x: tensor<40xf32>, %w: tensor<40x18xf32>) {
    %0 = fusion.matmul %x, %w : (tensor<40xf32>, tensor<40x18xf32>) -> tensor<18xf32>
    fusion.yield %0 : tensor<18xf32> })");
  ASSERT_TRUE(program.ok() && dot.ok()) << program.error() << dot.error();
  std::vector<int8_t> x(27);
  std::vector<uint8_t> w(189);
  std::mt19937 engine(1);
  for (auto &v : x)
    v = engine();
  for (auto &v : w)
    v = engine();
  std::vector<Buffer> buffers{Buffer::of(x), Buffer::of(w),
                              Buffer::poisoned(252)};
  program.run(buffers, {}, [&] {
    auto y = buffers[2].as<int32_t>();
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 21; ++j) {
        int sum = 0;
        for (int a = 0; a < 9; ++a)
          sum += x[i * 9 + a] * w[a * 21 + j];
        ASSERT_EQ(y[i * 21 + j], sum);
      }
  });
  auto v = randomFloats(40, 2), m = randomFloats(720, 3);
  auto expected = product(v, m, 1, 18, 40, false);
  std::vector<Buffer> b{Buffer::of(v), Buffer::of(m), Buffer::poisoned(72)};
  dot.run(b, {},
          [&] { EXPECT_LT(relativeError(b[2].as<float>(), expected), 1e-6); });
}

struct Packed {
  int bits;
  std::string type;
  std::string zero; ///< type of the zero points, or "" for none
  int implicit;
};
class LowBit : public testing::TestWithParam<Packed> {};

TEST_P(LowBit, DequantizedProduct) {
  const Packed &p = GetParam();
  constexpr int kDepth = 96, kN = 70, kBlocks = 3;
  std::string q = "tensor<70x96x" + p.type + ">";
  std::string z = "tensor<70x3x" + p.zero + ">";
  bool hasZero = !p.zero.empty();
  std::string text =
      "fusion.kernel @k config #fusion.config<\"matmul\", {}> sizes 1 (%x: "
      "tensor<?x96xf32, #fusion.shape<[d0, 96]>>, %q: " +
      q + ", %s: tensor<70x3xf32>" + (hasZero ? ", %z: " + z : "") +
      ") {"
      "%w = fusion.dequantize %q, %s " +
      (hasZero ? "zero_point %z " : "") +
      "{axis = 1 : i64, block_size = 32 : i64, implicit_zero_point = " +
      std::to_string(p.implicit) + " : i64} : (" + q + ", tensor<70x3xf32>" +
      (hasZero ? ", " + z : "") +
      ") -> tensor<70x96xf32>"
      "%0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x96xf32, "
      "#fusion.shape<[d0, 96]>>, tensor<70x96xf32>) -> tensor<?x70xf32, "
      "#fusion.shape<[d0, 70]>>"
      "fusion.yield %0 : tensor<?x70xf32, #fusion.shape<[d0, 70]>> }";
  Program program(text);
  ASSERT_TRUE(program.ok()) << program.error();
  std::mt19937 engine(5);
  std::vector<int> codes(kN * kDepth), zeros(kN * kBlocks);
  int low = p.type[0] == 'u' ? 0 : -(1 << (p.bits - 1));
  auto draw = [&] { return low + int(engine() % (1u << p.bits)); };
  for (int &c : codes)
    c = draw();
  for (int &c : zeros)
    c = draw();
  auto pack = [&](const std::vector<int> &values) {
    Buffer b;
    b.bytes.assign((values.size() * p.bits + 7) / 8, 0);
    for (size_t i = 0; i < values.size(); ++i)
      b.bytes[i * p.bits / 8] |= (values[i] & ((1 << p.bits) - 1))
                                 << (i * p.bits % 8);
    return b;
  };
  auto scales = randomFloats(kN * kBlocks, 6, 0.01f, 0.1f),
       floats = randomFloats(kN * kBlocks, 7, 0, 15);
  std::vector<float> w(kN * kDepth);
  for (int n = 0; n < kN; ++n)
    for (int k = 0; k < kDepth; ++k) {
      int block = n * kBlocks + k / 32;
      float zero = !hasZero          ? p.implicit
                   : p.zero == "f32" ? floats[block]
                                     : zeros[block];
      w[n * kDepth + k] = (codes[n * kDepth + k] - zero) * scales[block];
    }
  for (int m : {1, 2, 11}) {
    auto x = randomFloats(m * kDepth, 8);
    auto expected = product(x, w, m, kN, kDepth, true);
    std::vector<Buffer> buffers{Buffer::of(x), pack(codes), Buffer::of(scales)};
    if (hasZero)
      buffers.push_back(p.zero == "f32" ? Buffer::of(floats) : pack(zeros));
    buffers.push_back(Buffer::poisoned(4 * m * kN));
    EXPECT_EQ(program.run(buffers, {m},
                          [&] {
                            EXPECT_LT(relativeError(buffers.back().as<float>(),
                                                    expected),
                                      2e-6);
                          }),
              0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Host, LowBit,
    testing::Values(Packed{4, "ui4", "f32", 0}, Packed{4, "ui4", "ui4", 0},
                    Packed{4, "ui4", "", 8}, Packed{4, "i4", "", 0},
                    Packed{8, "ui8", "", 128}, Packed{8, "i8", "i8", 0},
                    Packed{8, "ui8", "f32", 0}),
    [](const auto &info) {
      return info.param.type + "_" +
             (info.param.zero.empty() ? "none" : info.param.zero);
    });
