//===- Device.cpp - What a device can do ----------------------------------===//

#include "fusion/Target/Device.h"

using namespace fusion::target;

static constexpr Figure measured(double value, const char *source) {
  return {value, true, source};
}
static constexpr Figure stated(double value, const char *source) {
  return {value, false, source};
}

static const char *const sheet = "NVIDIA data sheet";

/// What the two cards have in common: the processor.
static DeviceDescription makeHopper(const char *name) {
  DeviceDescription d;
  d.name = name;
  d.target = "sm_90a";
  d.vectorFlops = stated(67e12, sheet);
  d.tensor8Flops = stated(1979e12 * 0.8, "data sheet, 80 % as for bf16");
  d.multiprocessors = 132;
  d.sharedBytesPerBlock = 227 * 1024;
  return d;
}

static DeviceDescription makeH100() {
  DeviceDescription d = makeHopper("h100");
  d.copyBandwidth = stated(3.35e12 * 0.90, "data sheet, 90 % as on the H200");
  d.readBandwidth = stated(3.35e12 * 0.95, "data sheet, 95 % as on the H200");
  d.cacheBandwidth = stated(5.5e12, "published L2 micro-benchmarks");
  d.cacheBytes = stated(50e6, sheet);
  d.tensor16Flops = stated(989e12 * 0.8, "data sheet, 80 % as on the H200");
  d.launchSeconds = stated(2.2e-6, "as on the H200");
  return d;
}

static DeviceDescription makeH200() {
  DeviceDescription d = makeHopper("h200");
  d.copyBandwidth = measured(4.276e12, "2 GiB device copy on a stream");
  d.readBandwidth = measured(4.551e12, "4 GiB read-only kernel");
  d.cacheBandwidth = stated(6.0e12, "published L2 micro-benchmarks");
  d.cacheBytes = measured(60e6, "device properties");
  d.tensor16Flops = measured(785e12, "bf16 8192^3 on random data, burst");
  d.launchSeconds =
      measured(2.2e-6, "a dependency between kernels of a captured graph");
  return d;
}

static DeviceDescription makeHost() {
  DeviceDescription d;
  d.name = "host";
  d.target = "host";
  d.copyBandwidth = measured(17.5e9, "256 MiB copy, one core of a 2-core VM");
  d.readBandwidth = measured(17.5e9, "256 MiB copy, one core of a 2-core VM");
  d.cacheBandwidth = stated(60e9, "four times the memory's");
  d.cacheBytes = stated(1e6, "second-level cache of a server core");
  d.vectorFlops = measured(60e9, "sgemm 2048^3, one core of a 2-core VM");
  d.tensor16Flops = measured(60e9, "16-bit products are made in fp32");
  d.tensor8Flops = measured(60e9, "8-bit products are made in fp32");
  d.launchSeconds = stated(2e-6, "waking a thread of the pool");
  d.multiprocessors = 1;
  return d;
}

static const std::vector<DeviceDescription> &devices() {
  static const std::vector<DeviceDescription> all = {makeH100(), makeH200(),
                                                     makeHost()};
  return all;
}

const DeviceDescription *fusion::target::findDevice(std::string_view name) {
  if (name == "sm_90a")
    name = "h200";
  for (const DeviceDescription &d : devices())
    if (d.name == name)
      return &d;
  return nullptr;
}

std::vector<std::string> fusion::target::deviceNames() {
  std::vector<std::string> names;
  for (const DeviceDescription &d : devices())
    names.push_back(d.name);
  return names;
}

double DeviceDescription::flops(Arithmetic arithmetic) const {
  switch (arithmetic) {
  case Arithmetic::Vector32:
    return vectorFlops.value;
  case Arithmetic::Tensor16:
    return tensor16Flops.value;
  case Arithmetic::Tensor8:
    return tensor8Flops.value;
  }
  return vectorFlops.value;
}

double DeviceDescription::ridge(Arithmetic arithmetic) const {
  return flops(arithmetic) / copyBandwidth.value;
}

double DeviceDescription::transferSeconds(double bytes, bool streamed) const {
  if (streamed)
    return bytes / readBandwidth.value;
  bool fits = bytes <= cacheBytes.value / 4;
  return bytes / (fits ? cacheBandwidth.value : copyBandwidth.value);
}
