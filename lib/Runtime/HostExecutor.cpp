//===- HostExecutor.cpp - Runs launches on the processor ------------------===//
//
// A run takes the pool for itself, places the arena for the sizes at hand and
// walks the launches. Per launch there is no allocation, no text and no lock:
// argument pointers are computed into a flat array, and the pool splits the
// grid.
//
//===----------------------------------------------------------------------===//

#include "Blas.h"
#include "Executor.h"
#include "HostImage.h"
#include "KernelFailure.h"
#include "fusion/Runtime/Buffer.h"
#include "fusion/Runtime/ThreadPool.h"

#include <algorithm>
#include <chrono>
#include <mutex>

using namespace fusion;
using namespace fusion::artifact;

namespace {

int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Status noMemory(const std::string &what, uint64_t bytes) {
  return Status(StatusCode::Failed, "no memory for " + what + " (" +
                                        std::to_string(bytes) + " bytes)");
}

constexpr int64_t kMostBytes = int64_t(1) << 46;

class HostExecutor : public Executor {
public:
  HostExecutor(LoadedPrograms loaded, std::unique_ptr<HostImage> image,
               unsigned threads)
      : loaded(loaded), image(std::move(image)), pool(threads),
        sgemm(hostSgemm()), contexts(pool.size()) {}

  std::unique_ptr<ExecutorSession> createSession() override;

  /// Per-worker scratch of at least `bytes`; call with `mutex` held.
  Status prepareScratch(uint64_t bytes, int32_t *status) {
    uint64_t each = (std::max<uint64_t>(bytes, 64) + 4095) / 4096 * 4096;
    if (!scratch.reserve(each * pool.size()))
      return noMemory("scratch", each * pool.size());
    for (unsigned w = 0; w < pool.size(); ++w)
      contexts[w] = {
          sgemm,  scratch.data() + w * each, static_cast<int64_t>(each),
          status, static_cast<int32_t>(w),   static_cast<int32_t>(pool.size())};
    return {};
  }

  const LoadedPrograms loaded;
  const std::unique_ptr<HostImage> image;
  std::mutex mutex; ///< of the pool, the contexts and the scratch
  ThreadPool pool;
  const HostSgemm sgemm;
  std::vector<HostContext> contexts;
  Buffer scratch;
};

/// What the pool needs to run one launch.
struct Call {
  HostKernel kernel;
  const HostContext *contexts;
  void *const *args;
  const int64_t *sizes;

  static void run(void *self, unsigned worker, int64_t begin, int64_t end) {
    const Call &c = *static_cast<const Call *>(self);
    c.kernel(&c.contexts[worker], c.args, c.sizes, begin, end);
  }
};

class HostSession : public ExecutorSession {
public:
  explicit HostSession(HostExecutor &executor)
      : executor(executor), model(executor.loaded.artifact.model()),
        plans(executor.loaded.programs.size()) {
    for (uint32_t i = 0; i < model.weights.size(); ++i)
      weights.push_back(executor.loaded.artifact.weight(i));
  }

  Status allocateStates(const std::vector<uint64_t> &bytes) override {
    states.clear();
    stateBytes = bytes;
    for (size_t i = 0; i < bytes.size(); ++i) {
      states.emplace_back();
      if (!states.back().reserve(bytes[i]))
        return noMemory("state '" + model.states[i].name + "'", bytes[i]);
    }
    return {};
  }
  void clearStates() override {
    for (Buffer &state : states)
      state.clear();
  }
  Status run(const Step &step) override;

private:
  /// Buffers at their sizes of the last run, in places that are large enough.
  struct ArenaPlan {
    std::vector<uint64_t> bytes, room, offsets;
    uint64_t size = 0;
    bool fits() const;
    void make(const std::vector<ArenaBuffer> &buffers);
  };

  Status placeArena(const Step &step);
  Status resolve(const Step &step, const Launch &launch,
                 const CompiledLaunch &compiled);
  Status outside(uint64_t bytes, const Launch &launch) const;
  Status runLaunch(const Step &step, uint32_t index);
  void observe(const Step &step, uint32_t index);

  HostExecutor &executor;
  const Model &model;
  std::vector<const uint8_t *> weights;
  std::vector<Buffer> states;
  std::vector<uint64_t> stateBytes;
  std::vector<ArenaPlan> plans; ///< of the last sizes, for each program
  Buffer arena;
  std::vector<void *> args;
  std::vector<int64_t> sizes;
  int32_t kernelStatus = kHostOk;
};

std::unique_ptr<ExecutorSession> HostExecutor::createSession() {
  return std::make_unique<HostSession>(*this);
}

/// A plan of much larger sizes would spread a small run over many pages.
bool HostSession::ArenaPlan::fits() const {
  uint64_t needed = 0, planned = 0;
  if (room.size() != bytes.size())
    return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] > room[i])
      return false;
    needed += bytes[i];
    planned += room[i];
  }
  return needed >= planned / 4;
}

/// Placing a few hundred buffers takes a fraction of a millisecond, and some
/// of them grow with every token: those get room to grow by a quarter.
void HostSession::ArenaPlan::make(const std::vector<ArenaBuffer> &buffers) {
  std::vector<uint64_t> old = std::move(room);
  room = bytes;
  for (size_t i = 0; i < old.size(); ++i)
    if (bytes[i] > old[i])
      room[i] += bytes[i] / 4;
  size = planArena(buffers, room, offsets);
}

