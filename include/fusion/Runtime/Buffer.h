//===- Buffer.h - Large zeroed memory ---------------------------*- C++ -*-===//

#ifndef FUSION_RUNTIME_BUFFER_H
#define FUSION_RUNTIME_BUFFER_H

#include <cstdint>
#include <utility>

namespace fusion {

/// Page-aligned memory that the kernel zero-fills on first touch: a large
/// reservation costs nothing until it is used.
class Buffer {
public:
  Buffer() = default;
  ~Buffer() { release(); }
  Buffer(Buffer &&other) noexcept
      : address(std::exchange(other.address, nullptr)),
        capacity(std::exchange(other.capacity, 0)) {}
  Buffer &operator=(Buffer &&other) noexcept {
    std::swap(address, other.address);
    std::swap(capacity, other.capacity);
    return *this;
  }

  /// Makes room for `bytes`; what was held is lost when it has to grow. False
  /// when there is no memory.
  [[nodiscard]] bool reserve(uint64_t bytes);
  /// Zeroes everything and gives the pages back.
  void clear();

  /// Never null after a reserve(), not even of zero bytes.
  uint8_t *data() const { return address; }
  uint64_t size() const { return capacity; }

private:
  void release();
  uint8_t *address = nullptr;
  uint64_t capacity = 0;
};

} // namespace fusion

#endif // FUSION_RUNTIME_BUFFER_H
