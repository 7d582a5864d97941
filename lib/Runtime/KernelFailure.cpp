//===- KernelFailure.cpp - What a kernel's status code means --------------===//

#include "KernelFailure.h"

#include "fusion/Artifact/HostABI.h"

#include <algorithm>
#include <set>

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

namespace {
/// The integer inputs behind a launch: those that it reads, or where it reads
/// none, those that went into what it reads.
class IndexSources {
public:
  IndexSources(const Model &model, const Program &program, const Step &step)
      : model(model), program(program), step(step) {}

  std::set<uint32_t> of(const Launch &launch) {
    std::set<uint32_t> inputs = direct(launch);
    if (inputs.empty())
      addBehind(launch, inputs);
    return inputs;
  }

private:
  std::set<uint32_t> direct(const Launch &launch) const {
    std::set<uint32_t> inputs;
    for (const LaunchArg &arg : launch.args) {
      if (arg.buffer.kind != BufferRef::Kind::Input)
        continue;
      DType type = model.inputs[arg.buffer.index].type;
      const StepTensor &tensor = step.inputs[arg.buffer.index];
      if (tensor.bytes != 0 && !tensor.onCard &&
          (type == DType::I64 || type == DType::I32))
        inputs.insert(arg.buffer.index);
    }
    return inputs;
  }

  /// The launch that uses a buffer first is the one that fills it.
  void addBehind(const Launch &launch, std::set<uint32_t> &inputs) {
    for (const LaunchArg &arg : launch.args) {
      if (arg.buffer.kind != BufferRef::Kind::Arena)
        continue;
      uint32_t writer = program.buffers[arg.buffer.index].firstUse;
      if (writer >= program.launches.size() || !visited.insert(writer).second)
        continue;
      const Launch &source = program.launches[writer];
      std::set<uint32_t> found = direct(source);
      inputs.insert(found.begin(), found.end());
      addBehind(source, inputs);
    }
  }

  const Model &model;
  const Program &program;
  const Step &step;
  std::set<uint32_t> visited; ///< launches
};
} // namespace

/// `: an index is out of range; input 'ids' holds 5 to 99999`: the integer
/// inputs behind the launch, with what they hold.
static std::string indexFault(const Model &model, const Program &program,
                              const Launch &launch, const Step &step) {
  std::string text = ": an index is out of range";
  for (uint32_t index : IndexSources(model, program, step).of(launch)) {
    const TensorInfo &input = model.inputs[index];
    const StepTensor &tensor = step.inputs[index];
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

Status fusion::kernelFailure(const Model &model, const Program &program,
                             const Launch &launch, const Step &step,
                             int32_t code) {
  std::string where = describeLaunch(model, launch);
  switch (code) {
  case kHostIndexOutOfRange:
    return Status(StatusCode::InvalidInput,
                  where + indexFault(model, program, launch, step));
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
