//===- CudaDriver.h - The driver's entry points -----------------*- C++ -*-===//
//
// libcuda is opened at run time, never linked: a typed table of the functions
// that the executor calls, with the driver's own texts in errors. The types
// are declared here, so that building needs no toolkit.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RUNTIME_CUDA_CUDADRIVER_H
#define FUSION_LIB_RUNTIME_CUDA_CUDADRIVER_H

#include "fusion/Support/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace fusion::cuda {

using Address = uint64_t; ///< CUdeviceptr
using Context = struct ContextTag *;
using Module = struct ModuleTag *;
using Function = struct FunctionTag *;
using Stream = struct StreamTag *;
using Event = struct EventTag *;
using Graph = struct GraphTag *;
using GraphExec = struct GraphExecTag *;

/// CUtensorMap.
struct alignas(128) EncodedMap {
  uint64_t opaque[16];
};

/// CUlaunchAttribute.
struct LaunchAttribute {
  enum Id : uint32_t {
    ClusterDimension = 4,
    ProgrammaticSerialization = 6,
    SharedCarveout = 14,
  };
  Id id;
  uint32_t pad = 0;
  union {
    char bytes[64];
    struct {
      uint32_t x, y, z;
    } cluster;
    int32_t programmatic;
    uint32_t carveout; ///< percent
  };
};
static_assert(sizeof(LaunchAttribute) == 72, "CUlaunchAttribute has 72 bytes");

/// CUlaunchConfig.
struct LaunchConfig {
  uint32_t gridX, gridY, gridZ;
  uint32_t blockX, blockY, blockZ;
  uint32_t sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  uint32_t attributeCount;
};
static_assert(offsetof(LaunchConfig, stream) == 32 &&
                  sizeof(LaunchConfig) == 56,
              "CUlaunchConfig has 56 bytes");

/// CUresult; the values that the executor tells apart.
enum class Code : int32_t {
  Success = 0,
  OutOfMemory = 2,
  NoDevice = 100,
  NoBinaryForGpu = 209,
  UnsupportedPtxVersion = 222,
};

/// CUdevice_attribute.
enum class DeviceAttribute : int32_t {
  MultiprocessorCount = 16,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
};

constexpr uint32_t kStreamNonBlocking = 1;
constexpr uint32_t kEventDisableTiming = 2;
constexpr int32_t kMaxDynamicSharedBytes = 8;   ///< CUfunction_attribute
constexpr int32_t kSharedCarveout = 9;          ///< CUfunction_attribute
constexpr int32_t kNonPortableClusterSize = 14; ///< CUfunction_attribute
constexpr int32_t kCaptureThreadLocal = 1;      ///< CUstreamCaptureMode

