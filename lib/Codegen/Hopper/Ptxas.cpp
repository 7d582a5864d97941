//===- Ptxas.cpp - The assembler as a child process -----------------------===//

#include "Serialize.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace fusion;
using namespace fusion::hopper;

/// ptxas of PyPI's nvidia-cuda-nvcc beside a Python interpreter of that prefix.
static std::string findInPython(llvm::StringRef interpreter) {
  llvm::StringRef prefix =
      llvm::sys::path::parent_path(llvm::sys::path::parent_path(interpreter));
  llvm::SmallString<256> lib(prefix);
  llvm::sys::path::append(lib, "lib");
  std::error_code ec;
  for (llvm::sys::fs::directory_iterator it(lib, ec), end; it != end && !ec;
       it.increment(ec)) {
    if (!llvm::sys::path::filename(it->path()).starts_with("python3"))
      continue;
    for (const char *packages : {"site-packages", "dist-packages"})
      for (const char *folder : {"nvidia/cu13/bin", "nvidia/cuda_nvcc/bin"}) {
        llvm::SmallString<256> path(it->path());
        llvm::sys::path::append(path, packages, folder, "ptxas");
        if (llvm::sys::fs::can_execute(path))
          return std::string(path);
      }
  }
  return "";
}

std::string hopper::findPtxas(const std::string &given) {
  if (!given.empty())
    return llvm::sys::fs::can_execute(given) ? given : "";
  if (auto path = llvm::sys::findProgramByName("ptxas"))
    return *path;
  if (auto path =
          llvm::sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"}))
    return *path;
  for (const char *name : {"python3", "python"})
    if (auto python = llvm::sys::findProgramByName(name)) {
      std::string path = findInPython(*python);
      if (!path.empty())
        return path;
    }
  return "";
}

static unsigned number(llvm::StringRef text, llvm::StringRef pattern) {
  llvm::SmallVector<llvm::StringRef> groups;
  unsigned value = 0;
  if (llvm::Regex(pattern).match(text, &groups))
    groups[1].getAsInteger(10, value);
  return value;
}

void hopper::parseReport(const std::string &report, unsigned spillAllowance,
                         Assembled &result) {
  llvm::SmallVector<llvm::StringRef> lines, groups;
  llvm::StringRef(report).split(lines, '\n');
  auto raise = [](unsigned &value, unsigned found) {
    value = std::max(value, found);
  };
  FunctionReport *f = &result.functions[""];
  for (llvm::StringRef line : lines) {
    if (llvm::Regex("(Compiling entry function|Function properties for) "
                    "'?([A-Za-z_.$0-9]+)")
            .match(line, &groups))
      f = &result.functions[groups[2].str()];
    raise(f->registers, number(line, "Used ([0-9]+) registers"));
    raise(f->sharedBytes, number(line, "([0-9]+) bytes smem"));
    raise(f->stackBytes, number(line, "([0-9]+) bytes stack frame"));
    raise(f->spillBytes, number(line, "([0-9]+) bytes spill stores"));
    raise(f->spillBytes, number(line, "([0-9]+) bytes spill loads"));
    if (llvm::Regex("C75(08|1[0-9])").match(line) && result.error.empty())
      result.error = ("ptxas: " + line.trim()).str();
  }
  for (const auto &[name, function] : result.functions)
    if (result.error.empty() &&
        std::max(function.spillBytes, function.stackBytes) > spillAllowance)
      result.error = "kernel spills: " + std::to_string(function.spillBytes) +
                     " bytes, stack frame " +
                     std::to_string(function.stackBytes) + " bytes, " +
                     std::to_string(function.registers) + " registers";
}

namespace {
/// A file in memory, which ptxas inherits and names by its descriptor: nothing
/// is left of it whenever the process ends.
struct MemoryFile {
  int fd;
  std::string path;
  explicit MemoryFile(const char *name)
      : fd(memfd_create(name, 0)), path("/proc/self/fd/" + std::to_string(fd)) {
  }
  ~MemoryFile() {
    if (fd >= 0)
      close(fd);
  }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  bool write(llvm::StringRef text) const {
    llvm::raw_fd_ostream os(fd, /*shouldClose=*/false);
    os << text;
    os.flush();
    bool isWritten = !os.has_error();
    os.clear_error();
    return isWritten;
  }
  std::string read() const {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().str() : "";
  }
};
} // namespace

Assembled hopper::assemble(const std::string &ptxas, const std::string &ptx,
                           unsigned spillAllowance) {
  Assembled result;
  MemoryFile input("ptx"), output("cubin"), log("log");
  if (input.fd < 0 || output.fd < 0 || log.fd < 0 || !input.write(ptx)) {
    result.error =
        std::string("cannot make a file in memory: ") + std::strerror(errno);
    return result;
  }
  llvm::SmallVector<llvm::StringRef> args = {
      ptxas, "-arch=sm_90a", "-O3", "-v", input.path, "-o", output.path};
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), log.path,
                                                log.path};
  std::string message;
  int rc = llvm::sys::ExecuteAndWait(ptxas, args, std::nullopt, redirects, 0, 0,
                                     &message);
  std::string report = log.read();
  if (rc != 0) {
    result.error = "ptxas failed: " + (message.empty() ? report : message);
    return result;
  }
  parseReport(report, spillAllowance, result);
  std::string bytes = output.read();
  result.cubin.assign(bytes.begin(), bytes.end());
  return result;
}
