//===- Output.cpp - Files written whole or not at all ---------------------===//

#include "Output.h"

#include "fusion/Support/Printable.h"
#include "fusion/Support/TemporaryFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"

using namespace llvm;

using fusion::Status;
using fusion::TemporaryFile;
using fusion::compile::Destination;

Destination::Destination(StringRef text) : isStream(false), path(text) {
  if (text == "-") {
    isStream = true;
    return;
  }
  sys::fs::file_status status;
  if (sys::fs::status(text, status) || !sys::fs::exists(status))
    return;
  isStream =
      !sys::fs::is_regular_file(status) && !sys::fs::is_directory(status);
  SmallString<256> real;
  if (!isStream && !sys::fs::real_path(text, real))
    path = real.str().str();
}

static LogicalResult fault(StringRef path, const Twine &why) {
  errs() << "fusion-compile: error: cannot write "
         << fusion::printable(path.str()) << ": " << why << "\n";
  return failure();
}

static LogicalResult fault(const Status &status) {
  errs() << "fusion-compile: error: "
         << fusion::printableMessage(status.message()) << "\n";
  return failure();
}

static LogicalResult writeStream(StringRef path,
                                 function_ref<void(raw_ostream &)> write) {
  std::error_code error;
  raw_fd_ostream os(path, error, sys::fs::CD_OpenExisting);
  if (error)
    return fault(path, error.message());
  write(os);
  os.flush();
  if (!os.has_error())
    return success();
  std::string why = os.error().message();
  os.clear_error();
  return fault(path, why);
}

LogicalResult
fusion::compile::produceFile(StringRef path,
                             function_ref<LogicalResult(StringRef)> produce) {
  Destination destination(path);
  if (!destination.isStream)
    return produce(destination.path);
  SmallString<128> temporary;
  if (std::error_code error =
          sys::fs::createTemporaryFile("fusion", "fusion", temporary))
    return fault(path, error.message());
  sys::RemoveFileOnSignal(temporary);
  LogicalResult result = produce(temporary);
  if (succeeded(result)) {
    auto buffer = MemoryBuffer::getFile(temporary, /*IsText=*/false,
                                        /*RequiresNullTerminator=*/false);
    result = buffer ? writeStream(path,
                                  [&](raw_ostream &os) {
                                    os << (*buffer)->getBuffer();
                                  })
                    : fault(path, buffer.getError().message());
  }
  sys::fs::remove(temporary);
  sys::DontRemoveFileOnSignal(temporary);
  return result;
}

LogicalResult
fusion::compile::writeFile(StringRef name,
                           function_ref<void(raw_ostream &)> write) {
  Destination destination(name);
  if (destination.isStream)
    return writeStream(name, write);
  std::string text;
  raw_string_ostream os(text);
  write(os);
  TemporaryFile file(destination.path);
  Status status = file.isOpen() ? file.writeAt(0, text.data(), text.size())
                                : file.error("create");
  if (status)
    status = file.publish();
  if (status)
    return success();
  return fault(status);
}

/// Folders that were made for files, innermost last; removed where they are
/// still empty, unless keep() says that they are not.
namespace {
class MadeFolders {
public:
  std::error_code make(StringRef folder) {
    SmallVector<StringRef> missing;
    for (StringRef part = folder; !part.empty() && !sys::fs::exists(part);
         part = sys::path::parent_path(part))
      missing.push_back(part);
    for (StringRef part : reverse(missing)) {
      if (std::error_code error = sys::fs::create_directory(part))
        return error;
      made.push_back(part.str());
    }
    return {};
  }
  void keep() { made.clear(); }
  ~MadeFolders() {
    for (const std::string &folder : reverse(made))
      sys::fs::remove(folder);
  }

private:
  std::vector<std::string> made;
};
} // namespace

LogicalResult fusion::compile::writeFiles(
    StringRef folder,
    ArrayRef<std::pair<std::string, StringRef>> nameAndBytes) {
  MadeFolders folders;
  if (std::error_code error = folders.make(folder))
    return fault(folder, error.message());
  if (!sys::fs::is_directory(folder))
    return fault(folder, "it is no folder");
  std::vector<std::unique_ptr<TemporaryFile>> files;
  std::vector<std::string> paths;
  for (const auto &[name, bytes] : nameAndBytes) {
    SmallString<256> path(folder);
    sys::path::append(path, name);
    paths.push_back(path.str().str());
    auto &file =
        files.emplace_back(std::make_unique<TemporaryFile>(paths.back()));
    Status status = file->isOpen()
                        ? file->writeAt(0, bytes.data(), bytes.size())
                        : file->error("create");
    if (!status)
      return fault(status);
  }
  // What is new goes again when a later file gets no name.
  SmallVector<StringRef> fresh;
  for (auto [file, path] : zip(files, paths)) {
    bool isNew = !sys::fs::exists(path);
    Status status = file->publish();
    if (!status) {
      for (StringRef done : fresh)
        sys::fs::remove(done);
      return fault(status);
    }
    if (isNew)
      fresh.push_back(path);
  }
  folders.keep();
  return success();
}
