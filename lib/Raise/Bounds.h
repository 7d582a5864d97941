//===- Bounds.h - Between which numbers a value lies ------------*- C++ -*-===//

#ifndef FUSION_LIB_RAISE_BOUNDS_H
#define FUSION_LIB_RAISE_BOUNDS_H

#include "Matchers.h"

namespace fusion::raise {

struct Interval {
  double low, high;
};

/// An interval that holds all elements of `value`, when what it is computed
/// from tells one: constants, weights, places and sizes. A sequence has at most
/// 2^24 tokens, beyond which fp32 no longer counts them.
std::optional<Interval> getBounds(mlir::Value value);

/// Whether all elements of `value` are 0 or 1.
bool isIndicator(mlir::Value value);

/// The bytes of a weight, from its file.
std::optional<std::string> readWeight(WeightRefAttr source);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_BOUNDS_H
