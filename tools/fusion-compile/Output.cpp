//===- Output.cpp - Files written whole or not at all ---------------------===//

#include "Output.h"

#include "llvm/Support/FileSystem.h"

using namespace llvm;

LogicalResult
fusion::compile::writeFile(StringRef path,
                           function_ref<void(raw_ostream &)> write) {
  if (path == "-") {
    write(outs());
    outs().flush();
    return success(!outs().has_error());
  }
  auto fault = [&](const Twine &why) {
    errs() << "fusion-compile: cannot write " << path << ": " << why << "\n";
    return failure();
  };
  auto file = sys::fs::TempFile::create(path + ".%%%%%%.tmp");
  if (!file)
    return fault(toString(file.takeError()));
  raw_fd_ostream os(file->FD, /*shouldClose=*/false);
  write(os);
  os.flush();
  if (os.has_error()) {
    std::string why = os.error().message();
    os.clear_error();
    consumeError(file->discard());
    return fault(why);
  }
  if (Error error = file->keep(path))
    return fault(toString(std::move(error)));
  return success();
}
