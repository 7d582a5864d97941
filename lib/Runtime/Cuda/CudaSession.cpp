//===- CudaSession.cpp - One session's runs on the card -------------------===//

#include "CudaSession.h"

#include "../KernelFailure.h"
#include "fusion/Artifact/Encoding.h"
#include "fusion/Artifact/HostABI.h"

#include <algorithm>
#include <cstring>

using namespace fusion;
using namespace fusion::artifact;
using namespace fusion::cuda;

/// Sizes that were prepared last stay; others are made again.
static constexpr size_t kMostPrepared = 32;

/// Pinned memory cannot be paged out: larger outputs take the slower copy.
static constexpr uint64_t kMostPinnedBytes = 256 << 20;

CudaSession::~CudaSession() {
  if (!resources)
    return;
  ContextScope scope(*shared.device);
  if (resources->stream) {
    (void)driver().streamSynchronize(resources->stream);
    (void)driver().streamDestroy(resources->stream);
  }
  for (Event event : {resources->begin, resources->end})
    if (event)
      (void)driver().eventDestroy(event);
  resources.reset();
}

/// With the context current.
Status CudaSession::start() {
  if (!resources) {
    resources = std::make_unique<Resources>(*shared.device);
    for (size_t i = 0; i < model.inputs.size(); ++i)
      resources->inputs.emplace_back(*shared.device);
    for (size_t i = 0; i < model.outputs.size(); ++i) {
      resources->outputs.emplace_back(*shared.device);
      resources->hostOutputs.emplace_back(*shared.device);
    }
  }
  Resources &r = *resources;
  if (r.stream)
    return {};
  if (Status s = r.counters.reserve(shared.counterBytes, "counters"); !s)
    return s;
  for (Event *event : {&r.begin, &r.end})
    if (!*event)
      if (Status s = check(driver().eventCreate(event, 0), "making an event");
          !s)
        return s;
  Stream stream = nullptr;
  Code code = driver().streamCreate(&stream, kStreamNonBlocking);
  if (Status s = check(code, "making a stream"); !s)
    return s;
  r.stream = stream;
  code = driver().setBytes(r.counters.address(), 0, r.counters.size(), stream);
  return check(code, "clearing the counters");
}

Status CudaSession::allocateStates(const std::vector<uint64_t> &bytes) {
  ContextScope scope(*shared.device);
  if (Status s = start(); !s)
    return s;
  Resources &r = *resources;
  r.prepared.clear();
  r.states.clear();
  r.stateBytes = bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    r.states.emplace_back(*shared.device);
    if (Status s = r.states.back().reserve(
            bytes[i], "state '" + model.states[i].name + "'");
        !s)
      return s;
  }
  statesStale = true;
  return {};
}

uint8_t *CudaSession::reserveOutput(uint32_t index, uint64_t bytes) {
  ContextScope scope(*shared.device);
  if (bytes > kMostPinnedBytes || !start())
    return nullptr; // the run will say why it does not start
  PinnedBuffer &buffer = resources->hostOutputs[index];
  return buffer.reserve(bytes, "an output") ? buffer.data() : nullptr;
}

Status CudaSession::zeroStates() {
  if (!statesStale)
    return {};
  for (DeviceBuffer &state : resources->states)
    if (Status s = check(driver().setBytes(state.address(), 0, state.size(),
                                           resources->stream),
                         "clearing the states");
        !s)
      return s;
  statesStale = false;
  return {};
}

Status CudaSession::clearStatus() {
  return check(driver().setBytes(resources->results.address(), 0,
                                 resources->results.size(), resources->stream),
               "clearing the status words");
}

/// A buffer that moves makes everything prepared useless.
Status CudaSession::reserve(DeviceBuffer &buffer, uint64_t bytes,
                            const char *what) {
  if (buffer.address() && bytes <= buffer.size())
    return {};
  resources->prepared.clear();
  // Sizes that have grown once grow again.
  uint64_t room = buffer.address() ? bytes + bytes / 4 : bytes;
  return buffer.reserve(room, what);
}

