//===- FakeCuda.h - A driver library without a card -------------*- C++ -*-===//
//
// A shared object with the driver's entry points that the runtime uses, in host
// memory: streams run at once, kernels are functions of the test, and every
// call is recorded. The test opens the same library as the runtime and finds
// its state through fakeCuda().
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_TEST_RUNTIME_FAKECUDA_H
#define FUSION_TEST_RUNTIME_FAKECUDA_H

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fusion {

/// What a tensor map was made of; the fake stores its number in the map.
struct FakeMap {
  int32_t type, interleave, swizzle, promotion, fill;
  uint64_t address;
  std::vector<uint64_t> dims, strides;
  std::vector<uint32_t> box, steps;
};

struct FakeLaunch {
  std::string name;
  uint32_t grid = 0, threads = 0, cluster = 1, sharedBytes = 0;
  uint32_t carveout = 0; ///< percent; 0: not asked for
  bool programmatic = false, captured = false;
  std::vector<uint64_t> pointers;
  std::vector<uint64_t> maps; ///< indices into FakeCuda::maps

  template <typename T>
  T *as(size_t i) const {
    return reinterpret_cast<T *>(pointers[i]);
  }
};

/// A function of a module: how many parameters it takes, and what it does.
struct FakeKernel {
  size_t pointers = 0, maps = 0;
  std::function<void(const FakeLaunch &)> body;
  std::map<int32_t, int32_t> attributes; ///< as they were set
};

struct FakeCuda {
  // What the test decides.
  int32_t initCode = 0, version = 13000, devices = 1, major = 9, minor = 0;
  int32_t moduleCode = 0, encodeCode = 0, launchCode = 0, syncCode = 0;
  uint64_t memory = UINT64_MAX; ///< bytes of the card
  std::map<std::string, FakeKernel> kernels;

  // What happened.
  std::map<uint64_t, uint64_t> allocations; ///< on the card, by address
  std::set<void *> pinned, objects; ///< streams, events, graphs, modules, ...
  int32_t contexts = 0, pushed = 0; ///< references; depth of the stack
  std::vector<FakeLaunch> launches; ///< those that ran
  std::vector<FakeMap> maps;
  uint64_t captures = 0, replays = 0, uploads = 0, downloads = 0, copies = 0;

  uint64_t allocated() const {
    uint64_t bytes = 0;
    for (auto &[address, size] : allocations)
      bytes += size;
    return bytes;
  }
  bool isClean() const {
    return allocations.empty() && pinned.empty() && objects.empty() &&
           contexts == 0 && pushed == 0;
  }
};

} // namespace fusion

extern "C" fusion::FakeCuda *fakeCuda();

#endif // FUSION_TEST_RUNTIME_FAKECUDA_H
