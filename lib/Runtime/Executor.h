//===- Executor.h - What runs a program's launches --------------*- C++ -*-===//
//
// The session decides what to run (symbols, program, buffers of inputs and
// outputs); an executor runs it on one device. The host executor is the only
// one yet; one for the card owns copies of the weights, an arena and captured
// graphs behind the same two classes.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RUNTIME_EXECUTOR_H
#define FUSION_LIB_RUNTIME_EXECUTOR_H

#include "CompiledProgram.h"
#include "fusion/Artifact/Reader.h"
#include "fusion/Runtime/Profile.h"

#include <memory>

namespace fusion {

/// One run of one program. Pointers are host memory, and never null.
struct Step {
  uint32_t program = 0;
  /// Of the program's table at the bound symbols.
  const std::vector<int64_t> &values;
  const std::vector<const void *> &inputs;
  const std::vector<void *> &outputs;
  const std::vector<uint64_t> &inputBytes, &outputBytes;
  Profile *profile = nullptr;   ///< gets the times of the launches
  Observer *observer = nullptr; ///< sees the buffers after each launch
};

/// A session's share of an executor: its states.
class ExecutorSession {
public:
  virtual ~ExecutorSession() = default;
  /// Allocates the states, zero-filled; `bytes[i]` is the size of state i.
  virtual Status allocateStates(const std::vector<uint64_t> &bytes) = 0;
  virtual void clearStates() = 0;
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
Result<std::unique_ptr<Executor>> createCudaExecutor(LoadedPrograms loaded);

} // namespace fusion

#endif // FUSION_LIB_RUNTIME_EXECUTOR_H
