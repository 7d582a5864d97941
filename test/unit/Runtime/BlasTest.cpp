//===- BlasTest.cpp - Matrix products for host kernels --------------------===//

#include "Blas.h"
#include "CpuLevel.h"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>
#include <thread>
#include <vector>

using namespace fusion;

namespace {

/// Against a product in double precision.
void check(int64_t m, int64_t n, int64_t k, bool transA, bool transB) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> values(-1, 1);
  int64_t pad = 3, lda = (transA ? m : k) + pad, ldb = (transB ? k : n) + pad,
          ldc = n + pad;
  std::vector<float> a((transA ? k : m) * lda), b((transB ? n : k) * ldb),
      c(m * ldc);
  for (auto *matrix : {&a, &b, &c})
    for (float &x : *matrix)
      x = values(random);
  std::vector<float> old = c;
  hostSgemm()(transA, transB, m, n, k, 0.5f, a.data(), lda, b.data(), ldb, 2,
              c.data(), ldc);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < ldc; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k && j < n; ++l)
        sum += double(transA ? a[l * lda + i] : a[i * lda + l]) *
               (transB ? b[j * ldb + l] : b[l * ldb + j]);
      double expected =
          j < n ? 0.5 * sum + 2 * double(old[i * ldc + j]) : old[i * ldc + j];
      ASSERT_NEAR(expected, c[i * ldc + j], 1e-5 * std::sqrt(k + 1.0))
          << m << "x" << n << "x" << k << " at " << i << "," << j;
    }
}

TEST(Blas, ProductsOfEveryForm) {
  for (bool transA : {false, true})
    for (bool transB : {false, true}) {
      check(1, 1, 1, transA, transB);
      check(1, 96, 64, transA, transB);
      check(7, 33, 129, transA, transB);
      check(64, 64, 300, transA, transB);
    }
}

TEST(Blas, KernelsFitTheProcessorWhateverTheEnvironmentSays) {
  setenv("OPENBLAS_CORETYPE", "Prescott", 1);
  hostSgemm();
  EXPECT_STREQ(cpuLevel() == CpuLevel::V4 ? "SkylakeX" : "Haswell",
               blasKernelName());
}

TEST(Blas, FromManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] { check(37, 50, 61, false, true); });
  for (std::thread &t : threads)
    t.join();
}

} // namespace
