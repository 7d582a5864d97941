//===- FuzzNpy.cpp - Any bytes as the header of a .npy file ---------------===//

#include "NpyHeader.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit);

/// Starts from a real header now and then, so that no corpus is needed.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed) {
  if (seed % 8 == 0) {
    std::string header("\x93NUMPY\x01\x00\x76\x00", 10);
    header += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    header.resize(127, ' ');
    header += '\n';
    size = std::min(header.size(), limit);
    memcpy(data, header.data(), size);
  }
  return LLVMFuzzerMutate(data, size, limit);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto header =
      fusion::parseNpyHeader({reinterpret_cast<const char *>(data), size});
  if (header && header->dataOffset > size)
    abort();
  return 0;
}
