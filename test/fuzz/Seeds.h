//===- Seeds.h - Files that mutations start from ----------------*- C++ -*-===//
//
// The folders of the command line are read by the mutator itself: a build
// without coverage keeps none of their files as interesting.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_TEST_FUZZ_SEEDS_H
#define FUSION_TEST_FUZZ_SEEDS_H

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit);

namespace fusion::fuzz {

inline std::vector<std::string> &seeds() {
  static std::vector<std::string> all;
  return all;
}

/// Reads every file below the folders among the arguments.
inline void readSeeds(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i]))
      continue;
    std::vector<std::filesystem::path> paths;
    for (const auto &entry :
         std::filesystem::recursive_directory_iterator(argv[i]))
      if (entry.is_regular_file())
        paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    for (const auto &path : paths) {
      std::ifstream file(path, std::ios::binary);
      seeds().emplace_back(std::istreambuf_iterator<char>(file),
                           std::istreambuf_iterator<char>());
    }
  }
}

/// Now and then a seed takes the place of the input; a few changes follow.
inline size_t mutate(uint8_t *data, size_t size, size_t limit, unsigned seed) {
  if (!seeds().empty() && seed % 4 == 0) {
    const std::string &next = seeds()[seed / 4 % seeds().size()];
    size = std::min(next.size(), limit);
    std::copy_n(next.begin(), size, data);
  }
  for (unsigned i = 0; i <= seed / 16 % 4; ++i)
    size = LLVMFuzzerMutate(data, size, limit);
  return size;
}

} // namespace fusion::fuzz

#endif // FUSION_TEST_FUZZ_SEEDS_H