Status CudaSession::reserveFor(const ProgramSizes &sizes,
                               const StepBlocks &blocks) {
  using Kind = StepBlocks::Slot::Kind;
  Resources &r = *resources;
  for (size_t i = 0; i < blocks.inputs.size(); ++i)
    if (blocks.inputs[i].kind == Kind::Own)
      if (Status s = reserve(r.inputs[i], blocks.inputs[i].bytes, "an input");
          !s)
        return s;
  for (size_t i = 0; i < blocks.outputs.size(); ++i)
    if (blocks.outputs[i].kind == Kind::Own)
      if (Status s =
              reserve(r.outputs[i], blocks.outputs[i].bytes, "an output");
          !s)
        return s;
  if (Status s = reserve(r.arena, sizes.arena.size, "the arena"); !s)
    return s;
  if (Status s = reserve(r.workspace, sizes.workspaceBytes, "the workspace");
      !s)
    return s;
  if (Status s = reserve(r.upload, blocks.uploadBytes, "sizes"); !s)
    return s;
  bool fresh = blocks.resultBytes > r.results.size();
  if (Status s = reserve(r.results, blocks.resultBytes, "results"); !s)
    return s;
  if (fresh)
    if (Status s = clearStatus(); !s)
      return s;
  if (Status s = r.pinned.reserve(blocks.uploadBytes, "sizes"); !s)
    return s;
  return r.fetched.reserve(blocks.resultBytes, "results");
}

Placement CudaSession::place(const Step &step, const StepBlocks &blocks) const {
  using Kind = StepBlocks::Slot::Kind;
  const Resources &r = *resources;
  auto region = [](const StepBlocks::Slot &slot, const StepTensor &tensor,
                   Address block, const DeviceBuffer &own) {
    Address address = slot.kind == Kind::InBlock ? block + slot.offset
                      : slot.kind == Kind::Own
                          ? own.address()
                          : reinterpret_cast<Address>(tensor.data);
    return Region{address, slot.bytes};
  };
  Placement placement;
  for (size_t i = 0; i < blocks.inputs.size(); ++i)
    placement.inputs.push_back(region(blocks.inputs[i], step.inputs[i],
                                      r.upload.address(), r.inputs[i]));
  for (size_t i = 0; i < blocks.outputs.size(); ++i)
    placement.outputs.push_back(region(blocks.outputs[i], step.outputs[i],
                                       r.results.address(), r.outputs[i]));
  for (size_t i = 0; i < r.states.size(); ++i)
    placement.states.push_back({r.states[i].address(), r.stateBytes[i]});
  placement.weights = shared.weights->regions();
  placement.arena = r.arena.address();
  placement.workspace = r.workspace.address();
  placement.counters = r.counters.address();
  placement.sizes = r.upload.address();
  return placement;
}

/// The output that the card is to choose from.
std::optional<uint32_t> CudaSession::greedyOutput(const Step &step) const {
  const Greedy *greedy = step.options.greedy;
  if (!greedy || !shared.argmax || step.options.observer)
    return std::nullopt;
  const StepTensor &output = step.outputs[greedy->output];
  const TensorInfo &info = model.outputs[greedy->output];
  if (output.onCard || output.bytes == 0 || !CudaArgmax::supports(info.type) ||
      info.shape.empty() || !info.shape.back().asConstant())
    return std::nullopt;
  return greedy->output;
}

/// Sizes of the program, where tensors of the caller's lie, and whether the
/// card chooses.
std::vector<int64_t> CudaSession::keyOf(const Step &step) const {
  std::vector<int64_t> key = shared.programs[step.program]->key(step.symbols);
  for (const auto *tensors : {&step.inputs, &step.outputs})
    for (const StepTensor &tensor : *tensors)
      key.push_back(tensor.onCard ? reinterpret_cast<int64_t>(tensor.data) : 0);
  if (auto output = greedyOutput(step))
    key.push_back(*output);
  return key;
}

Result<CudaSession::Prepared *> CudaSession::prepare(const Step &step) {
  Resources &r = *resources;
  std::vector<int64_t> key = keyOf(step);
  auto it = std::find_if(r.prepared.begin(), r.prepared.end(),
                         [&](const Prepared &p) {
                           return p.program == step.program && p.key == key;
                         });
  if (it == r.prepared.end())
    return prepareNew(step, std::move(key));
  r.prepared.splice(r.prepared.begin(), r.prepared, it);
  return &r.prepared.front();
}

Result<CudaSession::Prepared *>
CudaSession::prepareNew(const Step &step, std::vector<int64_t> key) {
  Resources &r = *resources;
  const CardProgram &program = *shared.programs[step.program];
  auto sizes = ProgramSizes::evaluate(model, program, step.symbols);
  if (!sizes)
    return sizes.status();
  size_t mostLaunches = 0;
  for (const auto &other : shared.programs)
    if (other)
      mostLaunches = std::max(mostLaunches, other->launches.size());
  StepBlocks blocks(model, program, sizes->values, step, greedyOutput(step),
                    mostLaunches);
  if (Status s = reserveFor(*sizes, blocks); !s)
    return s;
  Placement placement = place(step, blocks);
  Region choice;
  if (blocks.greedy) {
    const TensorInfo &info = model.outputs[*blocks.greedy];
    uint64_t row = packedBytes(
        info.type, static_cast<uint64_t>(*info.shape.back().asConstant()));
    choice = {placement.outputs[*blocks.greedy].address +
                  step.outputs[*blocks.greedy].bytes - row,
              row};
  }
  auto launches =
      std::make_unique<PreparedProgram>(model, program, std::move(*sizes));
  if (Status s = launches->prepare(driver(), *shared.code, placement); !s)
    return s;
  if (r.prepared.size() >= kMostPrepared)
    r.prepared.pop_back();
  r.prepared.push_front({step.program, std::move(key), std::move(blocks),
                         choice, std::move(launches), nullptr});
  return &r.prepared.front();
}

