//===- MaskCases.h - Sizes and contents to evaluate a mask for --*- C++ -*-===//

#ifndef FUSION_LIB_RAISE_MASKCASES_H
#define FUSION_LIB_RAISE_MASKCASES_H

#include "MaskProof.h"

#include "fusion/Eval/Eval.h"

#include "llvm/ADT/SetVector.h"

#include <random>

namespace fusion::raise {

/// What a mask is computed from.
struct MaskSources {
  llvm::SetVector<mlir::Value> values, arguments;
  std::set<std::string> symbols;
  /// The largest scalar that could be a window or a place.
  int64_t largest = 0;
  /// Lengths of tables that hold data: what they hide anywhere counts.
  std::set<int64_t> tables;
  /// Axes (from, to) that are broadcast although from need not be 1: the graph
  /// has a meaning only where it is 1, or equal to the other.
  llvm::SmallVector<std::pair<SymExpr, SymExpr>> conditional;

  bool haveMeaning(const std::map<std::string, int64_t> &sizes) const;
  /// Whether all values can be evaluated: what is too large is known before
  /// any of it is allocated.
  bool areSmall(const std::map<std::string, int64_t> &sizes) const;
};
/// Fails where the mask reads what cannot be evaluated or made up.
mlir::FailureOr<MaskSources> findSources(mlir::Value mask, std::string &reason);

using Sizes = std::map<std::string, int64_t>;
/// Elements of one value of a mask: two batches of 2048 rows and keys.
constexpr int64_t kLargestTensor = 1 << 23;
/// Several values for the symbols: more keys than any number in the graph, or
/// all of its tables (first), all different, all 1, without a past, one row.
mlir::FailureOr<std::vector<Sizes>> chooseSizes(const MaskSources &sources,
                                                const ScoreSizes &scores,
                                                std::string &reason);

/// Contents for an argument: 0 all ones, 1 zeros at the left, 2 at random, 3
/// with a row of zeros only.
eval::Tensor makeContents(mlir::Value argument, const Sizes &sizes,
                          unsigned kind, std::mt19937 &random);
constexpr unsigned kContents = 4;

std::optional<int64_t> evaluate(const SymExpr &expr, const Sizes &sizes);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_MASKCASES_H
