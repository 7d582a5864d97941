//===- Output.h - Files written whole or not at all -------------*- C++ -*-===//

#ifndef FUSION_TOOLS_FUSION_COMPILE_OUTPUT_H
#define FUSION_TOOLS_FUSION_COMPILE_OUTPUT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace fusion::compile {

/// Where bytes for `path` go: standard output (`-`), a device or a pipe are
/// written as they are; a file is replaced whole, behind links if it is one.
struct Destination {
  explicit Destination(llvm::StringRef path);
  bool isStream; ///< no file to replace
  std::string path;
};

/// Calls `produce` with the path of a file to make: the destination's own, or
/// a temporary one that is then copied to the stream and removed.
llvm::LogicalResult
produceFile(llvm::StringRef path,
            llvm::function_ref<llvm::LogicalResult(llvm::StringRef)> produce);

/// Writes through a temporary file beside `path`, renamed at the end; streams
/// are written directly. Prints what went wrong.
llvm::LogicalResult
writeFile(llvm::StringRef path,
          llvm::function_ref<void(llvm::raw_ostream &)> write);

/// Writes files into a folder, which is made where it is not there: all of
/// them, or none and no folder. Prints what went wrong.
llvm::LogicalResult writeFiles(
    llvm::StringRef folder,
    llvm::ArrayRef<std::pair<std::string, llvm::StringRef>> nameAndBytes);

} // namespace fusion::compile

#endif // FUSION_TOOLS_FUSION_COMPILE_OUTPUT_H
