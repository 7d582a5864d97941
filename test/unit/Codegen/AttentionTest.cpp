//===- AttentionTest.cpp - Attention and cache appends on the host --------===//

#include "Harness.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::test;

namespace {
/// fusion.attention's definition, in doubles, over dense arrays.
struct Reference {
  int heads, kvHeads, s, t, d;
  std::function<bool(int h, int i, int j)> visible = [](int, int, int) {
    return true;
  };
  std::function<double(int h, int i, int j)> bias = [](int, int, int) {
    return 0.0;
  };
  double scale = 0.125, softcap = 0, blind = 0;

  /// [heads, s, d]
  std::vector<double> operator()(const std::vector<float> &q,
                                 const std::vector<float> &k,
                                 const std::vector<float> &v) const {
    std::vector<double> y(size_t(heads) * s * d);
    for (int h = 0; h < heads; ++h)
      for (int i = 0; i < s; ++i) {
        int g = h / (heads / kvHeads);
        std::vector<double> p(t);
        double top = -INFINITY, sum = 0;
        for (int j = 0; j < t; ++j) {
          double x = 0;
          for (int a = 0; a < d; ++a)
            x += double(q[(h * s + i) * d + a]) * k[(g * t + j) * d + a];
          x *= scale;
          if (softcap != 0)
            x = softcap * std::tanh(x / softcap);
          p[j] = visible(h, i, j) ? x + bias(h, i, j) : -INFINITY;
          top = std::max(top, p[j]);
        }
        for (double &x : p)
          sum += x = top == -INFINITY ? 0 : std::exp(x - top);
        for (int a = 0; a < d; ++a) {
          double &out = y[(h * s + i) * d + a];
          for (int j = 0; j < t; ++j)
            out += (sum == 0 ? 0 : p[j] / sum) * v[(g * t + j) * d + a];
        }
      }
    return y;
  }
};
} // namespace

static std::string tensor(const std::string &shape, const std::string &dims) {
  return "tensor<" + shape + ", #fusion.shape<[" + dims + "]>>";
}

class AttentionSizes : public testing::TestWithParam<std::pair<int, int>> {};

// Grouped heads, causal with an offset, the result as [batch, S, heads * D].
TEST_P(AttentionSizes, CausalGrouped) {
  const int s = GetParam().first, past = GetParam().second;
  int t = past + s;
  std::string q = tensor("1x6x?x64xf32", "1, 6, d0, 64"),
              k = tensor("1x2x?x64xf32", "1, 2, \"d0 + d1\", 64");
  std::string y = tensor("1x?x6x64xf32", "1, d0, 6, 64"),
              z = tensor("1x?x384xf32", "1, d0, 384");
  Program program(
      "fusion.kernel @k config #fusion.config<\"attention\", {}> sizes 2 "
      "(%q: " +
      q + ", %k: " + k + ", %v: " + k +
      ") {"
      "%0 = fusion.attention %q, %k, %v {scale = 0.125 : f32, causal, "
      "causal_offset = \"d1\", masked_rows = \"uniform\"} : (" +
      q + ", " + k + ", " + k + ") -> " + q +
      "%1 = fusion.transpose %0 perm = [0, 2, 1, 3] : (" + q + ") -> " + y +
      "%2 = fusion.reshape %1 : (" + y + ") -> " + z +
      "fusion.yield %2 : " + z + " }");
  ASSERT_TRUE(program.ok()) << program.error();
  auto qs = randomFloats(6 * s * 64, 1, -3, 3),
       ks = randomFloats(2 * t * 64, 2, -3, 3),
       vs = randomFloats(2 * t * 64, 3);
  Reference reference{6, 2, s, t, 64};
  int offset = past;
  reference.visible = [=](int, int i, int j) { return j <= i + offset; };
  auto dense = reference(qs, ks, vs);
  std::vector<double> expected(dense.size());
  for (int h = 0; h < 6; ++h)
    for (int i = 0; i < s; ++i)
      for (int a = 0; a < 64; ++a)
        expected[(i * 6 + h) * 64 + a] = dense[(h * s + i) * 64 + a];
  std::vector<Buffer> buffers{Buffer::of(qs), Buffer::of(ks), Buffer::of(vs),
                              Buffer::poisoned(4 * 6 * s * 64)};
  EXPECT_EQ(program.run(buffers, {s, past},
                        [&] {
                          EXPECT_LT(
                              relativeError(buffers[3].as<float>(), expected),
                              2e-6);
                        }),
            0);
}
INSTANTIATE_TEST_SUITE_P(Host, AttentionSizes,
                         testing::Values(std::pair(1, 0), std::pair(1, 130),
                                         std::pair(3, 18), std::pair(70, 0),
                                         std::pair(65, 40)));

