//===- PointwiseTest.cpp - Elements, views and conversions on the host ----===//

#include "Harness.h"

#include "fusion/Support/FloatTypes.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::test;

static std::string unaryKernel(const std::string &op, size_t n,
                               const std::string &attr = "") {
  std::string t = "tensor<" + std::to_string(n) + "xf32>";
  return "fusion.kernel @k config #fusion.config<\"pointwise\", {}> sizes 0 "
         "(%x: " +
         t + ") { %0 = fusion." + op + " %x " + attr + " : (" + t + ") -> " +
         t + " fusion.yield %0 : " + t + " }";
}

struct Function {
  const char *name;
  double (*reference)(double);
  double low, high;
  double tolerance; // in units of the last place of f32
  const char *attr = "";
};

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
static double silu(double x) { return x * sigmoid(x); }
static double gelu(double x) {
  return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
}
static double geluTanh(double x) {
  return x / 2 *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
static double softplus(double x) { return std::log1p(std::exp(x)); }
static double rsqrt(double x) { return 1 / std::sqrt(x); }
static double relu(double x) { return x > 0 ? x : 0; }

class Elementary : public testing::TestWithParam<Function> {};

TEST_P(Elementary, CloseToLibm) {
  const Function &f = GetParam();
  size_t n = 1003;
  std::vector<float> x = randomFloats(n, 7, f.low, f.high);
  Program program(unaryKernel(f.name, n, f.attr));
  ASSERT_TRUE(program.ok()) << program.error();
  std::vector<Buffer> buffers{Buffer::of(x), Buffer::poisoned(4 * n)};
  int status = program.run(buffers, {}, [&] {
    std::vector<float> y = buffers[1].as<float>();
    for (size_t i = 0; i < n; ++i) {
      double exact = f.reference(x[i]);
      double unit = std::max(std::abs(exact), 1e-6) * std::ldexp(1.0, -23);
      ASSERT_LE(std::abs(y[i] - exact), f.tolerance * unit)
          << f.name << "(" << x[i] << ") = " << y[i] << ", not " << exact;
    }
  });
  EXPECT_EQ(status, 0);
}

static const Function kFunctions[] = {
    {"exp", std::exp, -87, 88, 1.5},
    {"log", std::log, 1e-6, 1e6, 1.5},
    {"sqrt", std::sqrt, 0, 1e9, 0.6},
    {"rsqrt", rsqrt, 1e-6, 1e6, 2},
    {"sin", std::sin, -100000, 100000, 1.5},
    {"cos", std::cos, -100000, 100000, 1.5},
    {"tan", std::tan, -100, 100, 1},
    {"asin", std::asin, -1, 1, 1},
    {"acos", std::acos, -1, 1, 1},
    {"atan", std::atan, -50, 50, 1},
    {"sinh", std::sinh, -20, 20, 1},
    {"cosh", std::cosh, -20, 20, 1},
    {"asinh", std::asinh, -1000, 1000, 1},
    {"acosh", std::acosh, 1, 1000, 1},
    {"atanh", std::atanh, -0.999, 0.999, 1},
    {"tanh", std::tanh, -10, 10, 2},
    {"erf", std::erf, -5, 5, 2},
    {"sigmoid", sigmoid, -30, 30, 3},
    {"silu", silu, -20, 20, 4},
    {"gelu", gelu, 0, 6, 4},
    {"gelu", geluTanh, 0, 6, 6, "{tanh}"},
    {"softplus", softplus, -20, 20, 4},
    {"relu", relu, -5, 5, 0},
    {"floor", std::floor, -50, 50, 0},
    {"ceil", std::ceil, -50, 50, 0},
    {"round", std::nearbyint, -50, 50, 0},
};
INSTANTIATE_TEST_SUITE_P(Pointwise, Elementary, testing::ValuesIn(kFunctions),
                         [](const auto &info) {
                           return std::string(info.param.name) +
                                  std::to_string(info.index);
                         });

TEST(Pointwise, SpecialValues) {
  float inf = std::numeric_limits<float>::infinity(), nan = NAN;
  std::vector<float> x{inf, -inf, nan, 0.0f, -0.0f, 100.0f, -200.0f, 1e-40f};
  auto apply = [&](const std::string &op) {
    Program program(unaryKernel(op, x.size()));
    EXPECT_TRUE(program.ok()) << program.error();
    std::vector<Buffer> buffers{Buffer::of(x), Buffer::poisoned(4 * x.size())};
    program.run(buffers, {}, [] {});
    return buffers[1].as<float>();
  };
  std::vector<float> y = apply("exp");
  EXPECT_EQ(y[0], inf);
  EXPECT_EQ(y[1], 0);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 1);
  EXPECT_EQ(y[5], inf);
  EXPECT_EQ(y[6], 0);
  y = apply("log");
  EXPECT_EQ(y[0], inf);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], -inf);
  EXPECT_NEAR(y[7], std::log(1e-40), 1e-5);
  y = apply("tanh");
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], -1);
  EXPECT_TRUE(std::isnan(y[2]));
}

