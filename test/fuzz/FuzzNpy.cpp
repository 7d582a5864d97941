//===- FuzzNpy.cpp - Any bytes as the header of a .npy file ---------------===//

#include "NpyHeader.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto header =
      fusion::parseNpyHeader({reinterpret_cast<const char *>(data), size});
  if (header && header->dataOffset > size)
    abort();
  return 0;
}
