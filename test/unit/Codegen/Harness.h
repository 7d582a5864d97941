//===- Harness.h - Compiles a kernel from text and runs it ------*- C++ -*-===//

#ifndef FUSION_TEST_UNIT_CODEGEN_HARNESS_H
#define FUSION_TEST_UNIT_CODEGEN_HARNESS_H

#include "fusion/Artifact/HostABI.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace fusion::test {

/// Values of an argument or result, and how they lie in memory.
struct Buffer {
  std::vector<uint8_t> bytes;
  template <typename T>
  static Buffer of(const std::vector<T> &values) {
    Buffer b;
    b.bytes.resize(values.size() * sizeof(T));
    if (!values.empty())
      std::memcpy(b.bytes.data(), values.data(), b.bytes.size());
    return b;
  }
  /// A result's memory, every byte 0xff (NaN for floats).
  static Buffer poisoned(size_t bytes) {
    Buffer b;
    b.bytes.assign(bytes, 0xff);
    return b;
  }
  template <typename T>
  std::vector<T> as() const {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty())
      std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    return values;
  }
};

/// The kernels of a module, compiled for both CPU levels.
class Program {
public:
  explicit Program(const std::string &text, bool strict = false);
  ~Program();
  bool ok() const;
  std::string error() const;

  /// Runs the first kernel on every level that this CPU has; the grid is split
  /// over three workers. All levels must set `status` alike; results of the
  /// last level stay in `buffers`, and `check` is called after each.
  /// `aliases[r] = a` gives result r the memory of argument a.
  int run(std::vector<Buffer> &buffers, const std::vector<int64_t> &sizes,
          const std::function<void()> &check,
          const std::vector<std::pair<unsigned, unsigned>> &aliases = {});

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

inline std::vector<float> randomFloats(size_t count, unsigned seed,
                                       float low = -1, float high = 1) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(count);
  for (float &v : values)
    v = uniform(engine);
  return values;
}

/// |a - b| / |b| over the whole, in the Euclidean norm; infinity on NaN.
inline double relativeError(const std::vector<float> &a,
                            const std::vector<double> &b) {
  double difference = 0, norm = 0;
  if (a.size() != b.size())
    return std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  double error = difference == 0 ? 0 : std::sqrt(difference / norm);
  return error == error ? error : std::numeric_limits<double>::infinity();
}

} // namespace fusion::test

#endif // FUSION_TEST_UNIT_CODEGEN_HARNESS_H
