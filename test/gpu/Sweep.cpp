//===- Sweep.cpp - Reference in fp64 of the kernel sweep ------------------===//

#include "Sweep.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <random>
#include <thread>

using namespace sweep;

unsigned sweep::elementBytes(const std::string &type) {
  return type == "f32" ? 4 : type == "i64" ? 8 : 2;
}

/// Rounds a double to a float of `mantissa` explicit bits and least exponent
/// `minExponent`, to nearest even.
static double roundTo(double x, int mantissa, int minExponent) {
  if (!std::isfinite(x) || x == 0)
    return x;
  int e = std::max(std::ilogb(x), minExponent);
  double unit = std::ldexp(1.0, e - mantissa);
  return std::nearbyint(x / unit) * unit;
}

double sweep::encode(const std::string &type, double value, uint8_t *bytes) {
  if (type == "i64") {
    int64_t i = int64_t(value);
    std::memcpy(bytes, &i, 8);
    return double(i);
  }
  if (type == "f32") {
    float f = float(value);
    std::memcpy(bytes, &f, 4);
    return f;
  }
  if (type == "bf16") {
    float f = float(roundTo(value, 7, -126));
    uint32_t u;
    std::memcpy(&u, &f, 4);
    uint16_t h = uint16_t(u >> 16);
    std::memcpy(bytes, &h, 2);
    return f;
  }
  double r = roundTo(value, 10, -14); // f16; callers stay below its maximum
  int e = r == 0 ? -15 : std::max(std::ilogb(std::fabs(r)), -14);
  double m = std::fabs(r) / std::ldexp(1.0, e == -15 ? -14 : e);
  uint16_t h = r == 0 ? 0
               : m < 1
                   ? uint16_t(std::lround(m * 1024))
                   : uint16_t(((e + 15) << 10) + std::lround((m - 1) * 1024));
  h |= std::signbit(r) ? 0x8000 : 0;
  std::memcpy(bytes, &h, 2);
  return r;
}

double sweep::decode(const std::string &type, const uint8_t *bytes) {
  if (type == "f32") {
    float f;
    std::memcpy(&f, bytes, 4);
    return f;
  }
  uint16_t h;
  std::memcpy(&h, bytes, 2);
  if (type == "bf16") {
    uint32_t u = uint32_t(h) << 16;
    float f;
    std::memcpy(&f, &u, 4);
    return f;
  }
  int e = (h >> 10) & 31, m = h & 1023;
  double v = e == 31 ? (m ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity())
             : e     ? std::ldexp(1024 + m, e - 25)
                     : std::ldexp(m, -24);
  return h & 0x8000 ? -v : v;
}

void sweep::parallel(int64_t n, const std::function<void(int64_t)> &fn) {
  std::atomic<int64_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency());
       ++t)
    threads.emplace_back([&] {
      for (int64_t i; (i = next++) < n;)
        fn(i);
    });
  for (std::thread &t : threads)
    t.join();
}

static Tensor random(const std::string &type, int64_t n, uint64_t seed,
                     double low, double high) {
  Tensor t{type, std::vector<double>(n),
           std::vector<uint8_t>(n * elementBytes(type))};
  constexpr int64_t kBlock = 1 << 16;
  parallel((n + kBlock - 1) / kBlock, [&](int64_t block) {
    std::mt19937_64 generator(seed * 1000003 + block);
    std::uniform_real_distribution<double> draw(low, high);
    for (int64_t i = block * kBlock; i < std::min(n, (block + 1) * kBlock); ++i)
      t.values[i] = encode(type, draw(generator),
                           t.bytes.data() + i * elementBytes(type));
  });
  return t;
}

std::vector<Tensor> sweep::makeOperands(const Case &c, int64_t rows,
                                        uint64_t seed) {
  int64_t n = rows * c.width;
  auto matrix = [&](int i) { return random(c.type, n, seed + i, -3, 3.5); };
  auto vector = [&](int i) {
    return random(c.weightType, c.width, seed + i, 0.5, 1.5);
  };
  if (c.op == "add_rms_norm")
    return {matrix(0), matrix(1), vector(2)};
  if (c.op == "rms_norm" || c.op == "bias_mask_softmax" ||
      c.op == "transpose_add")
    return {matrix(0), vector(1)};
  if (c.op == "layer_norm")
    return {matrix(0), vector(1), vector(2)};
  if (c.op == "silu_mul")
    return {matrix(0), matrix(1)};
  if (c.op == "gather_rows")
    return {random(c.type, 32 * c.width, seed, -3, 3),
            random("i64", rows, seed + 1, 0, 31.99)};
  return {matrix(0)};
}

