//===- Eval.h - A small interpreter of the fusion dialect -------*- C++ -*-===//
//
// Evaluates tensors for given symbolic sizes: constant folding, proofs about
// masks, and the oracle of unit tests. Slow and exact: floats are computed in
// double and rounded to the tensor's element type after every op, integers
// wrap at their width.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_EVAL_EVAL_H
#define FUSION_EVAL_EVAL_H

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "llvm/ADT/DenseMap.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace fusion::eval {

/// A tensor with static sizes. `floats` holds the elements of floating-point
/// tensors, `ints` those of all others (i1 as 0 and 1, unsigned as their
/// bits zero-extended).
struct Tensor {
  mlir::Type element;
  std::vector<int64_t> shape;
  std::vector<double> floats;
  std::vector<int64_t> ints;

  Tensor() = default;
  Tensor(mlir::Type element, std::vector<int64_t> shape);

  bool isFloat() const { return llvm::isa<mlir::FloatType>(element); }
  /// isFloat() of a tensor with elements, without a look at the type: it is
  /// asked for every element.
  bool hasFloats() const { return !floats.empty(); }
  int64_t size() const;
  /// Element i, row-major, as a double whatever the type.
  double get(int64_t i) const {
    return hasFloats() ? floats[i] : double(ints[i]);
  }
  int64_t getInt(int64_t i) const {
    return hasFloats() ? int64_t(floats[i]) : ints[i];
  }
  /// Stores a value, rounded to the element type (integers wrap).
  void set(int64_t i, double value);
  void setInt(int64_t i, int64_t value);

  static Tensor fromAttr(mlir::DenseElementsAttr attr);
  mlir::DenseElementsAttr toAttr() const;
  /// From the bytes of a dense little-endian tensor, sub-byte elements packed
  /// low bits first; nullopt when there are too few bytes or the type is not
  /// supported.
  static std::optional<Tensor> fromBytes(mlir::RankedTensorType type,
                                         llvm::StringRef bytes);
  /// The inverse of fromBytes.
  std::string toBytes() const;
};

class Evaluator {
public:
  /// Reads the bytes of a weight; nullopt when they are not at hand.
  using WeightReader =
      std::function<std::optional<std::string>(WeightRefAttr source)>;

  explicit Evaluator(std::map<std::string, int64_t> sizes = {},
                     int64_t maxElements = 1 << 22)
      : sizes(std::move(sizes)), maxElements(maxElements) {}

  /// Gives a value (a function argument, an op's result) without evaluating.
  /// What was computed from an earlier one is forgotten.
  void bind(mlir::Value value, Tensor tensor);
  void setWeightReader(WeightReader reader) { readWeight = std::move(reader); }

  /// Evaluates `value` and all that it depends on. Fails, with a reason in
  /// getError(), on an unbound argument, an op that has no evaluation, a size
  /// without a value, or a tensor above the limit.
  mlir::FailureOr<Tensor> evaluate(mlir::Value value);
  const std::string &getError() const { return error; }

private:
  mlir::FailureOr<Tensor> evaluateOp(mlir::Operation *op);
  mlir::FailureOr<std::vector<int64_t>> getShape(mlir::Type type);
  std::optional<int64_t> getSize(const SymExpr &expr);
  mlir::FailureOr<Tensor> fail(mlir::Operation *op, const llvm::Twine &why);

  std::map<std::string, int64_t> sizes;
  int64_t maxElements;
  WeightReader readWeight;
  llvm::DenseMap<mlir::Value, Tensor> values;
  std::string error;
};

/// Folds ops whose operands are all constants into `fusion.constant` where
/// the result takes at most `maxBytes` (64 KiB by default).
std::unique_ptr<mlir::Pass> createFoldConstantsPass(int64_t maxBytes = 65536);
void registerFoldConstantsPass();

} // namespace fusion::eval

#endif // FUSION_EVAL_EVAL_H
