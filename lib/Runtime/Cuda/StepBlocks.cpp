//===- StepBlocks.cpp - What a step copies in one piece -------------------===//

#include "StepBlocks.h"

#include "CudaArgmax.h"

#include "fusion/Artifact/Encoding.h"

#include <algorithm>

using namespace fusion;
using namespace fusion::artifact;
using namespace fusion::cuda;

/// A copy has a cost of its own of several microseconds; a larger tensor is
/// worth one, and staging it would cost more.
static constexpr uint64_t kMostInputBytes = 32 << 10;
static constexpr uint64_t kMostOutputBytes = 1 << 20;

/// What kernels read and write at once.
static constexpr uint64_t kPieceBytes = 16;

static uint64_t align(uint64_t offset) { return (offset + 255) / 256 * 256; }

static StepBlocks::Slot place(const StepTensor &tensor, DType type,
                              int64_t elements, uint64_t most,
                              uint64_t &blockBytes) {
  using Kind = StepBlocks::Slot::Kind;
  StepBlocks::Slot slot;
  // No smaller than the step's own: a size may shrink as a length grows.
  slot.bytes = std::max(
      tensor.bytes,
      packedBytes(type, static_cast<uint64_t>(std::max<int64_t>(elements, 0))));
  if (tensor.onCard) {
    // Tensor maps and the fast paths of kernels need whole pieces: what lies
    // between them is copied to where it does not.
    bool aligned = reinterpret_cast<uintptr_t>(tensor.data) % kPieceBytes == 0;
    if (!aligned)
      return slot;
    slot.kind = Kind::External;
    slot.bytes = tensor.bytes;
  } else if (slot.bytes <= most) {
    slot.kind = Kind::InBlock;
    slot.offset = align(blockBytes);
    blockBytes = slot.offset + slot.bytes;
  }
  return slot;
}

StepBlocks::StepBlocks(const Model &model, const CardProgram &program,
                       const std::vector<int64_t> &values, const Step &step,
                       std::optional<uint32_t> greedy, size_t mostLaunches)
    : greedy(greedy) {
  uploadBytes = program.sizesBytes();
  for (size_t i = 0; i < step.inputs.size(); ++i)
    inputs.push_back(place(step.inputs[i], model.inputs[i].type,
                           values[program.inputElements[i]], kMostInputBytes,
                           uploadBytes));
  resultBytes = mostLaunches * sizeof(int32_t);
  for (size_t i = 0; i < step.outputs.size(); ++i)
    outputs.push_back(place(step.outputs[i], model.outputs[i].type,
                            values[program.outputElements[i]],
                            greedy == i ? 0 : kMostOutputBytes, resultBytes));
  if (greedy) {
    greedyOffset = align(resultBytes);
    resultBytes = greedyOffset + CudaArgmax::kResultBytes;
  }
}
