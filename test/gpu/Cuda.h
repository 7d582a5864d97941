//===- Cuda.h - The driver API, opened at run time --------------*- C++ -*-===//
//
// The few calls that the tests make, so that they build without a toolkit and
// say "no card" where there is none.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_TEST_GPU_CUDA_H
#define FUSION_TEST_GPU_CUDA_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <initializer_list>

namespace cuda {

using Ptr = uint64_t;
using Handle = void *;

inline void *library() {
  static void *handle = [] {
    for (const char *name :
         {"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1"})
      if (void *h = dlopen(name, RTLD_NOW))
        return h;
    return static_cast<void *>(nullptr);
  }();
  return handle;
}

template <typename... Args>
void call(const char *name, Args... args) {
  using Fn = int (*)(Args...);
  auto fn = reinterpret_cast<Fn>(dlsym(library(), name));
  if (!fn) {
    std::printf("driver has no %s\n", name);
    std::exit(1);
  }
  if (int rc = fn(args...)) {
    const char *text = "?";
    using Text = int (*)(int, const char **);
    if (auto get = reinterpret_cast<Text>(dlsym(library(), "cuGetErrorString")))
      get(rc, &text);
    std::printf("%s failed: %d, %s\n", name, rc, text);
    std::fflush(stdout);
    std::exit(1);
  }
}

/// False where there is no driver or no card.
inline bool open(char *name, int size) {
  if (!library())
    return false;
  auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library(), "cuInit"));
  if (!init || init(0))
    return false;
  int device = 0;
  Handle context = nullptr;
  call("cuDeviceGet", &device, 0);
  call("cuDeviceGetName", name, size, device);
  call("cuDevicePrimaryCtxRetain", &context, device);
  call("cuCtxSetCurrent", context);
  return true;
}

inline Ptr allocate(size_t bytes) {
  Ptr p = 0;
  call("cuMemAlloc_v2", &p, bytes);
  return p;
}
inline void release(Ptr p) { call("cuMemFree_v2", p); }
inline void upload(Ptr to, const void *from, size_t bytes) {
  call("cuMemcpyHtoD_v2", to, from, bytes);
}
inline void download(void *to, Ptr from, size_t bytes) {
  call("cuMemcpyDtoH_v2", to, from, bytes);
}
inline void fill(Ptr p, unsigned char byte, size_t bytes) {
  call("cuMemsetD8_v2", p, byte, bytes);
}
inline Handle loadKernel(const void *image, const char *symbol) {
  Handle module = nullptr, function = nullptr;
  call("cuModuleLoadData", &module, image);
  call("cuModuleGetFunction", &function, module, symbol);
  return function;
}
inline void launch(Handle function, unsigned grid, unsigned threads,
                   Handle stream, void **params) {
  call("cuLaunchKernel", function, grid, 1u, 1u, threads, 1u, 1u, 0u, stream,
       params, static_cast<void **>(nullptr));
}
inline void synchronize(Handle stream) { call("cuStreamSynchronize", stream); }

} // namespace cuda

#endif // FUSION_TEST_GPU_CUDA_H
