//===- Executor.h - What runs a program's launches --------------*- C++ -*-===//
//
// The session decides what to run (symbols, program, buffers of inputs and
// outputs); an executor runs it on one device: HostExecutor.cpp on the
// processor, Cuda/CudaExecutor.cpp on a card.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RUNTIME_EXECUTOR_H
#define FUSION_LIB_RUNTIME_EXECUTOR_H

#include "CompiledProgram.h"
#include "fusion/Artifact/Reader.h"
#include "fusion/Runtime/Session.h"

#include <memory>

namespace fusion {

/// An input or output of a run; `data` is never null.
struct StepTensor {
  void *data; ///< the executor writes outputs only
  uint64_t bytes;
  bool onCard = false; ///< where the memory is
};

/// One run of one program.
struct Step {
  uint32_t program = 0;
  const std::vector<int64_t> &symbols; ///< values of Model::symbols
  /// Of the program's table at the bound symbols.
  const std::vector<int64_t> &values;
  const std::vector<StepTensor> &inputs, &outputs;
  const RunOptions &options;
};

/// A session's share of an executor: its states.
class ExecutorSession {
public:
  virtual ~ExecutorSession() = default;
  /// Allocates the states, zero-filled; `bytes[i]` is the size of state i.
  virtual Status allocateStates(const std::vector<uint64_t> &bytes) = 0;
  virtual void clearStates() = 0;
  /// Memory for output `index` that the device copies to faster than to other
  /// memory, kept until it has to grow; null where there is none.
  virtual uint8_t *reserveOutput(uint32_t index, uint64_t bytes) {
    return nullptr;
  }
  virtual Status run(const Step &step) = 0;
};

/// One per open model; sessions of several threads share it.
class Executor {
public:
  virtual ~Executor() = default;
  virtual std::unique_ptr<ExecutorSession> createSession() = 0;
};

/// What every executor starts from. Outlives it.
struct LoadedPrograms {
  const artifact::Artifact &artifact;
  const std::vector<CompiledProgram> &programs;
};

Result<std::unique_ptr<Executor>> createHostExecutor(LoadedPrograms loaded,
                                                     unsigned threads);
Result<std::unique_ptr<Executor>>
createCudaExecutor(LoadedPrograms loaded, const CudaOptions &options);

} // namespace fusion

#endif // FUSION_LIB_RUNTIME_EXECUTOR_H
