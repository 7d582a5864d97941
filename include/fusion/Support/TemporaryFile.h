//===- TemporaryFile.h - Files written whole or not at all ------*- C++ -*-===//

#ifndef FUSION_SUPPORT_TEMPORARYFILE_H
#define FUSION_SUPPORT_TEMPORARYFILE_H

#include "fusion/Support/Status.h"

#include <cstddef>
#include <cstdint>

namespace fusion {

/// A file without a name until publish(), so that nothing is left of it
/// whenever the process ends. Where the file system has no such files it has a
/// temporary name beside the final one, and is removed when the process ends by
/// a signal that can be handled.
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
  bool openUnnamed();
  bool openNamed();
  bool link(const std::string &target) const;
  bool isAt(const std::string &path) const;
  int renameOver(const char *place, const char *other) const;
  bool replace();

  std::string path, name; ///< no name where the file has none
  int fd = -1;
};

} // namespace fusion

#endif // FUSION_SUPPORT_TEMPORARYFILE_H
