//===- Buffer.cpp - Large zeroed memory -----------------------------------===//

#include "fusion/Runtime/Buffer.h"

#include <sys/mman.h>

using namespace fusion;

constexpr uint64_t kPage = 4096, kHugePage = 2 << 20;

bool Buffer::reserve(uint64_t bytes) {
  if (address && bytes <= capacity)
    return true;
  if (bytes > uint64_t(1) << 46)
    return false;
  uint64_t wanted = bytes < kPage ? kPage : (bytes + kPage - 1) / kPage * kPage;
  void *p = mmap(nullptr, wanted, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    return false;
  // Wide matrices touch a page per row; large pages keep the TLB out of it.
  if (wanted >= 2 * kHugePage)
    madvise(p, wanted, MADV_HUGEPAGE);
  release();
  address = static_cast<uint8_t *>(p);
  capacity = wanted;
  return true;
}

void Buffer::clear() {
  if (address)
    madvise(address, capacity, MADV_DONTNEED); // zero-filled on next touch
}

void Buffer::release() {
  if (address)
    munmap(address, capacity);
  address = nullptr;
  capacity = 0;
}
