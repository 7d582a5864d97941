//===- CudaDevice.cpp - A card and what is allocated on it ----------------===//

#include "CudaDevice.h"

#include <algorithm>
#include <utility>

using namespace fusion;
using namespace fusion::cuda;

Result<std::shared_ptr<const CudaDevice>>
CudaDevice::open(std::shared_ptr<const Driver> driver, int32_t ordinal) {
  int32_t count = 0;
  if (driver->deviceGetCount(&count) != Code::Success || count == 0)
    return Status(StatusCode::Unavailable, "the NVIDIA driver finds no device");
  if (ordinal < 0 || ordinal >= count)
    return Status(StatusCode::Unavailable,
                  "there is no card number " + std::to_string(ordinal) +
                      "; the driver finds " + std::to_string(count));
  std::shared_ptr<CudaDevice> device(new CudaDevice);
  int32_t handle = 0, major = 0, minor = 0;
  char name[256] = "";
  Code code = driver->deviceGet(&handle, ordinal);
  if (code == Code::Success)
    code = driver->deviceGetName(name, sizeof name - 1, handle);
  if (code == Code::Success)
    code = driver->deviceGetAttribute(
        &major, DeviceAttribute::ComputeCapabilityMajor, handle);
  if (code == Code::Success)
    code = driver->deviceGetAttribute(
        &minor, DeviceAttribute::ComputeCapabilityMinor, handle);
  Context context = nullptr;
  if (code == Code::Success)
    code = driver->primaryContextRetain(&context, handle);
  if (code != Code::Success)
    return Status(StatusCode::Unavailable, "cannot use card " +
                                               std::to_string(ordinal) + ": " +
                                               driver->text(code));
  device->theContext = context;
  device->handle = handle;
  device->theOrdinal = ordinal;
  device->theCapability = major * 10 + minor;
  device->theName = name;
  device->theDriver = std::move(driver);
  return std::shared_ptr<const CudaDevice>(std::move(device));
}

CudaDevice::~CudaDevice() {
  if (theContext)
    (void)theDriver->primaryContextRelease(handle);
}

Status CudaDevice::noMemory(const std::string &what, uint64_t bytes) const {
  size_t free = 0, total = 0;
  std::string left;
  if (theDriver->memGetInfo(&free, &total) == Code::Success)
    left = ", " + std::to_string(free) + " of " + std::to_string(total) +
           " are free";
  return Status(StatusCode::Failed, "no memory on the card for " + what + " (" +
                                        std::to_string(bytes) + " bytes" +
                                        left + ")");
}

DeviceBuffer &DeviceBuffer::operator=(DeviceBuffer &&other) noexcept {
  std::swap(device, other.device);
  std::swap(theAddress, other.theAddress);
  std::swap(capacity, other.capacity);
  return *this;
}

Status DeviceBuffer::reserve(uint64_t bytes, const std::string &what) {
  if (theAddress && bytes <= capacity)
    return {};
  release();
  uint64_t wanted = std::max<uint64_t>(bytes, 256);
  Code code = device->driver().memAlloc(&theAddress, wanted);
  if (code == Code::Success) {
    capacity = wanted;
    return {};
  }
  theAddress = 0;
  if (code == Code::OutOfMemory)
    return device->noMemory(what, wanted);
  return device->driver().check(code, "memory for " + what);
}

void DeviceBuffer::release() {
  if (theAddress)
    (void)device->driver().memFree(theAddress);
  theAddress = 0;
  capacity = 0;
}

PinnedBuffer &PinnedBuffer::operator=(PinnedBuffer &&other) noexcept {
  std::swap(device, other.device);
  std::swap(address, other.address);
  std::swap(capacity, other.capacity);
  return *this;
}

Status PinnedBuffer::reserve(uint64_t bytes, const std::string &what) {
  if (address && bytes <= capacity)
    return {};
  release();
  uint64_t wanted = std::max<uint64_t>(bytes, 4096);
  void *p = nullptr;
  Code code = device->driver().memHostAlloc(&p, wanted, 0);
  if (code != Code::Success)
    return device->driver().check(code, "pinned memory for " + what + " (" +
                                            std::to_string(wanted) + " bytes)");
  address = static_cast<uint8_t *>(p);
  capacity = wanted;
  return {};
}

void PinnedBuffer::release() {
  if (address)
    (void)device->driver().memFreeHost(address);
  address = nullptr;
  capacity = 0;
}