// Rotation of the query, soft cap, window, key mask and bias together; keys in
// a cache with room, values transposed.
TEST(Attention, EverythingAtOnce) {
  std::string k = "tensor<1x2x?x32xf32, #fusion.shape<[1, 2, d0, 32], storage "
                  "= [1, 2, 50, 32]>>";
  Program program(
      R"(fusion.kernel @k config #fusion.config<"attention", {}> sizes 1
    (%q: tensor<1x9x2x32xf32>, %c: tensor<9x16xf32>, %s: tensor<9x16xf32>, %k: )" +
      k + R"(,
     %v: tensor<1x?x2x32xf32, #fusion.shape<[1, d0, 2, 32]>>, %m: tensor<1x?xi1, #fusion.shape<[1, d0]>>, %b: tensor<9x?xf32, #fusion.shape<[9, d0]>>) {
    %0 = fusion.transpose %q perm = [0, 2, 1, 3] : (tensor<1x9x2x32xf32>) -> tensor<1x2x9x32xf32>
    %1 = fusion.rope %0, %c, %s : (tensor<1x2x9x32xf32>, tensor<9x16xf32>, tensor<9x16xf32>) -> tensor<1x2x9x32xf32>
    %2 = fusion.transpose %v perm = [0, 2, 1, 3] : (tensor<1x?x2x32xf32, #fusion.shape<[1, d0, 2, 32]>>) -> tensor<1x2x?x32xf32, #fusion.shape<[1, 2, d0, 32]>>
    %3 = fusion.attention %1, %k, %2 bias %b key_mask %m {scale = 0.2 : f32, softcap = 5.0 : f32, causal, causal_offset = "d0 - 9", window_left = 7 : i64} : (tensor<1x2x9x32xf32>, )" +
      k +
      R"(, tensor<1x2x?x32xf32, #fusion.shape<[1, 2, d0, 32]>>, tensor<9x?xf32, #fusion.shape<[9, d0]>>, tensor<1x?xi1, #fusion.shape<[1, d0]>>) -> tensor<1x2x9x32xf32>
    fusion.yield %3 : tensor<1x2x9x32xf32> })");
  ASSERT_TRUE(program.ok()) << program.error();
  constexpr int s = 9, t = 21, d = 32;
  auto q = randomFloats(s * 2 * d, 1, -3, 3),
       k0 = randomFloats(2 * 50 * d, 2, -3, 3), v0 = randomFloats(t * 2 * d, 3);
  auto angles = randomFloats(s * 16, 4, 0, 6), bias = randomFloats(s * t, 5);
  std::vector<float> c(s * 16), sn(s * 16), rotated(2 * s * d), keys(2 * t * d),
      values(2 * t * d);
  for (int i = 0; i < s * 16; ++i) {
    c[i] = std::cos(angles[i]);
    sn[i] = std::sin(angles[i]);
  }
  for (int h = 0; h < 2; ++h) {
    for (int i = 0; i < s; ++i)
      for (int a = 0; a < d; ++a) {
        const float *row = &q[(i * 2 + h) * d];
        int pair = i * 16 + a % 16;
        rotated[(h * s + i) * d + a] =
            a < 16 ? row[a] * c[pair] - row[a + 16] * sn[pair]
                   : row[a] * c[pair] + row[a - 16] * sn[pair];
      }
    for (int j = 0; j < t; ++j)
      for (int a = 0; a < d; ++a) {
        keys[(h * t + j) * d + a] = k0[(h * 50 + j) * d + a];
        values[(h * t + j) * d + a] = v0[(j * 2 + h) * d + a];
      }
  }
  std::vector<uint8_t> mask(t, 1);
  mask[3] = mask[15] = 0;
  Reference reference{2, 2, s, t, d};
  reference.scale = 0.2;
  reference.softcap = 5;
  reference.visible = [&](int, int i, int j) {
    return j <= i + t - s && j >= i + t - s - 7 && mask[j];
  };
  reference.bias = [&](int, int i, int j) { return bias[i * t + j]; };
  auto expected = reference(rotated, keys, values);
  std::vector<Buffer> buffers{
      Buffer::of(q),    Buffer::of(c),
      Buffer::of(sn),   Buffer::of(k0),
      Buffer::of(v0),   Buffer::of(mask),
      Buffer::of(bias), Buffer::poisoned(4 * 2 * s * d)};
  EXPECT_EQ(program.run(buffers, {t},
                        [&] {
                          EXPECT_LT(relativeError(buffers.back().as<float>(),
                                                  expected),
                                    3e-6);
                        }),
            0);
}

