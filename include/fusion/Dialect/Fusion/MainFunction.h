//===- MainFunction.h - The function that a model is ------------*- C++ -*-===//

#ifndef FUSION_DIALECT_FUSION_MAINFUNCTION_H
#define FUSION_DIALECT_FUSION_MAINFUNCTION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace fusion {

/// Whether a function is a graph as import writes it: one block of ranked
/// tensors that ends in func.return. Says what is not.
llvm::LogicalResult checkGraph(mlir::func::FuncOp function);

/// The function @main of a module, which must be a graph.
mlir::FailureOr<mlir::func::FuncOp> getMain(mlir::ModuleOp module);

} // namespace fusion

#endif // FUSION_DIALECT_FUSION_MAINFUNCTION_H
