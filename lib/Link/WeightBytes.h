//===- WeightBytes.h - The bytes of planned constants -----------*- C++ -*-===//

#ifndef FUSION_LIB_LINK_WEIGHTBYTES_H
#define FUSION_LIB_LINK_WEIGHTBYTES_H

#include "fusion/Artifact/Writer.h"
#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Dialect/Plan/PlanOps.h"
#include "fusion/Kernels/LowBit.h"

#include "mlir/IR/BuiltinOps.h"

namespace fusion {

/// How a constant is stored.
kernels::PackedLayout getLayout(plan::ConstantOp constant);

/// Reads or computes the bytes of constants. Files stay open until the end;
/// nothing of their contents is kept.
class WeightBytes {
public:
  explicit WeightBytes(mlir::ModuleOp module) : symbols(module) {}
  ~WeightBytes();
  WeightBytes(const WeightBytes &) = delete;
  WeightBytes &operator=(const WeightBytes &) = delete;

  /// Writes the constant to `sink`, a few MiB at a time when it comes from a
  /// file.
  Status write(plan::ConstantOp constant, artifact::ByteSink &sink);

private:
  /// The same in row-major order, whatever its layout.
  Status writeRows(plan::ConstantOp constant, artifact::ByteSink &sink);
  /// Copies the bytes of a file, rounded to `element` where they are stored in
  /// another type.
  Status copyFile(WeightRefAttr source, mlir::Type element,
                  artifact::ByteSink &sink);
  /// The transpose of what the file holds.
  Status copyTransposed(WeightRefAttr source, mlir::RankedTensorType type,
                        artifact::ByteSink &sink);
  /// Bytes of a file, rounded where they are stored in another type.
  Status put(WeightRefAttr source, mlir::Type element, const char *data,
             size_t bytes, artifact::ByteSink &sink);
  Result<int> open(const std::string &file);
  Result<std::string> read(plan::ConstantOp constant);
  Result<std::string> evaluate(plan::ConstantOp constant);

  mlir::SymbolTable symbols;
  llvm::StringMap<int> files; ///< descriptors
  std::vector<char> chunk, turned;
  std::vector<uint16_t> narrow;
};

} // namespace fusion

#endif // FUSION_LIB_LINK_WEIGHTBYTES_H
