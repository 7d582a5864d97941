//===- SessionInputs.h - Inputs that the session gives ----------*- C++ -*-===//

#ifndef FUSION_LIB_RAISE_DECODER_SESSIONINPUTS_H
#define FUSION_LIB_RAISE_DECODER_SESSIONINPUTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace fusion {

/// The argument with a role, or null.
mlir::BlockArgument findRole(mlir::func::FuncOp main, mlir::StringRef role);

/// Sequences of the token ids [batch, tokens], which must be a known number.
mlir::FailureOr<int64_t> countSequences(mlir::func::FuncOp main);

/// Adds the input `role` [batch] of i32, called as its role where no other
/// input is.
mlir::Value addSequenceInput(mlir::func::FuncOp main, mlir::StringRef role,
                             int64_t batch);

} // namespace fusion

#endif // FUSION_LIB_RAISE_DECODER_SESSIONINPUTS_H