// New rows only, behind `past`, into the same memory; the rest stays.
TEST(Append, InPlaceWithRotation) {
  std::string cache = "tensor<1x2x?x32xf32, #fusion.shape<[1, 2, d0, 32], "
                      "storage = [1, 2, 10, 32]>>";
  std::string grown = "tensor<1x2x?x32xf32, #fusion.shape<[1, 2, \"d0 + 3\", "
                      "32], storage = [1, 2, 10, 32]>>";
  Program program(
      "fusion.kernel @k config #fusion.config<\"append\", {}> sizes 1 (%p: " +
      cache +
      ", %n: tensor<1x2x3x32xf32>, %c: tensor<3x32xf32>, %s: tensor<3x32xf32>) "
      "{"
      "%0 = fusion.rope %n, %c, %s {interleaved} : (tensor<1x2x3x32xf32>, "
      "tensor<3x32xf32>, tensor<3x32xf32>) -> tensor<1x2x3x32xf32>"
      "%1 = fusion.kv_append %p, %0 axis = 2 : (" +
      cache + ", tensor<1x2x3x32xf32>) -> " + grown +
      "fusion.yield %1 : " + grown + " }");
  ASSERT_TRUE(program.ok()) << program.error();
  auto past = randomFloats(640, 1), fresh = randomFloats(192, 2),
       c = randomFloats(96, 3), s = randomFloats(96, 4);
  std::vector<Buffer> buffers{Buffer::of(past), Buffer::of(fresh),
                              Buffer::of(c), Buffer::of(s),
                              Buffer::poisoned(0)};
  EXPECT_EQ(program.run(buffers, {4},
                        [&] {
                          auto y = buffers[0].as<float>();
                          for (int h = 0; h < 2; ++h)
                            for (int j = 0; j < 10; ++j)
                              for (int a = 0; a < 32; ++a) {
                                float expected = past[(h * 10 + j) * 32 + a];
                                if (j >= 4 && j < 7) {
                                  int i = j - 4;
                                  const float *row = &fresh[(h * 3 + i) * 32];
                                  float sign = a % 2 ? 1 : -1;
                                  expected = row[a] * c[i * 32 + a] +
                                             sign * row[a ^ 1] * s[i * 32 + a];
                                }
                                ASSERT_NEAR(y[(h * 10 + j) * 32 + a], expected,
                                            1e-6);
                              }
                        },
                        {{0, 0}}),
            0);
}

