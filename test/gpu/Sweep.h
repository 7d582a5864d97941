//===- Sweep.h - Cases of the kernel sweep and their reference --*- C++ -*-===//

#ifndef FUSION_TEST_GPU_SWEEP_H
#define FUSION_TEST_GPU_SWEEP_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace sweep {

/// One line of cases.txt and one of kernels.txt.
struct Case {
  std::string name, op, type, weightType;
  int64_t width = 0;
  unsigned threads = 0, registers = 0, shared = 0;
  std::string grid; ///< expression over d0
};

/// A tensor on the host: `values` as fp64 (exactly what `bytes` hold).
struct Tensor {
  std::string type;
  std::vector<double> values;
  std::vector<uint8_t> bytes;
};

unsigned elementBytes(const std::string &type);
/// Rounds to nearest even; the value that is then stored comes back.
double encode(const std::string &type, double value, uint8_t *bytes);
double decode(const std::string &type, const uint8_t *bytes);

/// Operands of a case for `rows` rows, from a seed.
std::vector<Tensor> makeOperands(const Case &c, int64_t rows, uint64_t seed);

/// The results in fp64, unrounded, with the size of what cancels in each
/// (errors of fp32 arithmetic are relative to it).
struct Expected {
  std::string type;
  std::vector<double> values, scale;
};
std::vector<Expected> reference(const Case &c, int64_t rows,
                                const std::vector<Tensor> &operands);

/// Largest error of `actual`, in units of what is allowed: one rounding to the
/// type, and fp32 arithmetic. NaN and what was never written are infinite.
double worstError(const Expected &expected, const std::vector<uint8_t> &actual,
                  size_t &where);

/// Runs fn(i) for i in [0, n) on all cores.
void parallel(int64_t n, const std::function<void(int64_t)> &fn);

} // namespace sweep

#endif // FUSION_TEST_GPU_SWEEP_H
