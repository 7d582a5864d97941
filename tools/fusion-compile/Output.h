//===- Output.h - Files written whole or not at all -------------*- C++ -*-===//

#ifndef FUSION_TOOLS_FUSION_COMPILE_OUTPUT_H
#define FUSION_TOOLS_FUSION_COMPILE_OUTPUT_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"
#include "llvm/Support/raw_ostream.h"

namespace fusion::compile {

/// Writes through a temporary file beside `path`, renamed at the end; `-` is
/// standard output. Prints what went wrong.
llvm::LogicalResult
writeFile(llvm::StringRef path,
          llvm::function_ref<void(llvm::raw_ostream &)> write);

} // namespace fusion::compile

#endif // FUSION_TOOLS_FUSION_COMPILE_OUTPUT_H
