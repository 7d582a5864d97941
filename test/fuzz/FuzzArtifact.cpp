//===- FuzzArtifact.cpp - Any bytes as a model section --------------------===//
//
// Past the checksums: the bytes go straight to the decoder, and what it
// accepts must print, and encode to what decodes again.
//
//===----------------------------------------------------------------------===//

#include "fusion/Artifact/Dump.h"
#include "fusion/Artifact/Encoding.h"

#include "SampleModel.h"

#include <cstdlib>
#include <cstring>

using namespace fusion::artifact;

/// Starts from a real model, so that the fuzzer needs no corpus.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed);
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed) {
  if (seed % 1024 == 0) {
    std::string bytes = encodeModel(sampleModel());
    if (bytes.size() <= limit) {
      memcpy(data, bytes.data(), bytes.size());
      return bytes.size();
    }
  }
  return LLVMFuzzerMutate(data, size, limit);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto model =
      decodeModel({reinterpret_cast<const char *>(data), size}, 8192, 4096);
  if (!model)
    return 0;
  dumpModel(*model);
  if (!decodeModel(encodeModel(*model), 8192, 4096))
    abort();
  return 0;
}
