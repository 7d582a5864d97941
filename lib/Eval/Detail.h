//===- Detail.h - Between the files of the interpreter ----------*- C++ -*-===//

#ifndef FUSION_LIB_EVAL_DETAIL_H
#define FUSION_LIB_EVAL_DETAIL_H

#include "fusion/Eval/Eval.h"

namespace fusion::eval::detail {

/// What an op's evaluation sees. `operands` are null where absent.
struct Frame {
  mlir::Operation *op;
  llvm::ArrayRef<const Tensor *> operands;
  std::vector<int64_t> shape; ///< of the result
  std::function<std::optional<int64_t>(const SymExpr &)> size;

  const Tensor &operand(unsigned i) const { return *operands[i]; }
  Tensor makeResult() const {
    return Tensor(elementType(op->getResult(0)), shape);
  }
};

/// Each returns nullopt when the op is not its own; a failed evaluation
/// leaves `why`.
using Result = std::optional<Tensor>;
Result evaluateElementwise(const Frame &frame, std::string &why);
Result evaluateView(const Frame &frame, std::string &why);
Result evaluateReduction(const Frame &frame, std::string &why);
Result evaluateSemantic(const Frame &frame, std::string &why);

/// Row-major strides of a shape.
std::vector<int64_t> strides(llvm::ArrayRef<int64_t> shape);
/// Calls fn(flat index, multi index) for every element of a shape.
void forEach(llvm::ArrayRef<int64_t> shape,
             llvm::function_ref<void(int64_t, llvm::ArrayRef<int64_t>)> fn);
/// The flat index into a tensor of `shape` that broadcasting `index` reads.
int64_t broadcastIndex(llvm::ArrayRef<int64_t> index,
                       llvm::ArrayRef<int64_t> shape);

} // namespace fusion::eval::detail

#endif // FUSION_LIB_EVAL_DETAIL_H
