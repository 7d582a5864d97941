//===- TemporaryFile.cpp - Files written whole or not at all --------------===//

#include "fusion/Support/TemporaryFile.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion;

TemporaryFile::TemporaryFile(const std::string &path) : path(path) {
  name = path + ".XXXXXX";
  fd = mkstemp(name.data());
  if (fd < 0)
    return;
  mode_t mask = umask(0);
  umask(mask);
  (void)fchmod(fd, 0666 & ~mask);
}

TemporaryFile::~TemporaryFile() {
  if (fd < 0)
    return;
  close(fd);
  if (!published)
    unlink(name.c_str());
}

Status TemporaryFile::error(const char *what) const {
  return Status(StatusCode::InvalidInput, "cannot " + std::string(what) + " '" +
                                              path + "': " + strerror(errno));
}

Status TemporaryFile::writeAt(uint64_t offset, const void *data, size_t bytes) {
  const char *p = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t n = pwrite(fd, p, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return error("write");
    p += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return {};
}

Status TemporaryFile::publish() {
  if (rename(name.c_str(), path.c_str()) != 0)
    return error("create");
  published = true;
  return {};
}
