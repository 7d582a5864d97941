//===- CudaDevice.h - A card and what is allocated on it --------*- C++ -*-===//
//
// Owners of the driver's objects. Every call needs the card's context to be
// current on the calling thread: ContextScope does that for a while and puts
// back what the caller had.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RUNTIME_CUDA_CUDADEVICE_H
#define FUSION_LIB_RUNTIME_CUDA_CUDADEVICE_H

#include "CudaDriver.h"

namespace fusion::cuda {

/// The primary context of one card; shared with other users in the process.
class CudaDevice {
public:
  static Result<std::shared_ptr<const CudaDevice>>
  open(std::shared_ptr<const Driver> driver, int32_t ordinal);
  ~CudaDevice();
  CudaDevice(const CudaDevice &) = delete;
  CudaDevice &operator=(const CudaDevice &) = delete;

  const Driver &driver() const { return *theDriver; }
  Context context() const { return theContext; }
  int32_t ordinal() const { return theOrdinal; }
  const std::string &name() const { return theName; }
  /// 90 for compute capability 9.0.
  int32_t capability() const { return theCapability; }

  /// Why there is no memory for `bytes` of `what`.
  Status noMemory(const std::string &what, uint64_t bytes) const;

private:
  CudaDevice() = default;
  std::shared_ptr<const Driver> theDriver;
  Context theContext = nullptr;
  int32_t handle = 0, theOrdinal = 0, theCapability = 0;
  std::string theName;
};

class ContextScope {
public:
  explicit ContextScope(const CudaDevice &device) : device(device) {
    pushed = device.driver().contextPush(device.context()) == Code::Success;
  }
  ~ContextScope() {
    Context previous;
    if (pushed)
      (void)device.driver().contextPop(&previous);
  }
  ContextScope(const ContextScope &) = delete;
  ContextScope &operator=(const ContextScope &) = delete;

private:
  const CudaDevice &device;
  bool pushed;
};

/// Memory of the card. Its owner's context must be current when it goes.
class DeviceBuffer {
public:
  explicit DeviceBuffer(const CudaDevice &device) : device(&device) {}
  ~DeviceBuffer() { release(); }
  DeviceBuffer(DeviceBuffer &&other) noexcept { *this = std::move(other); }
  DeviceBuffer &operator=(DeviceBuffer &&other) noexcept;

  /// Makes room for `bytes`; what was held is lost when it has to grow, and
  /// nothing on the card may still be using it.
  Status reserve(uint64_t bytes, const std::string &what);
  void release();

  Address address() const { return theAddress; }
  uint64_t size() const { return capacity; }

private:
  const CudaDevice *device = nullptr;
  Address theAddress = 0;
  uint64_t capacity = 0;
};

/// Host memory that copies reach without staging.
class PinnedBuffer {
public:
  explicit PinnedBuffer(const CudaDevice &device) : device(&device) {}
  ~PinnedBuffer() { release(); }
  PinnedBuffer(PinnedBuffer &&other) noexcept { *this = std::move(other); }
  PinnedBuffer &operator=(PinnedBuffer &&other) noexcept;

  Status reserve(uint64_t bytes, const std::string &what);
  void release();

  uint8_t *data() const { return address; }
  uint64_t size() const { return capacity; }

private:
  const CudaDevice *device = nullptr;
  uint8_t *address = nullptr;
  uint64_t capacity = 0;
};

} // namespace fusion::cuda

#endif // FUSION_LIB_RUNTIME_CUDA_CUDADEVICE_H
