//===- Epilogue.h - What follows a hero, at its elements --------*- C++ -*-===//
//
// A template computes elements of a product or an attention; the results of
// the group that lie over the same space are computed from them and stored.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_EPILOGUE_H
#define FUSION_LIB_CODEGEN_HOPPER_EPILOGUE_H

#include "KernelFunction.h"

#include "fusion/Kernels/StridedView.h"

namespace fusion::hopper {

class Epilogue {
public:
  /// `space`: shape of the heroes.
  Epilogue(KernelFunction &f, const SymShape &space);

  /// An element of a hero, or a vector of them, in computeType().
  struct Element {
    mlir::Value hero;
    Val value;
  };
  /// Stores all results over the space at `at`, whose last index has the lanes
  /// of the group's emitter.
  void store(llvm::ArrayRef<codegen::Index> at,
             llvm::ArrayRef<Element> elements);

  /// Results that no hero feeds.
  llvm::ArrayRef<unsigned> others() const { return rest; }

private:
  void place(unsigned number, const kernels::StridedOutput &output,
             llvm::ArrayRef<codegen::Index> at, Val value);

  KernelFunction &f;
  llvm::SmallVector<std::pair<unsigned, kernels::StridedOutput>> outputs;
  llvm::SmallVector<unsigned> rest;
};

/// Whether every result leaves in 16 bits.
bool roundsAllResults(KernelOp kernel);

/// What `get` finds of the kernel for a template; without it the function fails
/// with its reason.
template <typename Shape>
std::optional<Shape> takeShape(KernelFunction &f,
                               std::optional<Shape> (*get)(KernelOp,
                                                           std::string &)) {
  std::string reason;
  std::optional<Shape> shape = get(f.kernel, reason);
  if (!shape)
    f.fail(reason);
  f.target->approximate = shape && roundsAllResults(f.kernel);
  return shape;
}

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_EPILOGUE_H
