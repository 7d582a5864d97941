//===- CudaSession.h - One session's runs on the card -----------*- C++ -*-===//
//
// A session has a stream, an arena, states and prepared programs of its own. A
// run uploads one block, replays a graph or issues the launches, fetches one
// block (StepBlocks.h) and waits for it.
//
// Programs with device-resident lengths are captured at once: one graph serves
// every cached length. Others are captured when the same sizes come again.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RUNTIME_CUDA_CUDASESSION_H
#define FUSION_LIB_RUNTIME_CUDA_CUDASESSION_H

#include "../Executor.h"
#include "CudaArgmax.h"
#include "CudaGraph.h"
#include "CudaWeights.h"
#include "StepBlocks.h"

#include <list>

namespace fusion::cuda {

/// What the sessions of a model share.
struct CudaShared {
  LoadedPrograms loaded;
  std::shared_ptr<const CudaDevice> device;
  std::unique_ptr<CudaCode> code;
  std::unique_ptr<CudaWeights> weights;
  std::unique_ptr<CudaArgmax> argmax; ///< null: choices are left to the caller
  std::vector<std::unique_ptr<CardProgram>> programs; ///< null: for the host
  uint64_t counterBytes = 0;
};

class CudaSession : public ExecutorSession {
public:
  explicit CudaSession(const CudaShared &shared)
      : shared(shared), model(shared.loaded.artifact.model()) {}
  ~CudaSession() override;

  Status allocateStates(const std::vector<uint64_t> &bytes) override;
  uint8_t *reserveOutput(uint32_t index, uint64_t bytes) override;
  /// Before the next run.
  void clearStates() override { statesStale = true; }
  Status run(const Step &step) override;

private:
  struct Prepared {
    uint32_t program;
    std::vector<int64_t> key;
    StepBlocks blocks;
    Region choice; ///< the row to choose from, when blocks.greedy says so
    std::unique_ptr<PreparedProgram> launches;
    std::unique_ptr<CudaGraph> graph;
    uint64_t uses = 0;
  };
  /// What is freed while the context is current.
  struct Resources {
    explicit Resources(const CudaDevice &device)
        : arena(device), workspace(device), counters(device), upload(device),
          results(device), pinned(device), fetched(device) {}
    Stream stream = nullptr;
    Event begin = nullptr, end = nullptr;
    DeviceBuffer arena, workspace, counters, upload, results;
    PinnedBuffer pinned, fetched; ///< host sides of upload and results
    std::vector<PinnedBuffer> hostOutputs;
    std::vector<DeviceBuffer> inputs, outputs, states;
    std::vector<uint64_t> stateBytes;
    std::list<Prepared> prepared; ///< used last first
  };

  Status start();
  Status zeroStates();
  Status clearStatus();
  Status reserve(DeviceBuffer &buffer, uint64_t bytes, const char *what);
  Status reserveFor(const ProgramSizes &sizes, const StepBlocks &blocks);
  Placement place(const Step &step, const StepBlocks &blocks) const;
  std::optional<uint32_t> greedyOutput(const Step &step) const;
  std::vector<int64_t> keyOf(const Step &step) const;
  Result<Prepared *> prepare(const Step &step);
  Result<Prepared *> prepareNew(const Step &step, std::vector<int64_t> key);
  Code copyIn(Address to, const StepTensor &from);
  Code copyOut(const StepTensor &to, Address from);
  Status upload(const Step &step, const Prepared &prepared);
  Status execute(const Step &step, Prepared &prepared);
  Status issueChoice(const Prepared &prepared);
  Status issueAll(const Prepared &prepared);
  Status replay(const Step &step, Prepared &prepared, bool &done);
  Status issueWatched(const Step &step, const Prepared &prepared);
  Status observe(const Step &step, const Prepared &prepared, uint32_t launch);
  Status fetch(const Step &step, const Prepared &prepared);
  Status checkLaunches(const Step &step);
  Status check(Code code, const std::string &what) const {
    return driver().check(code, what);
  }
  const Driver &driver() const { return shared.device->driver(); }

  const CudaShared &shared;
  const artifact::Model &model;
  std::unique_ptr<Resources> resources; ///< made by the first use
  bool statesStale = false;
  int64_t runs = 0;
};

} // namespace fusion::cuda

#endif // FUSION_LIB_RUNTIME_CUDA_CUDASESSION_H
