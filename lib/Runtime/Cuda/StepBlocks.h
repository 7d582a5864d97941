//===- StepBlocks.h - What a step copies in one piece -----------*- C++ -*-===//
//
// A step uploads one block (the launches' sizes, then the small inputs) and
// fetches one (the status words, then the small outputs); large tensors have
// buffers and copies of their own. Those in the card's memory are used where
// they are, unless they lie at no multiple of 16 bytes.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RUNTIME_CUDA_STEPBLOCKS_H
#define FUSION_LIB_RUNTIME_CUDA_STEPBLOCKS_H

#include "../Executor.h"
#include "CardProgram.h"

namespace fusion::cuda {

struct StepBlocks {
  struct Slot {
    enum class Kind { InBlock, Own, External } kind = Kind::Own;
    uint64_t offset = 0; ///< within the block
    uint64_t bytes = 0;  ///< at the sizes that were prepared for
  };
  std::vector<Slot> inputs, outputs;
  uint64_t uploadBytes = 0, resultBytes = 0;
  /// The output whose largest element is wanted instead of its contents, and
  /// where the card's answer lies among the results.
  std::optional<uint32_t> greedy;
  uint64_t greedyOffset = 0;

  /// `values` are those of the program's table. The programs of a session
  /// share the card's side of the results, in which status words stay zero:
  /// `mostLaunches` of any program have theirs before everything else.
  StepBlocks(const artifact::Model &model, const CardProgram &program,
             const std::vector<int64_t> &values, const Step &step,
             std::optional<uint32_t> greedy, size_t mostLaunches);
};

} // namespace fusion::cuda

#endif // FUSION_LIB_RUNTIME_CUDA_STEPBLOCKS_H
