//===- Measured.h - What a profile says of a run ----------------*- C++ -*-===//
//
// `fusion-run --profile` writes the time of every launch, with the nodes that
// it computes. Here it answers how much of a bucket's time some ops take.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_FUSE_MEASURED_H
#define FUSION_LIB_FUSE_MEASURED_H

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

namespace fusion::fuse {

/// The launches of a profile.
class Measured {
public:
  /// Reads a trace; fails with what is wrong with it.
  static llvm::Expected<Measured> read(llvm::StringRef path);

  struct Event {
    std::string kernel, program;
    std::vector<std::string> nodes;
    int64_t rows = 0; ///< token rows of the run; 0 when unknown
    double seconds = 0;
  };
  llvm::ArrayRef<Event> events() const { return all; }
  /// Whether a launch computes a node of the module.
  bool knows(mlir::ModuleOp module) const;

private:
  std::vector<Event> all;
};

/// The part of a profile that ran with a function's token rows.
class MeasuredBucket {
public:
  MeasuredBucket() = default;
  MeasuredBucket(const Measured &measured, mlir::func::FuncOp func);

  /// The part of the bucket's time that kernels take which compute one of the
  /// ops: all launches of these kernels, because equal layers share one.
  /// Nullopt when nothing was measured.
  std::optional<double> share(llvm::ArrayRef<mlir::Operation *> ops) const;

private:
  llvm::StringMap<llvm::SmallVector<unsigned, 1>> kernelsOf; ///< by node
  std::vector<double> kernelSeconds;
  double seconds = 0;
};

} // namespace fusion::fuse

#endif // FUSION_LIB_FUSE_MEASURED_H