namespace {

/// One row of a case: inputs by column, outputs by reference.
struct Row {
  const Case &c;
  const std::vector<Tensor> &operands;
  int64_t row, rows;
  double operator()(int operand, int64_t column) const {
    return operands[operand].values[row * c.width + column];
  }
  double weight(int operand, int64_t column) const {
    return operands[operand].values[column];
  }
};

using RowFn = std::function<void(const Row &, std::vector<Expected> &)>;

void put(Expected &e, int64_t i, double value, double scale) {
  e.values[i] = value;
  e.scale[i] = scale;
}

void norm(const Row &r, std::vector<Expected> &out) {
  bool add = r.c.op == "add_rms_norm", layer = r.c.op == "layer_norm";
  int64_t w = r.c.width;
  std::vector<double> x(w);
  double mean = 0, square = 0;
  for (int64_t i = 0; i < w; ++i) {
    x[i] = r(0, i) + (add ? r(1, i) : 0);
    mean += layer ? x[i] / w : 0;
  }
  for (int64_t i = 0; i < w; ++i)
    square += (x[i] - mean) * (x[i] - mean);
  double scale = 1 / std::sqrt(square / w + 1e-5);
  for (int64_t i = 0; i < w; ++i) {
    int64_t at = r.row * w + i;
    double g = r.weight(add ? 2 : 1, i), bias = layer ? r.weight(2, i) : 0;
    if (add)
      put(out[0], at, x[i], std::fabs(r(0, i)) + std::fabs(r(1, i)));
    // A mean that cancels is known to the rounding of its terms.
    double size =
        (std::fabs(x[i]) + (layer ? std::fabs(mean) + 1 : 0)) * scale * g;
    put(out.back(), at, (x[i] - mean) * scale * g + bias,
        size + std::fabs(bias));
  }
}

void softmaxRow(const Row &r, std::vector<Expected> &out) {
  int64_t w = r.c.width;
  bool masked = r.c.op == "bias_mask_softmax";
  std::vector<double> x(w);
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = 0; i < w; ++i) {
    x[i] = masked ? r(0, i) * 0.125 + r.weight(1, i) : r(0, i);
    top = std::max(top, x[i]);
  }
  for (double v : x)
    sum += std::exp(v - top);
  for (int64_t i = 0; i < w; ++i) {
    double y = std::exp(x[i] - top) / sum;
    put(out[0], r.row * w + i, y, y * (2 + std::fabs(x[i] - top)));
  }
}

void sumRow(const Row &r, std::vector<Expected> &out) {
  double sum = 0, size = 0;
  for (int64_t i = 0; i < r.c.width; ++i) {
    sum += r(0, i);
    size += std::fabs(r(0, i));
  }
  put(out[0], r.row, sum, size);
}

void centerRow(const Row &r, std::vector<Expected> &out) {
  double mean = 0, top = -1e300;
  for (int64_t i = 0; i < r.c.width; ++i)
    mean += r(0, i) / r.c.width;
  for (int64_t i = 0; i < r.c.width; ++i)
    top = std::max(top, r(0, i) - mean);
  for (int64_t i = 0; i < r.c.width; ++i)
    put(out[0], r.row * r.c.width + i, r(0, i) - mean - top, 8);
  put(out[1], r.row, top, 8);
}

void pointwiseRow(const Row &r, std::vector<Expected> &out) {
  int64_t w = r.c.width;
  const std::string &op = r.c.op;
  for (int64_t i = 0; i < w; ++i) {
    double y = 0, size = 0;
    if (op == "silu_mul") {
      y = r(0, i) / (1 + std::exp(-r(0, i))) * r(1, i);
      size = 4 * std::fabs(y);
    } else if (op == "transpose_add") {
      double x = r.operands[0].values[i * r.rows + r.row];
      y = x + r.weight(1, i);
      size = std::fabs(x) + r.weight(1, i);
    } else if (op == "gather_rows") {
      y = r.operands[0].values[int64_t(r.operands[1].values[r.row]) * w + i];
    } else if (op == "rotate_half") {
      y = i < w / 2 ? -r(0, i + w / 2) : r(0, i - w / 2);
    } else {
      y = r(0, i);
    }
    put(out[0], r.row * w + i, y, size);
  }
}

} // namespace

std::vector<Expected> sweep::reference(const Case &c, int64_t rows,
                                       const std::vector<Tensor> &operands) {
  auto result = [&](int64_t n) {
    return Expected{c.type, std::vector<double>(n), std::vector<double>(n)};
  };
  int64_t n = rows * c.width;
  std::vector<Expected> out;
  RowFn fn = pointwiseRow;
  if (c.op == "reduce_sum") {
    out = {result(rows)};
    fn = sumRow;
  } else if (c.op == "center") {
    out = {result(n), result(rows)};
    fn = centerRow;
  } else if (c.op == "softmax" || c.op == "bias_mask_softmax") {
    out = {result(n)};
    fn = softmaxRow;
  } else if (c.op.find("norm") != std::string::npos) {
    out = {result(n)};
    if (c.op == "add_rms_norm")
      out.push_back(result(n));
    fn = norm;
  } else {
    out = {result(n)};
  }
  parallel(rows, [&](int64_t row) { fn(Row{c, operands, row, rows}, out); });
  return out;
}

double sweep::worstError(const Expected &expected,
                         const std::vector<uint8_t> &actual, size_t &where) {
  unsigned bytes = elementBytes(expected.type);
  // Half a unit in the last place, and the least positive number's half.
  double half = expected.type == "f32"   ? 0x1p-24
                : expected.type == "f16" ? 0x1p-11
                                         : 0x1p-8;
  double least = expected.type == "f16" ? 0x1p-25 : 0x1p-149;
  double worst = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    double want = expected.values[i];
    double got = decode(expected.type, actual.data() + i * bytes);
    double allowed =
        half * 1.001 * std::fabs(want) + least + 1.2e-6 * expected.scale[i];
    double error = got == want ? 0 : std::fabs(got - want) / allowed;
    if (std::isnan(got) || std::isnan(error))
      error = std::numeric_limits<double>::infinity();
    if (error > worst) {
      worst = error;
      where = i;
    }
  }
  return worst;
}
