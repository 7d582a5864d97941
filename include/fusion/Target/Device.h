//===- Device.h - What a device can do --------------------------*- C++ -*-===//
//
// Descriptions of the devices that models are compiled for. Every figure has
// its source: measured ceilings where there are any, data sheets else. Plain
// C++17; units are bytes, operations and seconds.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_TARGET_DEVICE_H
#define FUSION_TARGET_DEVICE_H

#include <string>
#include <string_view>
#include <vector>

namespace fusion::target {

struct Figure {
  double value = 0;
  bool measured = false;
  const char *source = "";
};

/// What arithmetic a kernel does most of its work in.
enum class Arithmetic { Vector32, Tensor16, Tensor8 };

struct DeviceDescription {
  std::string name;   ///< "h200"
  std::string target; ///< what code is made for it: "sm_90a" or "host"
  Figure copyBandwidth;
  Figure readBandwidth;
  Figure cacheBandwidth; ///< of the last-level cache
  Figure cacheBytes;
  Figure vectorFlops;   ///< fp32 outside matrix units
  Figure tensor16Flops; ///< bf16/fp16 products, fp32 sums
  Figure tensor8Flops;
  Figure launchSeconds; ///< a dependent launch inside a captured graph
  unsigned multiprocessors = 1;
  unsigned sharedBytesPerBlock = 0;

  double flops(Arithmetic arithmetic) const;
  /// Operations a byte at which a kernel turns from memory- to compute-bound.
  double ridge(Arithmetic arithmetic) const;
  /// Seconds to move a tensor: a streamed one (a weight) comes from memory,
  /// others stay in the last-level cache where they fit.
  double transferSeconds(double bytes, bool streamed) const;
  bool isHost() const { return target == "host"; }
};

/// nullptr when there is no such device. Names: h100, h200, host; a target
/// (sm_90a) names its usual device.
const DeviceDescription *findDevice(std::string_view name);
std::vector<std::string> deviceNames();

} // namespace fusion::target

#endif // FUSION_TARGET_DEVICE_H
