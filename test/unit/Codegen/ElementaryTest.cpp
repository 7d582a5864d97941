//===- ElementaryTest.cpp - Elementary functions over all arguments -------===//
//
// Arguments of every exponent and both signs, with the special values, against
// the C library's functions in a wider type.
//
//===----------------------------------------------------------------------===//

#include "Harness.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::test;

namespace {
struct Function {
  const char *name;
  long double (*reference)(long double);
  double single, wide; ///< tolerances in units of the last place: f32, f64
};

long double sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }
long double sign(long double x) {
  return std::isnan(x) ? x : (x > 0) - (x < 0);
}
long double rsqrt(long double x) { return 1 / std::sqrt(x); }

#define LIBM(f) [](long double x) -> long double { return std::f(x); }
const Function kFunctions[] = {
    {"sin", LIBM(sin), 2, 3},      {"cos", LIBM(cos), 2, 3},
    {"tan", LIBM(tan), 1, 4},      {"asin", LIBM(asin), 1, 5},
    {"acos", LIBM(acos), 1, 5},    {"atan", LIBM(atan), 1, 4},
    {"sinh", LIBM(sinh), 1, 4},    {"cosh", LIBM(cosh), 1, 4},
    {"asinh", LIBM(asinh), 1, 4},  {"acosh", LIBM(acosh), 1, 4},
    {"atanh", LIBM(atanh), 1, 4},  {"exp", LIBM(exp), 2, 2},
    {"log", LIBM(log), 2, 3},      {"tanh", LIBM(tanh), 2, 4},
    {"erf", LIBM(erf), 2, 4},      {"sigmoid", sigmoid, 3, 3},
    {"sqrt", LIBM(sqrt), 0.51, 1}, {"rsqrt", rsqrt, 2, 2},
    {"sign", sign, 0, 0},
};
#undef LIBM

/// Every exponent, some mantissas, both signs; then what is special.
template <typename T>
std::vector<T> arguments() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x{T(0),
                   -T(0),
                   Limits::infinity(),
                   -Limits::infinity(),
                   T(1),
                   T(-1),
                   Limits::quiet_NaN(),
                   T(M_PI),
                   T(M_PI_2),
                   T(-M_PI_4),
                   T(1e20),
                   T(-1e20)};
  std::mt19937_64 engine(11);
  std::uniform_real_distribution<double> mantissa(1, 2);
  int step = sizeof(T) == 4 ? 1 : 3;
  for (int e = Limits::min_exponent - Limits::digits; e < Limits::max_exponent;
       e += step)
    for (int i = 0; i < 6; ++i)
      x.push_back(std::ldexp(T(mantissa(engine)), e) * (i % 2 ? -1 : 1));
  std::uniform_real_distribution<double> usual(-10, 10);
  for (int i = 0; i < 1000; ++i)
    x.push_back(T(usual(engine)));
  return x;
}

template <typename T>
void checkOne(const Function &f, T x, T y, double tolerance) {
  long double exact = f.reference(static_cast<long double>(x));
  T rounded = static_cast<T>(exact);
  if (std::isnan(rounded)) {
    EXPECT_TRUE(std::isnan(y)) << f.name << "(" << x << ") = " << y;
    return;
  }
  if (y == rounded) {
    EXPECT_EQ(std::signbit(y), std::signbit(rounded))
        << f.name << "(" << x << ") = " << y;
    return;
  }
  T size = std::abs(rounded);
  long double unit = std::nextafter(size, std::numeric_limits<T>::infinity()) -
                     static_cast<long double>(size);
  EXPECT_LE(std::abs(y - exact), tolerance * unit)
      << f.name << "(" << x << ") = " << y << ", not " << rounded;
}

template <typename T>
void checkAll(const Function &f, double tolerance) {
  std::vector<T> x = arguments<T>();
  std::string t = "tensor<" + std::to_string(x.size()) +
                  (sizeof(T) == 4 ? "xf32>" : "xf64>");
  Program program("fusion.kernel @k config #fusion.config<\"pointwise\", {}> "
                  "sizes 0 (%x: " +
                  t + ") { %0 = fusion." + f.name + " %x : (" + t + ") -> " +
                  t + " fusion.yield %0 : " + t + " }");
  ASSERT_TRUE(program.ok()) << program.error();
  std::vector<Buffer> buffers{Buffer::of(x),
                              Buffer::poisoned(x.size() * sizeof(T))};
  int status = program.run(buffers, {}, [&] {
    std::vector<T> y = buffers[1].as<T>();
    for (size_t i = 0; i < x.size(); ++i)
      checkOne(f, x[i], y[i], tolerance);
  });
  EXPECT_EQ(status, 0);
}

class WholeRange : public testing::TestWithParam<Function> {};
} // namespace

TEST_P(WholeRange, Single) { checkAll<float>(GetParam(), GetParam().single); }
TEST_P(WholeRange, Double) { checkAll<double>(GetParam(), GetParam().wide); }
INSTANTIATE_TEST_SUITE_P(Elementary, WholeRange, testing::ValuesIn(kFunctions),
                         [](const auto &info) {
                           return std::string(info.param.name);
                         });

// The remainder is exact however large the quotient is.
TEST(Elementary, RemainderOfLargeQuotients) {
  std::vector<float> x{1e30f, -3e38f, 7.5f, 1e-40f, 2e10f, -5.5f, 3e38f},
      y{3e-30f, 7.1f, -2.25f, 1e-44f, 3.0f, INFINITY, 1.1e-38f};
  std::string t = "tensor<7xf32>";
  Program program("fusion.kernel @k config #fusion.config<\"pointwise\", {}> "
                  "sizes 0 (%x: " +
                  t + ", %y: " + t + ") { %0 = fusion.mod %x, %y {fmod} : (" +
                  t + ", " + t + ") -> " + t + " fusion.yield %0 : " + t +
                  " }");
  ASSERT_TRUE(program.ok()) << program.error();
  std::vector<Buffer> buffers{Buffer::of(x), Buffer::of(y),
                              Buffer::poisoned(28)};
  program.run(buffers, {}, [&] {
    auto z = buffers[2].as<float>();
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_EQ(z[i], std::fmod(x[i], y[i])) << x[i] << " mod " << y[i];
  });
}