TEST(Append, Copying) {
  Program program(
      R"(fusion.kernel @k config #fusion.config<"append", {}> sizes 2
    (%p: tensor<1x2x?x20xf32, #fusion.shape<[1, 2, d0, 20]>>, %n: tensor<1x2x?x20xf32, #fusion.shape<[1, 2, d1, 20]>>) {
    %0 = fusion.kv_append %p, %n axis = 2 : (tensor<1x2x?x20xf32, #fusion.shape<[1, 2, d0, 20]>>, tensor<1x2x?x20xf32, #fusion.shape<[1, 2, d1, 20]>>) -> tensor<1x2x?x20xf32, #fusion.shape<[1, 2, "d0 + d1", 20]>>
    fusion.yield %0 : tensor<1x2x?x20xf32, #fusion.shape<[1, 2, "d0 + d1", 20]>> })");
  ASSERT_TRUE(program.ok()) << program.error();
  for (auto sizes : {std::pair<int64_t, int64_t>{0, 5}, {4, 1}}) {
    const int64_t a = sizes.first, b = sizes.second;
    auto p = randomFloats(40 * a, 1), n = randomFloats(40 * b, 2);
    std::vector<Buffer> buffers{Buffer::of(p), Buffer::of(n),
                                Buffer::poisoned(160 * (a + b))};
    EXPECT_EQ(program.run(buffers, {a, b},
                          [&] {
                            auto y = buffers[2].as<float>();
                            for (int h = 0; h < 2; ++h)
                              for (int64_t j = 0; j < a + b; ++j)
                                for (int c = 0; c < 20; ++c)
                                  ASSERT_EQ(y[(h * (a + b) + j) * 20 + c],
                                            j < a
                                                ? p[(h * a + j) * 20 + c]
                                                : n[(h * b + j - a) * 20 + c]);
                          }),
              0);
  }
}

// Each sequence has keys of its own number in front of its queries.
TEST(Attention, OffsetsOfSequences) {
  std::string q = "tensor<3x2x?x16xf32, #fusion.shape<[3, 2, d0, 16]>>";
  std::string k = "tensor<3x2x?x16xf32, #fusion.shape<[3, 2, d1, 16]>>";
  Program program(
      "fusion.kernel @k config #fusion.config<\"attention\", {}> sizes 2 "
      "(%q: " +
      q + ", %k: " + k +
      ", %o: tensor<3xi32>) {"
      "%0 = fusion.attention %q, %k, %k offsets %o {scale = 0.125 : f32, "
      "causal, window_left = 6 : i64} : (" +
      q + ", " + k + ", " + k + ", tensor<3xi32>) -> " + q +
      "fusion.yield %0 : " + q + " }");
  ASSERT_TRUE(program.ok()) << program.error();
  for (auto sizes : {std::pair{1, 20}, std::pair{9, 20}, std::pair{70, 90}}) {
    const int s = sizes.first, t = sizes.second;
    auto qs = randomFloats(3 * 2 * s * 16, 1, -3, 3),
         ks = randomFloats(3 * 2 * t * 16, 2, -3, 3);
    // The longest fills the keys; a negative one leaves blind rows.
    std::vector<int32_t> offsets{t - s, 0, -1};
    std::vector<double> expected;
    for (int b = 0; b < 3; ++b) {
      Reference one{2, 2, s, t, 16};
      one.visible = [&](int, int i, int j) {
        return j <= i + offsets[b] && j >= i + offsets[b] - 6;
      };
      auto part = [&](const std::vector<float> &all, int rows) {
        auto begin = all.begin() + b * 2 * rows * 16;
        return std::vector<float>(begin, begin + 2 * rows * 16);
      };
      auto y = one(part(qs, s), part(ks, t), part(ks, t));
      expected.insert(expected.end(), y.begin(), y.end());
    }
    std::vector<Buffer> buffers{Buffer::of(qs), Buffer::of(ks),
                                Buffer::of(offsets),
                                Buffer::poisoned(4 * 3 * 2 * s * 16)};
    EXPECT_EQ(program.run(buffers, {s, t},
                          [&] {
                            EXPECT_LT(relativeError(buffers.back().as<float>(),
                                                    expected),
                                      3e-6);
                          }),
              0);
  }
}

/// What kv_append with lengths makes of an element of a cache [2, 10, 4]: rows
/// of `fresh` [2, 3, 4] from the sequence's length on, else `past`.
static float appended(const std::vector<float> &past,
                      const std::vector<float> &fresh,
                      const std::vector<int64_t> &lengths, int b, int j,
                      int c) {
  int i = j - static_cast<int>(lengths[b]);
  return i >= 0 && i < 3 ? fresh[(b * 3 + i) * 4 + c]
                         : past[(b * 10 + j) * 4 + c];
}

TEST(Append, BehindEachSequence) {
  std::string cache = "tensor<2x?x4xf32, #fusion.shape<[2, d0, 4], storage = "
                      "[2, 10, 4]>>";
  std::string grown = "tensor<2x?x4xf32, #fusion.shape<[2, \"d0 + 3\", 4], "
                      "storage = [2, 10, 4]>>";
  Program program(
      "fusion.kernel @k config #fusion.config<\"append\", {}> sizes 1 (%p: " +
      cache +
      ", %n: tensor<2x3x4xf32>, %l: tensor<2xi64>) {"
      "%0 = fusion.kv_append %p, %n lengths %l axis = 1 : (" +
      cache + ", tensor<2x3x4xf32>, tensor<2xi64>) -> " + grown +
      "fusion.yield %0 : " + grown + " }");
  ASSERT_TRUE(program.ok()) << program.error();
  auto past = randomFloats(80, 1), fresh = randomFloats(24, 2);
  std::vector<int64_t> lengths{5, 2};
  std::vector<Buffer> buffers{Buffer::of(past), Buffer::of(fresh),
                              Buffer::of(lengths), Buffer::poisoned(0)};
  EXPECT_EQ(program.run(buffers, {5},
                        [&] {
                          auto y = buffers[0].as<float>();
                          for (int e = 0; e < 80; ++e)
                            ASSERT_EQ(y[e],
                                      appended(past, fresh, lengths, e / 40,
                                               e / 4 % 10, e % 4));
                        },
                        {{0, 0}}),
            0);
}

TEST(Append, IntoABuffer) {
  Program program(
      R"(fusion.kernel @k config #fusion.config<"append", {}> sizes 0
    (%p: tensor<2x10x4xf32>, %n: tensor<2x3x4xf32>, %l: tensor<2xi64>) {
    %0 = fusion.kv_append %p, %n lengths %l axis = 1 {in_buffer} : (tensor<2x10x4xf32>, tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<2x10x4xf32>
    fusion.yield %0 : tensor<2x10x4xf32> })");
  ASSERT_TRUE(program.ok()) << program.error();
  auto past = randomFloats(80, 1), fresh = randomFloats(24, 2);
  for (const std::vector<int64_t> &lengths :
       {std::vector<int64_t>{0, 7}, {3, 3}}) {
    std::vector<Buffer> buffers{Buffer::of(past), Buffer::of(fresh),
                                Buffer::of(lengths), Buffer::poisoned(320)};
    EXPECT_EQ(program.run(buffers, {},
                          [&] {
                            auto y = buffers[3].as<float>();
                            for (int e = 0; e < 80; ++e)
                              ASSERT_EQ(y[e],
                                        appended(past, fresh, lengths, e / 40,
                                                 e / 4 % 10, e % 4));
                          }),
              0);
  }
  // No room for three rows, and a negative length.
  for (const std::vector<int64_t> &lengths :
       {std::vector<int64_t>{8, 0}, {0, -1}}) {
    std::vector<Buffer> buffers{Buffer::of(past), Buffer::of(fresh),
                                Buffer::of(lengths), Buffer::poisoned(320)};
    EXPECT_NE(program.run(buffers, {}, [] {}), 0);
  }
}
