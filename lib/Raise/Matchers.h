//===- Matchers.h - Sub-matchers that raising patterns share ----*- C++ -*-===//
//
// What a value is, whatever an exporter wrote: a scalar, a slice of something,
// a value behind casts, a vector along the last axis. And the trace of a
// match, which says where it stopped.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RAISE_MATCHERS_H
#define FUSION_LIB_RAISE_MATCHERS_H

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "mlir/IR/PatternMatch.h"

#include <optional>

namespace fusion::raise {

/// Where a match stopped: the stable reason code, the op, and both sides.
struct Mismatch {
  llvm::StringRef code;
  mlir::Operation *at = nullptr;
  std::string expected, found;
  std::string str() const;
};

/// Follows a match. Of several failed ways the one that got furthest is kept.
class Trace {
public:
  /// One more node has matched.
  void step() { ++steps; }
  /// Where another way of matching starts again.
  unsigned mark() const { return steps; }
  void reset(unsigned mark) { steps = mark; }
  /// Always failure().
  llvm::LogicalResult fail(llvm::StringRef code, mlir::Operation *at,
                           const llvm::Twine &expected,
                           const llvm::Twine &found);
  const std::optional<Mismatch> &mismatch() const { return furthest; }
  /// Nodes matched before the furthest failure.
  unsigned depth() const { return furthestSteps; }
  /// The failure as a reason for notifyMatchFailure.
  std::string reason() const;

private:
  unsigned steps = 0, furthestSteps = 0;
  std::optional<Mismatch> furthest;
};

/// "op-name at node-name" for messages.
std::string describe(mlir::Operation *op);
std::string describe(mlir::Value value);
/// The name of the ONNX node that a location stands for.
std::string nodeName(mlir::Location loc);

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

/// The number that all elements of `value` have, when it is known: constants,
/// and arithmetic, casts and views of such.
std::optional<double> getScalar(mlir::Value value);
/// Relative tolerance for constants that a graph of this element type stores.
double toleranceOf(mlir::Type element);
bool isNear(double value, double expected, double tolerance);

/// The factor of `value` by a known scalar: value = x * c, of the shape and
/// type of x.
struct Scaled {
  mlir::Value x;
  double factor;
};
std::optional<Scaled> getScaled(mlir::Value value);

//===----------------------------------------------------------------------===//
// Types and casts
//===----------------------------------------------------------------------===//

bool sameShape(mlir::Value a, mlir::Value b);
bool isFloat(mlir::Value value);
unsigned floatBits(mlir::Value value);
/// Without casts between floating-point types of at least `bits` bits. In a
/// graph of that precision a cast to fewer is a rounding that must stay.
mlir::Value stripCasts(mlir::Value value, unsigned bits = 0);
/// Without casts to a wider floating-point type: these change no value.
mlir::Value stripWidening(mlir::Value value);

//===----------------------------------------------------------------------===//
// Shapes of values
//===----------------------------------------------------------------------===//

/// True when `value` depends on constants only.
bool isConstantDerived(mlir::Value value);
/// True when `value` varies along the last axis of `like` only, is as long as
/// it, and does not widen it: a norm's weight or bias.
bool isVectorAlongLast(mlir::Value value, mlir::Value like);

/// The part of `base` that a value is: per axis a start, a step and a size.
struct Part {
  mlir::Value base;
  SymShape starts, sizes;
  llvm::SmallVector<int64_t> steps;
};
/// `value` as a part of something, slices composed (a part of itself when it
/// is no slice).
Part getPart(mlir::Value value);
/// True when `value` is elements start, start + step, ... (`size` of them) of
/// the last axis of `whole`.
bool isPartOfLast(mlir::Value value, mlir::Value whole, int64_t start,
                  int64_t step, int64_t size);
/// The size of the last axis where it is constant, else -1.
int64_t lastSize(mlir::Value value);

/// Whether a softmax is taken of `value`, behind what stands around scores.
bool leadsToSoftmax(mlir::Value value, unsigned depth = 10);

/// The other operand of a binary op.
inline mlir::Value other(mlir::Operation *op, unsigned i) {
  return op->getOperand(1 - i);
}

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_MATCHERS_H
