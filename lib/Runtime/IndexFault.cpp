//===- IndexFault.cpp - Which input held an index out of range ------------===//

#include "IndexFault.h"

#include "fusion/Artifact/Encoding.h"

#include <algorithm>

using namespace fusion;
using namespace fusion::artifact;

template <typename T>
static std::string rangeText(const void *data, uint64_t bytes) {
  const T *first = static_cast<const T *>(data);
  auto [low, high] = std::minmax_element(first, first + bytes / sizeof(T));
  std::string text = std::to_string(*low);
  return *low == *high ? text : text + " to " + std::to_string(*high);
}

std::string fusion::indexFault(const Model &model, const Launch &launch,
                               const Step &step) {
  std::string text = ": an index is out of range";
  for (const LaunchArg &arg : launch.args) {
    if (arg.buffer.kind != BufferRef::Kind::Input)
      continue;
    const TensorInfo &input = model.inputs[arg.buffer.index];
    const void *data = step.inputs[arg.buffer.index];
    uint64_t bytes = step.inputBytes[arg.buffer.index];
    if (bytes == 0 || (input.type != DType::I64 && input.type != DType::I32))
      continue;
    text += "; input '" + input.name + "' holds " +
            (input.type == DType::I64 ? rangeText<int64_t>(data, bytes)
                                      : rangeText<int32_t>(data, bytes));
  }
  return text;
}
