//===- Loops.h - Loops over many elements -----------------------*- C++ -*-===//
//
// Masks of long sequences have millions of elements: what is the same for all
// of them is decided once.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_EVAL_LOOPS_H
#define FUSION_LIB_EVAL_LOOPS_H

#include "Detail.h"

#include "llvm/Support/MathExtras.h"

#include <array>
#include <cmath>

namespace fusion::eval::detail {

/// Stores elements as Tensor::set and setInt do, without a look at the type.
class Writer {
public:
  explicit Writer(Tensor &out) : out(out), isFloat(out.isFloat()) {
    if (isFloat) {
      how = out.element.isF64()   ? Rounding::None
            : out.element.isF32() ? Rounding::Single
                                  : Rounding::Other;
      return;
    }
    width = out.element.isIndex() ? 64 : out.element.getIntOrFloatBitWidth();
    isSigned = width > 1 && !out.element.isUnsignedInteger();
  }

  void set(int64_t i, double value) {
    if (how == Rounding::None)
      out.floats[i] = value;
    else if (how == Rounding::Single)
      out.floats[i] = static_cast<float>(value);
    else
      out.set(i, value);
  }
  void setInt(int64_t i, int64_t value) {
    if (isFloat)
      return set(i, static_cast<double>(value));
    if (width < 64) {
      uint64_t bits = uint64_t(value) & ((uint64_t(1) << width) - 1);
      value = isSigned ? llvm::SignExtend64(bits, width) : int64_t(bits);
    }
    out.ints[i] = value;
  }

private:
  enum class Rounding { None, Single, Other };
  Tensor &out;
  bool isFloat, isSigned = false;
  unsigned width = 64;
  Rounding how = Rounding::Other;
};

/// Calls fn(i, places) for every element i of `shape`, where places[k] moves by
/// steps[k] along each axis, from starts[k].
template <size_t N, typename Fn>
void forEachPlace(llvm::ArrayRef<int64_t> shape,
                  const std::array<std::vector<int64_t>, N> &steps,
                  std::array<int64_t, N> places, Fn fn) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  if (count == 0)
    return;
  if (shape.empty())
    return (void)fn(0, places);
  size_t last = shape.size() - 1;
  std::vector<int64_t> index(shape.size(), 0);
  for (int64_t flat = 0; flat < count;) {
    std::array<int64_t, N> at = places;
    for (int64_t k = 0; k < shape[last]; ++k, ++flat) {
      fn(flat, at);
      for (size_t n = 0; n < N; ++n)
        at[n] += steps[n][last];
    }
    for (size_t axis = last; axis-- > 0;) {
      for (size_t n = 0; n < N; ++n)
        places[n] += steps[n][axis];
      if (++index[axis] < shape[axis])
        break;
      for (size_t n = 0; n < N; ++n)
        places[n] -= steps[n][axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

/// The steps by which broadcasting to `shape` moves through `from`.
inline std::vector<int64_t> broadcastSteps(llvm::ArrayRef<int64_t> from,
                                           llvm::ArrayRef<int64_t> shape) {
  std::vector<int64_t> steps(shape.size(), 0), own = strides(from);
  size_t skip = shape.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i)
    steps[skip + i] = from[i] == 1 ? 0 : own[i];
  return steps;
}

} // namespace fusion::eval::detail

#endif // FUSION_LIB_EVAL_LOOPS_H
