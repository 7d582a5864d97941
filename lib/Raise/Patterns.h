//===- Patterns.h - The patterns of the Raise phase -------------*- C++ -*-===//

#ifndef FUSION_LIB_RAISE_PATTERNS_H
#define FUSION_LIB_RAISE_PATTERNS_H

#include "Matchers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fusion::raise {

void populateArithmeticSpellings(mlir::RewritePatternSet &patterns);
void populateMomentSpellings(mlir::RewritePatternSet &patterns);
void populateSoftmaxSpellings(mlir::RewritePatternSet &patterns);
void populateIndexSpellings(mlir::RewritePatternSet &patterns);
void populateTransposeSpellings(mlir::RewritePatternSet &patterns);
void populateScatterSpellings(mlir::RewritePatternSet &patterns);
void populateViewSpellings(mlir::RewritePatternSet &patterns);
void populateBatchSpellings(mlir::RewritePatternSet &patterns);
void populateRowSpellings(mlir::RewritePatternSet &patterns);
void populateGroupSpellings(mlir::RewritePatternSet &patterns);
void populateMaskSpellings(mlir::RewritePatternSet &patterns);
void populateChannelSpellings(mlir::RewritePatternSet &patterns);
void populateDequantizeSpellings(mlir::RewritePatternSet &patterns);
/// One form for the quantised weights of products.
void populateLowBitWeights(mlir::RewritePatternSet &patterns);
/// The dialect's own canonicalisation of views and products.
void populateDialectCanonicalizations(mlir::RewritePatternSet &patterns);

void populateRmsNorm(mlir::RewritePatternSet &patterns);
void populateLayerNorm(mlir::RewritePatternSet &patterns);
void populateNormCasts(mlir::RewritePatternSet &patterns);
void populateActivations(mlir::RewritePatternSet &patterns);
void populateRopeHalf(mlir::RewritePatternSet &patterns);
void populateRopeInterleaved(mlir::RewritePatternSet &patterns);
void populateRopeAround(mlir::RewritePatternSet &patterns);
void populateRopeTables(mlir::RewritePatternSet &patterns);
void populateAttention(mlir::RewritePatternSet &patterns);
void populateAttentionOperands(mlir::RewritePatternSet &patterns);

/// Applies patterns to a fixed point, with the settings that all passes share.
llvm::LogicalResult apply(mlir::Operation *root,
                          mlir::RewritePatternSet &&patterns);

/// A remark that a pattern matched.
void reportMatch(llvm::StringRef pattern, mlir::Location loc);

} // namespace fusion::raise

#endif // FUSION_LIB_RAISE_PATTERNS_H
