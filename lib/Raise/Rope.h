//===- Rope.h - The algebra of rotary embeddings ----------------*- C++ -*-===//
//
//   x * cos + rotate(x) * sin
//
// where rotate is (-b, a) of the halves (a, b) of x, or of its even and odd
// elements; and the same spelled by pairs: (a*cos - b*sin, b*cos + a*sin).
// Pairs may be read as even and odd elements and written as halves.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RAISE_ROPE_H
#define FUSION_LIB_RAISE_ROPE_H

#include "Matchers.h"

namespace fusion::raise {

struct RopeMatch {
  Part x;
  mlir::Value cos, sin;
  bool interleaved = false;
  /// The rotation is that of x with its even elements before its odd ones.
  bool splitsPairs = false;
  /// The tables of the second elements of pairs where they have their own.
  mlir::Value secondCos = {}, secondSin = {};
  /// What the sines of the first and second elements are multiplied by: the
  /// rotation may be spelled with other signs than (-b, a).
  int firstSign = 1, secondSign = 1;
};

/// The tables of a rotation as `rope` wants them.
std::pair<mlir::Value, mlir::Value> createTables(mlir::OpBuilder &builder,
                                                 mlir::Location loc,
                                                 const RopeMatch &match);

/// The value of which `value` is the negation: -v, or 0 - v, which differs in
/// the sign of zero only.
mlir::Value getNegated(mlir::Value value);

/// `root` is the sum x * cos + rotate(x) * sin, or a difference where the
/// rotation has the other sign.
mlir::FailureOr<RopeMatch> matchRopeSum(mlir::Operation *root, Trace &trace);

/// `first` and `second` are the rotated elements of each pair, and
/// `interleaved` says where they go.
mlir::FailureOr<RopeMatch> matchRopePairs(mlir::Value first, mlir::Value second,
                                          bool interleaved, Trace &trace);

/// Tables must broadcast to x and be as wide as it, or half as wide.
llvm::LogicalResult checkTable(mlir::Value table, const Part &x,
                               mlir::Operation *at, Trace &trace);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_ROPE_H
