//===- Import.h - ONNX file to fusion dialect -------------------*- C++ -*-===//

#ifndef FUSION_IMPORT_IMPORT_H
#define FUSION_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <utility>
#include <vector>

namespace fusion {

/// One `--dim KEY=RANGE`. `key` is a symbol of the file, `INPUT[AXIS]`, or one
/// of the roles batch, seq and past. lower == upper fixes the size.
struct DimOption {
  std::string key;
  int64_t lower = 0, upper = INT64_MAX;
};

struct ImportOptions {
  std::vector<DimOption> dims;
  /// `--role ROLE=NAME`: a role (see Roles.h) and the input's or output's name.
  std::vector<std::pair<std::string, std::string>> roles;
  /// `--keep-input NAME`: inputs that have an initializer and stay inputs;
  /// "all" stands for each of them.
  std::vector<std::string> keptInputs;
};

/// Parses `KEY=VALUE` or `KEY=LOWER..UPPER`; nullopt when ill-formed.
std::optional<DimOption> parseDimOption(llvm::StringRef text);

/// Imports a file as a module with one function @main. Faults are reported as
/// diagnostics that name the file and the node; unsupported nodes in one list.
///
/// The module carries `fusion.onnx_file`, `fusion.opset`, `fusion.graph_name`,
/// `fusion.dims` (for each symbol of the inputs its bounds, [lower, upper]),
/// `fusion.dim_roles` (batch, seq, past as expressions) and `fusion.guards`
/// (what was assumed about the sizes, as text). Arguments and results carry
/// `fusion.name`.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importOnnx(llvm::StringRef path, const ImportOptions &options,
           mlir::MLIRContext &context);

/// The operators that are imported, each as a JSON object on a line of its own:
/// domain, name, versions, inputs and outputs with their types, attributes.
void listOperators(llvm::raw_ostream &os);

} // namespace fusion

#endif // FUSION_IMPORT_IMPORT_H
