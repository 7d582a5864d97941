//===- HostABI.h - Calls between the runtime and host kernels ---*- C++ -*-===//
//
// What a kernel compiled for the host CPU may rely on. The kernels of an
// artifact form one flat, position-independent image without undefined
// symbols; everything they need from outside comes through HostContext. The
// code generator builds loads at these offsets, so the layout is fixed; a
// change of layout is a change of kHostAbiVersion.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_ARTIFACT_HOSTABI_H
#define FUSION_ARTIFACT_HOSTABI_H

#include <cstddef>
#include <cstdint>

namespace fusion {

constexpr uint32_t kHostAbiVersion = 1;

/// Row-major single-precision matrix product on the calling thread alone:
/// C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C. A stride is the number
/// of elements between rows of the matrix as stored.
using HostSgemm = void (*)(int32_t transA, int32_t transB, int64_t m, int64_t n,
                           int64_t k, float alpha, const float *a, int64_t lda,
                           const float *b, int64_t ldb, float beta, float *c,
                           int64_t ldc);

/// Codes that a kernel stores to HostContext::status (first one wins).
enum HostStatus : int32_t {
  kHostOk = 0,
  kHostIndexOutOfRange = 1, ///< gather/scatter index; the read was clamped
  kHostDivisionByZero = 2,  ///< integer division or remainder
  kHostStalled = 3,         ///< card: blocks of a launch waited in vain
};

/// One per worker thread and launch.
struct HostContext {
  HostSgemm sgemm;      // offset 0
  void *scratch;        // offset 8: this worker's scratch, 64-byte aligned
  int64_t scratchBytes; // offset 16
  int32_t *status;      // offset 24: shared by the workers of a launch
  int32_t worker;       // offset 32: 0 .. workers - 1
  int32_t workers;      // offset 36
};

static_assert(offsetof(HostContext, scratch) == 8 &&
                  offsetof(HostContext, status) == 24 &&
                  offsetof(HostContext, workers) == 36,
              "the code generator relies on this layout");

/// A kernel executes the work items [begin, end) of its grid. `args` are the
/// launch's buffers in order (operands, then results); `sizes` are the values
/// of the launch's size expressions.
using HostKernel = void (*)(const HostContext *context, void *const *args,
                            const int64_t *sizes, int64_t begin, int64_t end);

} // namespace fusion

#endif // FUSION_ARTIFACT_HOSTABI_H
