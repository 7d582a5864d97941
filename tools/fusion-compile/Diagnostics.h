//===- Diagnostics.h - What fusion-compile says of faults -------*- C++ -*-===//

#ifndef FUSION_TOOLS_FUSION_COMPILE_DIAGNOSTICS_H
#define FUSION_TOOLS_FUSION_COMPILE_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"

#include <string>

namespace fusion::compile {

/// Prints diagnostics as `FILE: error: node 'NAME': message`; every message
/// names the model's file.
class DiagnosticPrinter {
public:
  DiagnosticPrinter(mlir::MLIRContext &context, std::string file);

private:
  mlir::LogicalResult print(mlir::Diagnostic &diagnostic);

  std::string file;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace fusion::compile

#endif // FUSION_TOOLS_FUSION_COMPILE_DIAGNOSTICS_H
