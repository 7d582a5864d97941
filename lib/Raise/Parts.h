//===- Parts.h - Building parts of values -----------------------*- C++ -*-===//

#ifndef FUSION_LIB_RAISE_PARTS_H
#define FUSION_LIB_RAISE_PARTS_H

#include "Matchers.h"

namespace fusion::raise {

/// The value that `part` describes: its base where it is all of it, else a
/// slice.
mlir::Value createPart(mlir::OpBuilder &builder, mlir::Location loc,
                       const Part &part);

/// Two values whose elements are the pairs along the last axis of `value`:
/// concat(reshape(a, [.., n, 1]), reshape(b, [.., n, 1])).
std::optional<std::pair<mlir::Value, mlir::Value>>
getStacked(mlir::Value value);

/// Two values whose elements alternate along the last axis of `value`:
/// reshape(concat(reshape(a, [.., n, 1]), reshape(b, [.., n, 1])), [.., 2n]).
/// The pieces keep their last axis of size 1 where no reshape adds it.
std::optional<std::pair<mlir::Value, mlir::Value>>
getInterleaved(mlir::Value value);

/// The two halves of the last axis that `value` concatenates.
std::optional<std::pair<mlir::Value, mlir::Value>> getHalves(mlir::Value value);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_PARTS_H
