//===- Blas.cpp - Matrix products for host kernels ------------------------===//
//
// OpenBLAS chooses its kernels when it is loaded, from a list of processors
// that ends in 2021: on newer ones it falls back to SSE3, five times slower.
// So it is told again, by what the processor can do. OPENBLAS_CORETYPE is how
// it is told; the variable is put back afterwards, and a value that the user
// set has no effect on the results.
//
//===----------------------------------------------------------------------===//

#include "Blas.h"

#include "CpuLevel.h"

#include <cblas.h>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>

extern "C" {
void gotoblas_dynamic_init(void);
void gotoblas_dynamic_quit(void);
}

using namespace fusion;

static void chooseKernels() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char *variable = "OPENBLAS_CORETYPE";
    const char *name = cpuLevel() == CpuLevel::V4 ? "SkylakeX" : "Haswell";
    std::optional<std::string> old;
    if (const char *value = std::getenv(variable))
      old = value;
    setenv(variable, name, 1);
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    if (old)
      setenv(variable, old->c_str(), 1);
    else
      unsetenv(variable);
    openblas_set_num_threads(1);
  });
}

static void sgemm(int32_t transA, int32_t transB, int64_t m, int64_t n,
                  int64_t k, float alpha, const float *a, int64_t lda,
                  const float *b, int64_t ldb, float beta, float *c,
                  int64_t ldc) {
  auto trans = [](int32_t flag) { return flag ? CblasTrans : CblasNoTrans; };
  auto narrow = [](int64_t size) { return static_cast<blasint>(size); };
  cblas_sgemm(CblasRowMajor, trans(transA), trans(transB), narrow(m), narrow(n),
              narrow(k), alpha, a, narrow(lda), b, narrow(ldb), beta, c,
              narrow(ldc));
}

HostSgemm fusion::hostSgemm() {
  chooseKernels();
  return sgemm;
}

const char *fusion::blasKernelName() {
  chooseKernels();
  return openblas_get_corename();
}
