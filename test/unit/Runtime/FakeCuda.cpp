//===- FakeCuda.cpp - A driver library without a card ---------------------===//

#include "FakeCuda.h"

#include <cstdlib>
#include <mutex>

using namespace fusion;

namespace {

enum : int32_t {
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidContext = 201,
  kNotFound = 500
};

struct FakeStream {
  bool capturing = false;
  std::vector<FakeLaunch> recorded;
};
struct FakeGraph {
  std::vector<FakeLaunch> launches;
};
struct FakeModule {};

struct Attribute {
  uint32_t id, pad;
  uint32_t value[16];
};
struct Config {
  uint32_t gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes;
  FakeStream *stream;
  Attribute *attributes;
  uint32_t attributeCount;
};

FakeCuda state;
std::recursive_mutex mutex; ///< several sessions of one process

template <typename T>
T *keep(T *object) {
  state.objects.insert(object);
  return object;
}
template <typename T>
int32_t drop(T *object) {
  if (!state.objects.erase(object))
    return kInvalidValue;
  delete object;
  return 0;
}

/// Whether the bytes lie in one allocation.
bool onCard(uint64_t address, size_t bytes) {
  auto it = state.allocations.upper_bound(address);
  if (it == state.allocations.begin())
    return false;
  --it;
  return address + bytes <= it->first + it->second;
}

int32_t runLaunch(const FakeLaunch &launch) {
  state.launches.push_back(launch);
  state.kernels[launch.name].body(launch);
  return 0;
}

} // namespace

#define FAKE(name)                                                             \
  extern "C" __attribute__((visibility("default"))) int32_t name
#define LOCKED                                                                 \
  std::lock_guard<std::recursive_mutex> lock(mutex);                           \
  if (state.pushed == 0)                                                       \
    return kInvalidContext;

extern "C" __attribute__((visibility("default"))) FakeCuda *fakeCuda() {
  return &state;
}

