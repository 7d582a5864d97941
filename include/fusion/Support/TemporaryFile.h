//===- TemporaryFile.h - Files written whole or not at all ------*- C++ -*-===//

#ifndef FUSION_SUPPORT_TEMPORARYFILE_H
#define FUSION_SUPPORT_TEMPORARYFILE_H

#include "fusion/Support/Status.h"

#include <cstddef>
#include <cstdint>

namespace fusion {

/// A file under a temporary name in the folder of its final one. Removed
/// unless publish() succeeds.
class TemporaryFile {
public:
  explicit TemporaryFile(const std::string &path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;

  bool isOpen() const { return fd >= 0; }
  /// What `errno` says of `cannot WHAT 'path'`.
  Status error(const char *what) const;
  Status writeAt(uint64_t offset, const void *data, size_t bytes);
  /// Gives the file its final name, in the place of what had it.
  Status publish();

private:
  std::string path, name;
  int fd = -1;
  bool published = false;
};

} // namespace fusion

#endif // FUSION_SUPPORT_TEMPORARYFILE_H
