//===- CostModel.h - Predicted time of a group ------------------*- C++ -*-===//
//
// A roofline: a kernel takes a launch and the longer of its arithmetic and its
// transfers. Sizes that are symbols take the values that are likely in the
// function's bucket.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_FUSE_COSTMODEL_H
#define FUSION_LIB_FUSE_COSTMODEL_H

#include "Families.h"

#include "fusion/Target/Device.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace fusion::fuse {

struct Cost {
  double launches = 0;
  double flops = 0;         ///< useful ones
  double repeatedFlops = 0; ///< of elements computed more than once
  double streamedBytes = 0; ///< weights
  double residentBytes = 0; ///< activations, in and out
  double seconds = 0;
  unsigned mostPlaces = 0; ///< copies of an op's code, at most
  target::Arithmetic arithmetic = target::Arithmetic::Vector32;

  double bytes() const { return streamedBytes + residentBytes; }
};

class CostModel {
public:
  CostModel(const target::DeviceDescription &device, mlir::func::FuncOp func,
            const std::map<std::string, int64_t> &sizes);

  Cost cost(const Candidate &candidate);
  /// One op as a kernel of its own; nothing for border reshapes.
  Cost cost(mlir::Operation *op);
  const target::DeviceDescription &getDevice() const { return device; }
  Abilities getAbilities() const { return abilities; }
  /// The values that symbols are taken to have.
  const std::map<std::string, int64_t> &getSizes() const { return values; }

private:
  double evaluate(const SymExpr &expr) const;
  double elements(mlir::Type type);
  double bytes(mlir::Type type);
  struct Evaluations;
  /// Bytes that the candidate's ops read of an input.
  double bytesRead(mlir::Value input, const Candidate &candidate,
                   const Evaluations &evaluations);
  double bytesWritten(mlir::Value output);
  void addArithmetic(const Candidate &candidate, const Evaluations &evaluations,
                     Cost &cost);

  const target::DeviceDescription &device;
  Abilities abilities;
  std::map<std::string, int64_t> values;
  llvm::DenseMap<mlir::Type, double> elementCounts;
  llvm::DenseMap<mlir::Operation *, Cost> singles;
};

} // namespace fusion::fuse

#endif // FUSION_LIB_FUSE_COSTMODEL_H
