//===- Output.cpp - Files written whole or not at all ---------------------===//

#include "Output.h"

#include "fusion/Support/TemporaryFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

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
  errs() << "fusion-compile: cannot write " << path << ": " << why << "\n";
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
  errs() << "fusion-compile: " << status.message() << "\n";
  return failure();
}