TEST(Pointwise, PowFollowsC) {
  std::vector<float> x{2, -2, -2, 0, -8, 3, 1.5f, -1, 0.5f, 10};
  std::vector<float> y{10, 3, 0.5f, 0, 1.0f / 3, -2, 2.5f, 7, -3, 2.25f};
  Program program(
      R"(fusion.kernel @k config #fusion.config<"pointwise", {}> sizes 0
    (%x: tensor<10xf32>, %y: tensor<10xf32>) {
    %0 = fusion.pow %x, %y : (tensor<10xf32>, tensor<10xf32>) -> tensor<10xf32>
    fusion.yield %0 : tensor<10xf32> })");
  ASSERT_TRUE(program.ok()) << program.error();
  std::vector<Buffer> buffers{Buffer::of(x), Buffer::of(y),
                              Buffer::poisoned(40)};
  program.run(buffers, {}, [&] {
    auto z = buffers[2].as<float>();
    for (size_t i = 0; i < x.size(); ++i) {
      double exact = std::pow(double(x[i]), double(y[i]));
      if (std::isnan(exact))
        EXPECT_TRUE(std::isnan(z[i]));
      else
        EXPECT_NEAR(z[i], exact, std::abs(exact) * 1e-7);
    }
  });
}

// Large results: an error of the logarithm's last bit would be hundreds of
// units of the result's.
TEST(Pointwise, PowOfDoublesToItsLastPlaces) {
  std::vector<double> x{2,    1.42, 0.7, 1.1,    3,      0.5,   1e300,
                        1e-5, 9.5,  10,  5e-324, 1.0001, -1.25, 0.99};
  std::vector<double> y{1000.5, 1711, -1682, 6295, 545.25, 900,  0.97,
                        -61.5,  -300, 308.2, 0.95, 7e6,    2999, 60000};
  Program program(
      R"(fusion.kernel @k config #fusion.config<"pointwise", {}> sizes 0
    (%x: tensor<14xf64>, %y: tensor<14xf64>) {
    %0 = fusion.pow %x, %y : (tensor<14xf64>, tensor<14xf64>) -> tensor<14xf64>
    fusion.yield %0 : tensor<14xf64> })");
  ASSERT_TRUE(program.ok()) << program.error();
  std::vector<Buffer> buffers{Buffer::of(x), Buffer::of(y),
                              Buffer::poisoned(14 * 8)};
  program.run(buffers, {}, [&] {
    auto z = buffers[2].as<double>();
    for (size_t i = 0; i < x.size(); ++i) {
      double exact = std::pow(x[i], y[i]);
      EXPECT_NEAR(z[i], exact, std::abs(exact) * 4.5e-16) << x[i];
    }
  });
}