/// The functions that the executor calls: name, symbol in the library, and
/// parameters.
#define FUSION_CUDA_FUNCTIONS(X)                                               \
  X(init, "cuInit", (uint32_t))                                                \
  X(driverGetVersion, "cuDriverGetVersion", (int32_t *))                       \
  X(getErrorString, "cuGetErrorString", (Code, const char **))                 \
  X(deviceGetCount, "cuDeviceGetCount", (int32_t *))                           \
  X(deviceGet, "cuDeviceGet", (int32_t *, int32_t))                            \
  X(deviceGetName, "cuDeviceGetName", (char *, int32_t, int32_t))              \
  X(deviceGetAttribute, "cuDeviceGetAttribute",                                \
    (int32_t *, DeviceAttribute, int32_t))                                     \
  X(primaryContextRetain, "cuDevicePrimaryCtxRetain", (Context *, int32_t))    \
  X(primaryContextRelease, "cuDevicePrimaryCtxRelease_v2", (int32_t))          \
  X(contextPush, "cuCtxPushCurrent_v2", (Context))                             \
  X(contextPop, "cuCtxPopCurrent_v2", (Context *))                             \
  X(moduleLoadData, "cuModuleLoadData", (Module *, const void *))              \
  X(moduleUnload, "cuModuleUnload", (Module))                                  \
  X(moduleGetFunction, "cuModuleGetFunction",                                  \
    (Function *, Module, const char *))                                        \
  X(functionSetAttribute, "cuFuncSetAttribute", (Function, int32_t, int32_t))  \
  X(memGetInfo, "cuMemGetInfo_v2", (size_t *, size_t *))                       \
  X(memAlloc, "cuMemAlloc_v2", (Address *, size_t))                            \
  X(memFree, "cuMemFree_v2", (Address))                                        \
  X(memHostAlloc, "cuMemHostAlloc", (void **, size_t, uint32_t))               \
  X(memFreeHost, "cuMemFreeHost", (void *))                                    \
  X(copyToDevice, "cuMemcpyHtoDAsync_v2",                                      \
    (Address, const void *, size_t, Stream))                                   \
  X(copyToHost, "cuMemcpyDtoHAsync_v2", (void *, Address, size_t, Stream))     \
  X(copyOnDevice, "cuMemcpyDtoDAsync_v2", (Address, Address, size_t, Stream))  \
  X(setBytes, "cuMemsetD8Async", (Address, uint8_t, size_t, Stream))           \
  X(streamCreate, "cuStreamCreate", (Stream *, uint32_t))                      \
  X(streamDestroy, "cuStreamDestroy_v2", (Stream))                             \
  X(streamSynchronize, "cuStreamSynchronize", (Stream))                        \
  X(streamBeginCapture, "cuStreamBeginCapture_v2", (Stream, int32_t))          \
  X(streamEndCapture, "cuStreamEndCapture", (Stream, Graph *))                 \
  X(graphInstantiate, "cuGraphInstantiateWithFlags",                           \
    (GraphExec *, Graph, uint64_t))                                            \
  X(graphDestroy, "cuGraphDestroy", (Graph))                                   \
  X(graphExecDestroy, "cuGraphExecDestroy", (GraphExec))                       \
  X(graphLaunch, "cuGraphLaunch", (GraphExec, Stream))                         \
  X(eventCreate, "cuEventCreate", (Event *, uint32_t))                         \
  X(eventDestroy, "cuEventDestroy_v2", (Event))                                \
  X(eventRecord, "cuEventRecord", (Event, Stream))                             \
  X(eventSynchronize, "cuEventSynchronize", (Event))                           \
  X(eventElapsedTime, "cuEventElapsedTime", (float *, Event, Event))           \
  X(launchKernel, "cuLaunchKernelEx",                                          \
    (const LaunchConfig *, Function, void **, void **))                        \
  X(encodeTiled, "cuTensorMapEncodeTiled",                                     \
    (EncodedMap *, int32_t, uint32_t, void *, const uint64_t *,                \
     const uint64_t *, const uint32_t *, const uint32_t *, int32_t, int32_t,   \
     int32_t, int32_t))

class Driver {
public:
  /// Opens the library, finds every function and initialises the driver.
  static Result<std::shared_ptr<const Driver>> open(const std::string &library);
  ~Driver();
  Driver(const Driver &) = delete;
  Driver &operator=(const Driver &) = delete;

#define FUSION_CUDA_DECLARE(name, symbol, parameters)                          \
  Code(*name) parameters = nullptr;
  FUSION_CUDA_FUNCTIONS(FUSION_CUDA_DECLARE)
#undef FUSION_CUDA_DECLARE

  /// A failure of `what` as a value, with the driver's text.
  Status check(Code code, const std::string &what) const;
  std::string text(Code code) const;
  /// The CUDA version that the driver is for, e.g. "13.0".
  std::string version() const;

private:
  Driver() = default;
  void *library = nullptr;
  int32_t theVersion = 0;
};

} // namespace fusion::cuda

#endif // FUSION_LIB_RUNTIME_CUDA_CUDADRIVER_H