Code CudaSession::copyIn(Address to, const StepTensor &from) {
  Stream stream = resources->stream;
  if (from.onCard)
    return driver().copyOnDevice(to, reinterpret_cast<Address>(from.data),
                                 from.bytes, stream);
  return driver().copyToDevice(to, from.data, from.bytes, stream);
}

Code CudaSession::copyOut(const StepTensor &to, Address from) {
  Stream stream = resources->stream;
  if (to.onCard)
    return driver().copyOnDevice(reinterpret_cast<Address>(to.data), from,
                                 to.bytes, stream);
  return driver().copyToHost(to.data, from, to.bytes, stream);
}

Status CudaSession::upload(const Step &step, const Prepared &prepared) {
  using Kind = StepBlocks::Slot::Kind;
  Resources &r = *resources;
  const StepBlocks &blocks = prepared.blocks;
  shared.programs[step.program]->writeSizes(r.pinned.data(), step.values,
                                            ++runs, r.results.address());
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (blocks.inputs[i].kind == Kind::InBlock)
      memcpy(r.pinned.data() + blocks.inputs[i].offset, step.inputs[i].data,
             step.inputs[i].bytes);
  Code code = driver().copyToDevice(r.upload.address(), r.pinned.data(),
                                    blocks.uploadBytes, r.stream);
  for (size_t i = 0; i < step.inputs.size() && code == Code::Success; ++i)
    if (blocks.inputs[i].kind == Kind::Own && step.inputs[i].bytes > 0)
      code = copyIn(r.inputs[i].address(), step.inputs[i]);
  return check(code, "copying the inputs");
}

Status CudaSession::issueChoice(const Prepared &prepared) {
  const StepBlocks &blocks = prepared.blocks;
  if (!blocks.greedy)
    return {};
  DType type = model.outputs[*blocks.greedy].type;
  return shared.argmax->issue(resources->stream, type, prepared.choice.address,
                              prepared.choice.bytes / (bitWidth(type) / 8),
                              resources->results.address() +
                                  blocks.greedyOffset);
}

Status CudaSession::issueAll(const Prepared &prepared) {
  for (uint32_t i = 0; i < prepared.launches->launchCount(); ++i)
    if (Status s = prepared.launches->issue(driver(), i, resources->stream,
                                            /*overlap=*/true);
        !s)
      return s;
  return issueChoice(prepared);
}

/// Replays the prepared launches' graph, where they have one or are worth one.
Status CudaSession::replay(const Step &step, Prepared &prepared, bool &done) {
  if (!prepared.graph) {
    bool worth =
        prepared.uses > 0 || shared.programs[step.program]->residentLengths();
    if (!worth || prepared.launches->isEmpty())
      return {};
    auto graph = CudaGraph::capture(driver(), resources->stream,
                                    [&] { return issueAll(prepared); });
    if (!graph)
      return graph.status();
    prepared.graph = std::move(*graph);
  }
  done = true;
  return prepared.graph->launch(resources->stream);
}

Status CudaSession::execute(const Step &step, Prepared &prepared) {
  if (step.options.profile || step.options.observer)
    return issueWatched(step, prepared);
  bool timed = step.options.deviceSeconds != nullptr, done = false;
  Code code = Code::Success;
  if (timed)
    code = driver().eventRecord(resources->begin, resources->stream);
  if (Status s = check(code, "recording an event"); !s)
    return s;
  if (step.options.graphs)
    if (Status s = replay(step, prepared, done); !s)
      return s;
  if (!done)
    if (Status s = issueAll(prepared); !s)
      return s;
  ++prepared.uses;
  if (timed)
    code = driver().eventRecord(resources->end, resources->stream);
  return check(code, "recording an event");
}