Status HostSession::placeArena(const Step &step) {
  const CompiledProgram &compiled = executor.loaded.programs[step.program];
  ArenaPlan &plan = plans[step.program];
  plan.bytes.resize(compiled.bufferBytes.size());
  for (size_t i = 0; i < plan.bytes.size(); ++i) {
    int64_t value = step.values[compiled.bufferBytes[i]];
    if (value < 0)
      return Status(StatusCode::BadArtifact,
                    "program '" + compiled.program->name +
                        "' has a buffer of negative size");
    if (value > kMostBytes) // also keeps sums of sizes from overflowing
      return noMemory("a buffer of the arena", static_cast<uint64_t>(value));
    plan.bytes[i] = static_cast<uint64_t>(value);
  }
  if (!plan.fits())
    plan.make(compiled.program->buffers);
  return arena.reserve(plan.size) ? Status() : noMemory("arena", plan.size);
}

Status HostSession::outside(uint64_t bytes, const Launch &launch) const {
  return Status(StatusCode::BadArtifact, describeLaunch(model, launch) +
                                             " starts outside a buffer of " +
                                             std::to_string(bytes) + " bytes");
}

/// Fills `args` and `sizes` for a launch.
Status HostSession::resolve(const Step &step, const Launch &launch,
                            const CompiledLaunch &compiled) {
  args.resize(launch.args.size());
  sizes.resize(compiled.sizes.size());
  const ArenaPlan &plan = plans[step.program];
  for (size_t i = 0; i < launch.args.size(); ++i) {
    const BufferRef &ref = launch.args[i].buffer;
    const void *base = nullptr;
    uint64_t bytes = 0;
    switch (ref.kind) {
    case BufferRef::Kind::None:
      break;
    case BufferRef::Kind::Input:
      base = step.inputs[ref.index].data;
      bytes = step.inputs[ref.index].bytes;
      break;
    case BufferRef::Kind::Output:
      base = step.outputs[ref.index].data;
      bytes = step.outputs[ref.index].bytes;
      break;
    case BufferRef::Kind::Weight:
      base = weights[ref.index];
      bytes = model.weights[ref.index].bytes;
      break;
    case BufferRef::Kind::Arena:
      base = arena.data() + plan.offsets[ref.index];
      bytes = plan.bytes[ref.index];
      break;
    case BufferRef::Kind::State:
      base = states[ref.index].data();
      bytes = stateBytes[ref.index];
      break;
    }
    auto offset = static_cast<uint64_t>(step.values[compiled.offsets[i]]);
    if (offset > bytes)
      return outside(bytes, launch);
    const auto *p = static_cast<const uint8_t *>(base) + offset;
    args[i] = const_cast<uint8_t *>(p); // kernels know what they write
  }
  for (size_t i = 0; i < sizes.size(); ++i)
    sizes[i] = step.values[compiled.sizes[i]];
  return {};
}

Status HostSession::runLaunch(const Step &step, uint32_t index) {
  const CompiledProgram &program = executor.loaded.programs[step.program];
  const Launch &launch = program.program->launches[index];
  const CompiledLaunch &compiled = program.launches[index];
  int64_t grid = step.values[compiled.grid];
  if (grid <= 0)
    return {};
  if (Status s = resolve(step, launch, compiled); !s)
    return s;
  HostKernel kernel = executor.image->kernel(launch.kernel);
  if (!kernel)
    return Status(StatusCode::BadArtifact,
                  describeLaunch(model, launch) +
                      " has no code for this processor");
  Call call{kernel, executor.contexts.data(), args.data(), sizes.data()};
  executor.pool.run(grid, step.values[compiled.grain], Call::run, &call);
  return kernelStatus == kHostOk ? Status()
                                 : kernelFailure(model, *program.program,
                                                 launch, step, kernelStatus);
}

void HostSession::observe(const Step &step, uint32_t index) {
  const Program &program = *executor.loaded.programs[step.program].program;
  const ArenaPlan &plan = plans[step.program];
  for (uint32_t b = 0; b < program.buffers.size(); ++b)
    if (program.buffers[b].lastUse == index &&
        !program.buffers[b].value.empty())
      step.options.observer->completed(b, arena.data() + plan.offsets[b],
                                       plan.bytes[b]);
}

Status HostSession::run(const Step &step) {
  const CompiledProgram &program = executor.loaded.programs[step.program];
  std::lock_guard<std::mutex> lock(executor.mutex);
  if (Status s = placeArena(step); !s)
    return s;
  int64_t scratch = 0;
  for (const CompiledLaunch &launch : program.launches)
    scratch = std::max(scratch, step.values[launch.scratchBytes]);
  kernelStatus = kHostOk;
  if (Status s = executor.prepareScratch(static_cast<uint64_t>(scratch),
                                         &kernelStatus);
      !s)
    return s;
  for (uint32_t i = 0; i < program.launches.size(); ++i) {
    int64_t begin = step.options.profile ? nowNs() : 0;
    if (Status s = runLaunch(step, i); !s)
      return s;
    if (step.options.profile)
      step.options.profile->events.push_back(
          {step.options.profile->runs, step.program, i, begin, nowNs(),
           step.values[program.launches[i].grid]});
    if (step.options.observer)
      observe(step, i);
  }
  if (step.options.profile)
    ++step.options.profile->runs;
  return {};
}

} // namespace

Result<std::unique_ptr<Executor>>
fusion::createHostExecutor(LoadedPrograms loaded, unsigned threads) {
  auto image = HostImage::map(loaded.artifact);
  if (!image)
    return image.status();
  return std::unique_ptr<Executor>(
      new HostExecutor(loaded, std::move(*image), threads));
}
