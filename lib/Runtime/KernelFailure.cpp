//===- KernelFailure.cpp - What a kernel's status code means --------------===//

#include "KernelFailure.h"

#include "fusion/Artifact/HostABI.h"

#include <algorithm>

using namespace fusion;
using namespace fusion::artifact;

template <typename T>
static std::string rangeText(const void *data, uint64_t bytes) {
  const T *first = static_cast<const T *>(data);
  uint64_t count = bytes / sizeof(T);
  auto [low, high] = std::minmax_element(first, first + count);
  std::string text = std::to_string(*low);
  return *low == *high ? text : text + " to " + std::to_string(*high);
}

/// `: an index is out of range; input 'ids' holds 5 to 99999`: the integer
/// inputs that the launch reads, with what they hold.
static std::string indexFault(const Model &model, const Launch &launch,
                              const Step &step) {
  std::string text = ": an index is out of range";
  for (const LaunchArg &arg : launch.args) {
    if (arg.buffer.kind != BufferRef::Kind::Input)
      continue;
    const TensorInfo &input = model.inputs[arg.buffer.index];
    const StepTensor &tensor = step.inputs[arg.buffer.index];
    if (tensor.bytes == 0 || tensor.onCard ||
        (input.type != DType::I64 && input.type != DType::I32))
      continue;
    text += "; input '" + input.name + "' holds " +
            (input.type == DType::I64
                 ? rangeText<int64_t>(tensor.data, tensor.bytes)
                 : rangeText<int32_t>(tensor.data, tensor.bytes));
  }
  return text;
}

std::string fusion::describeLaunch(const Model &model, const Launch &launch) {
  std::string text = "kernel '" + model.kernels[launch.kernel].name + "'";
  return launch.site.empty() ? text : text + " at '" + launch.site + "'";
}

Status fusion::kernelFailure(const Model &model, const Launch &launch,
                             const Step &step, int32_t code) {
  std::string where = describeLaunch(model, launch);
  switch (code) {
  case kHostIndexOutOfRange:
    return Status(StatusCode::InvalidInput,
                  where + indexFault(model, launch, step));
  case kHostDivisionByZero:
    return Status(StatusCode::InvalidInput,
                  where + ": integer division by zero");
  case kHostStalled:
    return Status(StatusCode::Failed,
                  where + ": its blocks waited in vain for each other");
  default:
    return Status(StatusCode::Failed,
                  where + " failed with status " + std::to_string(code));
  }
}