/// One launch after the other, each waited for: for profiles and observers.
Status CudaSession::issueWatched(const Step &step, const Prepared &prepared) {
  Resources &r = *resources;
  int64_t now = 0;
  for (uint32_t i = 0; i < prepared.launches->launchCount(); ++i) {
    Code code = driver().eventRecord(r.begin, r.stream);
    if (Status s = check(code, "recording an event"); !s)
      return s;
    if (Status s = prepared.launches->issue(driver(), i, r.stream,
                                            /*overlap=*/false);
        !s)
      return s;
    float ms = 0;
    code = driver().eventRecord(r.end, r.stream);
    if (code == Code::Success)
      code = driver().eventSynchronize(r.end);
    if (code == Code::Success)
      code = driver().eventElapsedTime(&ms, r.begin, r.end);
    const Launch &launch = *shared.programs[step.program]->launches[i].launch;
    if (Status s = check(code, describeLaunch(model, launch) + " failed"); !s)
      return s;
    auto ns = static_cast<int64_t>(static_cast<double>(ms) * 1e6);
    if (step.options.profile)
      step.options.profile->events.push_back({step.options.profile->runs,
                                              step.program, i, now, now + ns,
                                              prepared.launches->grid(i)});
    now += ns;
    if (step.options.observer)
      if (Status s = observe(step, prepared, i); !s)
        return s;
  }
  if (step.options.profile)
    ++step.options.profile->runs;
  return issueChoice(prepared);
}

Status CudaSession::observe(const Step &step, const Prepared &prepared,
                            uint32_t launch) {
  const Program &program = shared.programs[step.program]->program();
  const CompiledProgram &compiled = shared.loaded.programs[step.program];
  std::vector<uint8_t> bytes;
  for (uint32_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].lastUse != launch ||
        program.buffers[b].value.empty())
      continue;
    bytes.resize(static_cast<uint64_t>(step.values[compiled.bufferBytes[b]]));
    Code code = driver().copyToHost(
        bytes.data(),
        resources->arena.address() + prepared.launches->sizes.arena.offsets[b],
        bytes.size(), resources->stream);
    if (code == Code::Success)
      code = driver().streamSynchronize(resources->stream);
    if (Status s = check(code, "copying a value"); !s)
      return s;
    step.options.observer->completed(b, bytes.data(), bytes.size());
  }
  return {};
}

Status CudaSession::fetch(const Step &step, const Prepared &prepared) {
  using Kind = StepBlocks::Slot::Kind;
  Resources &r = *resources;
  const StepBlocks &blocks = prepared.blocks;
  Code code = Code::Success;
  if (blocks.resultBytes > 0)
    code = driver().copyToHost(r.fetched.data(), r.results.address(),
                               blocks.resultBytes, r.stream);
  for (size_t i = 0; i < step.outputs.size() && code == Code::Success; ++i)
    if (blocks.outputs[i].kind == Kind::Own && step.outputs[i].bytes > 0 &&
        blocks.greedy != i)
      code = copyOut(step.outputs[i], r.outputs[i].address());
  if (code == Code::Success)
    code = driver().streamSynchronize(r.stream);
  if (Status s = check(code, "program '" +
                                 shared.programs[step.program]->program().name +
                                 "' failed on the card (--profile=FILE runs "
                                 "its kernels one by one and names the one at "
                                 "fault)");
      !s)
    return s;
  for (size_t i = 0; i < step.outputs.size(); ++i)
    if (blocks.outputs[i].kind == Kind::InBlock)
      memcpy(step.outputs[i].data, r.fetched.data() + blocks.outputs[i].offset,
             step.outputs[i].bytes);
  if (blocks.greedy) {
    step.options.greedy->done = true;
    step.options.greedy->index =
        CudaArgmax::choose(r.fetched.data() + blocks.greedyOffset);
  }
  if (!step.options.deviceSeconds)
    return {};
  float ms = 0;
  code = driver().eventElapsedTime(&ms, r.begin, r.end);
  *step.options.deviceSeconds = static_cast<double>(ms) / 1e3;
  return check(code, "reading an event");
}

Status CudaSession::checkLaunches(const Step &step) {
  Resources &r = *resources;
  const CardProgram &program = *shared.programs[step.program];
  for (size_t i = 0; i < program.launches.size(); ++i) {
    int32_t word;
    memcpy(&word, r.fetched.data() + i * sizeof word, sizeof word);
    if (word == kHostOk)
      continue;
    if (Status s = clearStatus(); !s)
      return s;
    return kernelFailure(model, program.program(), *program.launches[i].launch,
                         step, word);
  }
  return {};
}

Status CudaSession::run(const Step &step) {
  ContextScope scope(*shared.device);
  if (Status s = start(); !s)
    return s;
  if (Status s = zeroStates(); !s)
    return s;
  auto prepared = prepare(step);
  if (!prepared)
    return prepared.status();
  if (Status s = upload(step, **prepared); !s)
    return s;
  if (Status s = execute(step, **prepared); !s) {
    (void)driver().streamSynchronize(resources->stream);
    return s;
  }
  if (Status s = fetch(step, **prepared); !s)
    return s;
  return checkLaunches(step);
}
