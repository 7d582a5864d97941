//===- PlanOps.h - The plan dialect -----------------------------*- C++ -*-===//

#ifndef FUSION_DIALECT_PLAN_PLANOPS_H
#define FUSION_DIALECT_PLAN_PLANOPS_H

#include "fusion/Artifact/Model.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "fusion/Dialect/Plan/PlanDialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "fusion/Dialect/Plan/PlanTypes.h.inc"
#define GET_OP_CLASSES
#include "fusion/Dialect/Plan/PlanOps.h.inc"

namespace fusion::plan {

/// ONNX's number of an element type; nullopt for a type that no artifact holds.
std::optional<artifact::DType> getDType(mlir::Type element);

/// The buffer that a chain of views starts from, and the offset into it.
std::pair<mlir::Value, SymExpr> resolveViews(mlir::Value buffer);

/// First and last launch that use each alloc of a program, views included.
/// Allocs that no launch uses are absent.
struct LiveRange {
  uint32_t first = 0, last = 0;
};
llvm::DenseMap<mlir::Operation *, LiveRange> getLiveRanges(ProgramOp program);

} // namespace fusion::plan

#endif // FUSION_DIALECT_PLAN_PLANOPS_H