// Broadcasts, a transposed operand, a symbolic size and a tail.
TEST(Pointwise, ViewsAndBroadcasts) {
  Program program(
      R"(fusion.kernel @k config #fusion.config<"pointwise", {}> sizes 2
    (%x: tensor<?x?xf32, #fusion.shape<[d0, d1]>>, %y: tensor<?x?xf32, #fusion.shape<[d1, d0]>>, %z: tensor<?xf32, #fusion.shape<[d1]>>) {
    %0 = fusion.transpose %y perm = [1, 0] : (tensor<?x?xf32, #fusion.shape<[d1, d0]>>) -> tensor<?x?xf32, #fusion.shape<[d0, d1]>>
    %1 = fusion.mul %x, %0 : (tensor<?x?xf32, #fusion.shape<[d0, d1]>>, tensor<?x?xf32, #fusion.shape<[d0, d1]>>) -> tensor<?x?xf32, #fusion.shape<[d0, d1]>>
    %2 = fusion.add %1, %z : (tensor<?x?xf32, #fusion.shape<[d0, d1]>>, tensor<?xf32, #fusion.shape<[d1]>>) -> tensor<?x?xf32, #fusion.shape<[d0, d1]>>
    fusion.yield %2 : tensor<?x?xf32, #fusion.shape<[d0, d1]>> })");
  ASSERT_TRUE(program.ok()) << program.error();
  for (auto sizes :
       {std::pair<int64_t, int64_t>{5, 37}, {1, 4100}, {3, 1}, {0, 8}}) {
    const int64_t a = sizes.first, b = sizes.second;
    auto x = randomFloats(a * b, 1), y = randomFloats(a * b, 2),
         z = randomFloats(b, 3);
    std::vector<Buffer> buffers{Buffer::of(x), Buffer::of(y), Buffer::of(z),
                                Buffer::poisoned(4 * a * b)};
    program.run(buffers, {a, b}, [&] {
      auto r = buffers[3].as<float>();
      for (int64_t i = 0; i < a; ++i)
        for (int64_t j = 0; j < b; ++j)
          ASSERT_FLOAT_EQ(r[i * b + j], x[i * b + j] * y[j * a + i] + z[j]);
    });
  }
}

// Half-rotated vectors by Slice, Neg and Concat, as exporters write them.
TEST(Pointwise, SliceNegateConcat) {
  Program program(
      R"(fusion.kernel @k config #fusion.config<"pointwise", {}> sizes 0 (%x: tensor<3x64xf32>) {
    %a = fusion.slice %x starts = ["0", "0"] steps = [1, 1] : (tensor<3x64xf32>) -> tensor<3x32xf32>
    %b = fusion.slice %x starts = ["0", "32"] steps = [1, 1] : (tensor<3x64xf32>) -> tensor<3x32xf32>
    %n = fusion.neg %b : (tensor<3x32xf32>) -> tensor<3x32xf32>
    %c = fusion.concat %n, %a axis = 1 : (tensor<3x32xf32>, tensor<3x32xf32>) -> tensor<3x64xf32>
    fusion.yield %c : tensor<3x64xf32> })");
  ASSERT_TRUE(program.ok()) << program.error();
  auto x = randomFloats(192, 4);
  std::vector<Buffer> buffers{Buffer::of(x), Buffer::poisoned(768)};
  program.run(buffers, {}, [&] {
    auto r = buffers[1].as<float>();
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 64; ++j)
        ASSERT_EQ(r[i * 64 + j],
                  j < 32 ? -x[i * 64 + j + 32] : x[i * 64 + j - 32]);
  });
}

TEST(Pointwise, GatherClampsAndReports) {
  Program program(
      R"(fusion.kernel @k config #fusion.config<"pointwise", {}> sizes 1
    (%d: tensor<10x20xf32>, %i: tensor<?xi64, #fusion.shape<[d0]>>) {
    %0 = fusion.gather %d, %i axis = 0 : (tensor<10x20xf32>, tensor<?xi64, #fusion.shape<[d0]>>) -> tensor<?x20xf32, #fusion.shape<[d0, 20]>>
    fusion.yield %0 : tensor<?x20xf32, #fusion.shape<[d0, 20]>> })");
  ASSERT_TRUE(program.ok()) << program.error();
  auto d = randomFloats(200, 5);
  auto test = [&](std::vector<int64_t> indices, std::vector<int> rows,
                  int status) {
    std::vector<Buffer> buffers{Buffer::of(d), Buffer::of(indices),
                                Buffer::poisoned(80 * indices.size())};
    EXPECT_EQ(program.run(buffers, {int64_t(indices.size())},
                          [&] {
                            auto r = buffers[2].as<float>();
                            for (size_t i = 0; i < rows.size(); ++i)
                              for (int j = 0; j < 20; ++j)
                                ASSERT_EQ(r[i * 20 + j], d[rows[i] * 20 + j]);
                          }),
              status);
  };
  test({3, -1, 0, 9}, {3, 9, 0, 9}, 0);
  test({3, 10, -11}, {3, 9, 0}, kHostIndexOutOfRange);
}

// 16-bit floats: computed in f32, rounded once at the result.
TEST(Pointwise, NarrowFloats) {
  for (bool bf16 : {false, true}) {
    std::string t = bf16 ? "tensor<45xbf16>" : "tensor<45xf16>";
    Program program("fusion.kernel @k config #fusion.config<\"pointwise\", {}> "
                    "sizes 0 (%x: " +
                    t + ", %y: " + t +
                    ") {"
                    "%0 = fusion.mul %x, %y : (" +
                    t + ", " + t + ") -> " + t + "%1 = fusion.add %0, %x : (" +
                    t + ", " + t + ") -> " + t + "fusion.yield %1 : " + t +
                    " }");
    ASSERT_TRUE(program.ok()) << program.error();
    auto encode = [&](float f) {
      return bf16 ? floatToBf16(f) : floatToF16(f);
    };
    auto decode = [&](uint16_t h) {
      return bf16 ? bf16ToFloat(h) : f16ToFloat(h);
    };
    std::vector<uint16_t> x, y;
    for (float f : randomFloats(45, 8, -3, 3))
      x.push_back(encode(f));
    for (float f : randomFloats(45, 9, -3, 3))
      y.push_back(encode(f));
    std::vector<Buffer> buffers{Buffer::of(x), Buffer::of(y),
                                Buffer::poisoned(90)};
    program.run(buffers, {}, [&] {
      auto r = buffers[2].as<uint16_t>();
      for (int i = 0; i < 45; ++i)
        ASSERT_EQ(r[i], encode(decode(x[i]) * decode(y[i]) + decode(x[i])));
    });
  }
}

TEST(Pointwise, EveryFp8ValueRoundTrips) {
  for (const auto &named :
       {std::pair<std::string, FloatFormat>{"f8E4M3FN", kF8E4M3FN},
        {"f8E4M3FNUZ", kF8E4M3FNUZ},
        {"f8E5M2FNUZ", kF8E5M2FNUZ},
        {"f8E5M2", kF8E5M2}}) {
    const std::string &type = named.first;
    const FloatFormat &format = named.second;
    std::string a = "tensor<256x" + type + ">", f = "tensor<256xf32>";
    Program decode("fusion.kernel @k config #fusion.config<\"pointwise\", {}> "
                   "sizes 0 (%x: " +
                   a +
                   ") {"
                   "%0 = fusion.cast %x : (" +
                   a + ") -> " + f + " fusion.yield %0 : " + f + " }");
    Program encode("fusion.kernel @k config #fusion.config<\"pointwise\", {}> "
                   "sizes 0 (%x: " +
                   f +
                   ") {"
                   "%0 = fusion.cast %x : (" +
                   f + ") -> " + a + " fusion.yield %0 : " + a + " }");
    ASSERT_TRUE(decode.ok() && encode.ok()) << decode.error() << encode.error();
    std::vector<uint8_t> all(256);
    std::vector<float> inputs = randomFloats(256, 11, -600, 600);
    for (int i = 0; i < 256; ++i) {
      all[i] = i;
      if (i < 200)
        inputs[i] *= std::ldexp(1.0f, -(i % 20));
    }
    std::vector<Buffer> buffers{Buffer::of(all), Buffer::poisoned(1024)};
    decode.run(buffers, {}, [&] {
      auto r = buffers[1].as<float>();
      for (int i = 0; i < 256; ++i) {
        float exact = decodeFloat(format, i);
        if (exact != exact)
          ASSERT_TRUE(r[i] != r[i]);
        else
          ASSERT_EQ(r[i], exact);
      }
    });
    std::vector<Buffer> back{Buffer::of(inputs), Buffer::poisoned(256)};
    encode.run(back, {}, [&] {
      auto r = back[1].as<uint8_t>();
      for (int i = 0; i < 256; ++i)
        ASSERT_EQ(r[i], encodeFloat(format, inputs[i], Overflow::Saturate))
            << inputs[i];
    });
  }
}

TEST(Pointwise, Integers) {
  Program program(
      R"(fusion.kernel @k config #fusion.config<"pointwise", {}> sizes 0 (%x: tensor<21xi64>, %y: tensor<21xi64>) {
    %0 = fusion.div %x, %y : (tensor<21xi64>, tensor<21xi64>) -> tensor<21xi64>
    %1 = fusion.mod %x, %y : (tensor<21xi64>, tensor<21xi64>) -> tensor<21xi64>
    %2 = fusion.less %x, %y : (tensor<21xi64>, tensor<21xi64>) -> tensor<21xi1>
    fusion.yield %0, %1, %2 : tensor<21xi64>, tensor<21xi64>, tensor<21xi1> })");
  ASSERT_TRUE(program.ok()) << program.error();
  std::vector<int64_t> x, y;
  for (int i = 0; i < 21; ++i) {
    x.push_back((i - 10) * 7);
    y.push_back(i % 2 ? 3 : -4);
  }
  x[0] = INT64_MIN;
  y[0] = -1; // traps where it is not caught
  std::vector<Buffer> buffers{Buffer::of(x), Buffer::of(y),
                              Buffer::poisoned(168), Buffer::poisoned(168),
                              Buffer::poisoned(21)};
  EXPECT_EQ(program.run(buffers, {},
                        [&] {
                          auto q = buffers[2].as<int64_t>(),
                               r = buffers[3].as<int64_t>();
                          auto l = buffers[4].as<uint8_t>();
                          for (int i = 1; i < 21; ++i) {
                            int64_t m = x[i] % y[i];
                            if (m && (m < 0) != (y[i] < 0))
                              m += y[i];
                            ASSERT_EQ(q[i], x[i] / y[i]);
                            ASSERT_EQ(r[i], m);
                            ASSERT_EQ(l[i], x[i] < y[i]);
                          }
                        }),
            0);
  y[5] = 0;
  buffers[1] = Buffer::of(y);
  EXPECT_EQ(program.run(buffers, {}, [] {}), kHostDivisionByZero);
}

// Packed results: rows that begin at a byte, and rows that share one.
TEST(Pointwise, GatherOfNibbles) {
  for (int n : {40, 7}) {
    std::string w = std::to_string(n), d = "tensor<5x" + w + "xui4>",
                r = "tensor<3x" + w + "xui4>";
    Program program("fusion.kernel @k config #fusion.config<\"pointwise\", {}> "
                    "sizes 0 (%d: " +
                    d +
                    ", %i: tensor<3xi64>) { %0 = fusion.gather %d, %i axis "
                    "= 0 : (" +
                    d + ", tensor<3xi64>) -> " + r + " fusion.yield %0 : " + r +
                    " }");
    ASSERT_TRUE(program.ok()) << program.error();
    std::vector<uint8_t> data((5 * n + 1) / 2);
    std::mt19937 engine(3);
    for (uint8_t &b : data)
      b = engine();
    auto nibble = [](const std::vector<uint8_t> &v, int i) {
      return i % 2 ? v[i / 2] >> 4 : v[i / 2] & 15;
    };
    std::vector<int64_t> rows{4, 0, 3};
    std::vector<Buffer> buffers{Buffer::of(data), Buffer::of(rows),
                                Buffer::poisoned((3 * n + 1) / 2)};
    program.run(buffers, {}, [&] {
      auto y = buffers[2].as<uint8_t>();
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < n; ++j)
          ASSERT_EQ(nibble(y, i * n + j), nibble(data, rows[i] * n + j));
    });
  }
}
