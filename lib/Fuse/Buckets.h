//===- Buckets.h - Classes of token rows ------------------------*- C++ -*-===//

#ifndef FUSION_LIB_FUSE_BUCKETS_H
#define FUSION_LIB_FUSE_BUCKETS_H

#include "Support.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace fusion::fuse {

/// The token dimension of a function: [batch, tokens], found at the argument
/// with the role token_ids, else at an integer argument of rank 2 that picks
/// rows of a constant table. Nullopt where the number of tokens is no symbol.
struct TokenRows {
  SymExpr rows;
  std::string tokens;           ///< the symbol of new tokens
  std::vector<std::string> all; ///< every symbol of `rows`
};
std::optional<TokenRows> findTokenRows(mlir::func::FuncOp func);

/// Likely values of the function's symbols: those of its bucket for token
/// rows, and a typical context for the others.
std::map<std::string, int64_t> likelySizes(mlir::func::FuncOp func);

/// The bucket attribute. `max` < 0 means no limit.
mlir::DictionaryAttr makeBucket(mlir::MLIRContext *context, const SymExpr &rows,
                                int64_t min, int64_t max,
                                const std::map<std::string, int64_t> &fixed);

} // namespace fusion::fuse

#endif // FUSION_LIB_FUSE_BUCKETS_H
