//===- multicall.cpp - All tools over IR in one binary --------------------===//
//
// Called through a link named like the tool, or as `fusion TOOL ...`.
//
//===----------------------------------------------------------------------===//

#include "Tools.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

namespace {
struct Tool {
  llvm::StringRef name;
  int (*main)(int, char **);
};
constexpr Tool kTools[] = {
    {"fusion-compile", fusionCompileMain},
    {"fusion-lsp-server", fusionLspServerMain},
    {"fusion-opt", fusionOptMain},
    {"fusion-reduce", fusionReduceMain},
};

const Tool *find(llvm::StringRef name) {
  for (const Tool &tool : kTools)
    if (tool.name == name)
      return &tool;
  return nullptr;
}
} // namespace

int main(int argc, char **argv) {
  if (const Tool *tool = find(llvm::sys::path::filename(argv[0])))
    return tool->main(argc, argv);
  if (argc > 1)
    if (const Tool *tool = find(argv[1]))
      return tool->main(argc - 1, argv + 1);
  llvm::errs() << "usage: fusion TOOL ..., where TOOL is one of\n";
  for (const Tool &tool : kTools)
    llvm::errs() << "  " << tool.name << "\n";
  return 2;
}
