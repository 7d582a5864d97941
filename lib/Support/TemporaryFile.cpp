//===- TemporaryFile.cpp - Files written whole or not at all --------------===//

#include "fusion/Support/TemporaryFile.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fusion;

namespace {

/// Names to remove when a signal ends the process. More at once go without.
std::array<std::atomic<const char *>, 64> named;

extern "C" void removeNamed(int signal) {
  for (auto &slot : named)
    if (const char *name = slot.exchange(nullptr))
      unlink(name);
  raise(signal); // the default action: the handler was for once
}

void removeOnSignals() {
  for (int signal : {SIGHUP, SIGINT, SIGTERM}) {
    struct sigaction old = {}, own = {};
    if (sigaction(signal, nullptr, &old) != 0 || old.sa_handler != SIG_DFL)
      continue; // ignored, or somebody else's
    own.sa_handler = removeNamed;
    own.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(signal, &own, nullptr);
  }
}

void remember(const std::string &name) {
  removeOnSignals();
  for (auto &slot : named) {
    const char *none = nullptr;
    if (slot.compare_exchange_strong(none, name.c_str()))
      return;
  }
}

void forget(const std::string &name) {
  for (auto &slot : named) {
    const char *own = name.c_str();
    slot.compare_exchange_strong(own, nullptr);
  }
}

/// A model may have more outputs than a process usually has open files.
bool raiseFileLimit() {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
    return false;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

std::string folderOf(const std::string &path) {
  size_t end = path.rfind('/');
  return end == std::string::npos ? "." : path.substr(0, end + 1);
}

std::string placeOf(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

} // namespace

TemporaryFile::TemporaryFile(const std::string &path) : path(path) {
  if (openUnnamed() || openNamed() || errno != EMFILE || !raiseFileLimit())
    return;
  if (!openUnnamed())
    openNamed();
}

bool TemporaryFile::openUnnamed() {
  fd = open(folderOf(path).c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (fd < 0)
    return false;
  // Its name will be given through this place.
  if (access(placeOf(fd).c_str(), F_OK) == 0)
    return true;
  close(fd);
  fd = -1;
  return false;
}

bool TemporaryFile::openNamed() {
  name = path + ".XXXXXX";
  fd = mkstemp(name.data());
  if (fd < 0)
    return false;
  remember(name);
  mode_t mask = umask(0);
  umask(mask);
  (void)fchmod(fd, 0666 & ~mask);
  return true;
}

TemporaryFile::~TemporaryFile() {
  if (fd < 0)
    return;
  close(fd);
  if (name.empty())
    return;
  unlink(name.c_str());
  forget(name);
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

bool TemporaryFile::link(const std::string &target) const {
  return linkat(AT_FDCWD, placeOf(fd).c_str(), AT_FDCWD, target.c_str(),
                AT_SYMLINK_FOLLOW) == 0;
}

/// Whether `path` names the open file.
bool TemporaryFile::isAt(const std::string &path) const {
  struct stat own, there;
  return fstat(fd, &own) == 0 && stat(path.c_str(), &there) == 0 &&
         own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

/// Links to `other` and renames that to `path`; 0 or the error. Calls only what
/// a child of a process with threads may.
int TemporaryFile::renameOver(const char *place, const char *other) const {
  if (linkat(AT_FDCWD, place, AT_FDCWD, other, AT_SYMLINK_FOLLOW) != 0)
    return errno;
  if (rename(other, path.c_str()) == 0)
    return 0;
  int error = errno;
  unlink(other);
  return error;
}

/// Only a rename puts a file in the place of another; for that it needs a name,
/// for a moment. A child of its own session does both steps: what ends this
/// process, SIGKILL even, leaves none of that name behind.
bool TemporaryFile::replace() {
  sigset_t all, old;
  sigfillset(&all);
  int error = EEXIST;
  for (int i = 0; i < 100 && error == EEXIST; ++i) {
    std::string other = path + "." + std::to_string(getpid()) + "." +
                        std::to_string(i),
                place = placeOf(fd);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    pid_t child = fork();
    if (child == 0) {
      setsid();
      _exit(renameOver(place.c_str(), other.c_str()));
    }
    int status = 0;
    if (child < 0)
      error = renameOver(place.c_str(), other.c_str());
    else if (waitpid(child, &status, 0) == child && WIFEXITED(status))
      error = WEXITSTATUS(status);
    else // somebody else waits for children
      error = isAt(path) ? 0 : ECHILD;
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }
  errno = error;
  return error == 0;
}

Status TemporaryFile::publish() {
  if (!name.empty()) {
    if (rename(name.c_str(), path.c_str()) != 0)
      return error("create");
    forget(name);
    name.clear();
    return {};
  }
  if (link(path) || (errno == EEXIST && replace()))
    return {};
  return error("create");
}