FAKE(cuInit)(uint32_t) { return state.initCode; }
FAKE(cuDriverGetVersion)(int32_t *version) {
  *version = state.version;
  return 0;
}
FAKE(cuGetErrorString)(int32_t, const char **text) {
  *text = "the fake driver's text";
  return 0;
}
FAKE(cuDeviceGetCount)(int32_t *count) {
  *count = state.devices;
  return 0;
}
FAKE(cuDeviceGet)(int32_t *device, int32_t ordinal) {
  *device = ordinal + 10;
  return ordinal < state.devices ? 0 : kInvalidValue;
}
FAKE(cuDeviceGetName)(char *name, int32_t, int32_t) {
  strcpy(name, "Fake card");
  return 0;
}
FAKE(cuDeviceGetAttribute)(int32_t *value, int32_t attribute, int32_t) {
  *value = attribute == 75 ? state.major : attribute == 76 ? state.minor : 132;
  return 0;
}
FAKE(cuDevicePrimaryCtxRetain)(void **context, int32_t) {
  ++state.contexts;
  *context = &state;
  return 0;
}
FAKE(cuDevicePrimaryCtxRelease_v2)(int32_t) {
  --state.contexts;
  return 0;
}
FAKE(cuCtxPushCurrent_v2)(void *) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  ++state.pushed;
  return 0;
}
FAKE(cuCtxPopCurrent_v2)(void **) {
  std::lock_guard<std::recursive_mutex> lock(mutex);
  --state.pushed;
  return 0;
}
FAKE(cuModuleLoadData)(void **module, const void *) {
  LOCKED
  if (state.moduleCode)
    return state.moduleCode;
  *module = keep(new FakeModule);
  return 0;
}
FAKE(cuModuleUnload)(FakeModule *module) {
  LOCKED
  return drop(module);
}
FAKE(cuModuleGetFunction)(void **function, void *, const char *name) {
  LOCKED
  auto it = state.kernels.find(name);
  if (it == state.kernels.end())
    return kNotFound;
  *function = &*it;
  return 0;
}
FAKE(cuFuncSetAttribute)(std::pair<const std::string, FakeKernel> *function,
                         int32_t attribute, int32_t value) {
  LOCKED
  function->second.attributes[attribute] = value;
  return 0;
}
FAKE(cuMemGetInfo_v2)(size_t *free, size_t *total) {
  *total = state.memory;
  *free = state.memory - state.allocated();
  return 0;
}
FAKE(cuMemAlloc_v2)(uint64_t *address, size_t bytes) {
  LOCKED
  if (bytes > state.memory - state.allocated())
    return kOutOfMemory;
  void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
  memset(p, 0xA5, bytes); // memory of the card holds anything at first
  *address = reinterpret_cast<uint64_t>(p);
  state.allocations[*address] = bytes;
  return 0;
}
FAKE(cuMemFree_v2)(uint64_t address) {
  LOCKED
  if (!state.allocations.erase(address))
    return kInvalidValue;
  free(reinterpret_cast<void *>(address));
  return 0;
}
FAKE(cuMemHostAlloc)(void **p, size_t bytes, uint32_t) {
  LOCKED
  *p = malloc(bytes);
  state.pinned.insert(*p);
  return 0;
}
FAKE(cuMemFreeHost)(void *p) {
  LOCKED
  if (!state.pinned.erase(p))
    return kInvalidValue;
  free(p);
  return 0;
}
FAKE(cuMemcpyHtoDAsync_v2)(uint64_t to, const void *from, size_t bytes,
                           FakeStream *) {
  LOCKED
  if (!onCard(to, bytes))
    return kInvalidValue;
  ++state.uploads;
  memcpy(reinterpret_cast<void *>(to), from, bytes);
  return 0;
}
FAKE(cuMemcpyDtoHAsync_v2)(void *to, uint64_t from, size_t bytes,
                           FakeStream *) {
  LOCKED
  if (!onCard(from, bytes))
    return kInvalidValue;
  ++state.downloads;
  memcpy(to, reinterpret_cast<void *>(from), bytes);
  return 0;
}
FAKE(cuMemcpyDtoDAsync_v2)(uint64_t to, uint64_t from, size_t bytes,
                           FakeStream *) {
  LOCKED
  ++state.copies;
  memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from), bytes);
  return 0;
}
FAKE(cuMemsetD8Async)(uint64_t to, uint8_t byte, size_t bytes, FakeStream *) {
  LOCKED
  if (!onCard(to, bytes))
    return kInvalidValue;
  memset(reinterpret_cast<void *>(to), byte, bytes);
  return 0;
}
FAKE(cuStreamCreate)(FakeStream **stream, uint32_t) {
  LOCKED
  *stream = keep(new FakeStream);
  return 0;
}
FAKE(cuStreamDestroy_v2)(FakeStream *stream) {
  LOCKED
  return drop(stream);
}
FAKE(cuStreamSynchronize)(FakeStream *) {
  LOCKED
  return state.syncCode;
}
FAKE(cuStreamBeginCapture_v2)(FakeStream *stream, int32_t) {
  LOCKED
  stream->capturing = true;
  stream->recorded.clear();
  return 0;
}
FAKE(cuStreamEndCapture)(FakeStream *stream, FakeGraph **graph) {
  LOCKED
  stream->capturing = false;
  ++state.captures;
  *graph = keep(new FakeGraph{std::move(stream->recorded)});
  return 0;
}
FAKE(cuGraphInstantiateWithFlags)(FakeGraph **executable, FakeGraph *graph,
                                  uint64_t) {
  LOCKED
  *executable = keep(new FakeGraph(*graph));
  return 0;
}
FAKE(cuGraphDestroy)(FakeGraph *graph) {
  LOCKED
  return drop(graph);
}
FAKE(cuGraphExecDestroy)(FakeGraph *executable) {
  LOCKED
  return drop(executable);
}
FAKE(cuGraphLaunch)(FakeGraph *executable, FakeStream *) {
  LOCKED
  ++state.replays;
  for (const FakeLaunch &launch : executable->launches)
    runLaunch(launch);
  return 0;
}
FAKE(cuEventCreate)(int **event, uint32_t) {
  LOCKED
  *event = keep(new int);
  return 0;
}
FAKE(cuEventDestroy_v2)(int *event) {
  LOCKED
  return drop(event);
}
FAKE(cuEventRecord)(int *, FakeStream *) { return 0; }
FAKE(cuEventSynchronize)(int *) { return state.syncCode; }
FAKE(cuEventElapsedTime)(float *ms, int *, int *) {
  *ms = 0.25f;
  return 0;
}
FAKE(cuLaunchKernelEx)(const Config *config,
                       std::pair<const std::string, FakeKernel> *function,
                       void **parameters, void **) {
  LOCKED
  if (state.launchCode)
    return state.launchCode;
  FakeLaunch launch;
  launch.name = function->first;
  launch.grid = config->gridX;
  launch.threads = config->blockX;
  launch.sharedBytes = config->sharedBytes;
  for (uint32_t i = 0; i < config->attributeCount; ++i) {
    const Attribute &a = config->attributes[i];
    if (a.id == 4)
      launch.cluster = a.value[0];
    else if (a.id == 6)
      launch.programmatic = a.value[0];
    else if (a.id == 14)
      launch.carveout = a.value[0];
  }
  const FakeKernel &kernel = function->second;
  for (size_t i = 0; i < kernel.pointers; ++i)
    launch.pointers.push_back(*static_cast<uint64_t *>(parameters[i]));
  for (size_t i = 0; i < kernel.maps; ++i)
    launch.maps.push_back(
        *static_cast<uint64_t *>(parameters[kernel.pointers + i]));
  launch.captured = config->stream && config->stream->capturing;
  if (!launch.captured)
    return runLaunch(launch);
  config->stream->recorded.push_back(launch);
  return 0;
}
FAKE(cuTensorMapEncodeTiled)(uint64_t *map, int32_t type, uint32_t rank,
                             void *address, const uint64_t *dims,
                             const uint64_t *strides, const uint32_t *box,
                             const uint32_t *steps, int32_t interleave,
                             int32_t swizzle, int32_t promotion, int32_t fill) {
  LOCKED
  if (state.encodeCode)
    return state.encodeCode;
  map[0] = state.maps.size();
  state.maps.push_back({type,
                        interleave,
                        swizzle,
                        promotion,
                        fill,
                        reinterpret_cast<uint64_t>(address),
                        {dims, dims + rank},
                        {strides, strides + rank - 1},
                        {box, box + rank},
                        {steps, steps + rank}});
  return 0;
}
