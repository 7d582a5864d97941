//===- CompiledProgram.h - A program with numbered sizes --------*- C++ -*-===//
//
// A Program whose size expressions are places in one table: a step evaluates
// the table once and launches read numbers. Shared by all executors.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RUNTIME_COMPILEDPROGRAM_H
#define FUSION_LIB_RUNTIME_COMPILEDPROGRAM_H

#include "fusion/Artifact/Model.h"
#include "fusion/Support/SymTable.h"

namespace fusion {

struct CompiledLaunch {
  uint32_t grid, grain, scratchBytes;   ///< places
  std::vector<uint32_t> sizes, offsets; ///< places; an offset for each argument
};

struct CompiledProgram {
  CompiledProgram(const artifact::Program &program,
                  const std::vector<std::string> &symbols)
      : program(&program), table(symbols) {
    for (const artifact::ArenaBuffer &buffer : program.buffers)
      bufferBytes.push_back(table.add(buffer.bytes));
    for (const artifact::Launch &launch : program.launches) {
      CompiledLaunch c;
      c.grid = table.add(launch.grid);
      c.grain = table.add(launch.grain);
      c.scratchBytes = table.add(launch.scratchBytes);
      for (const SymExpr &size : launch.sizes)
        c.sizes.push_back(table.add(size));
      for (const artifact::LaunchArg &arg : launch.args)
        c.offsets.push_back(table.add(arg.buffer.byteOffset));
      launches.push_back(std::move(c));
    }
  }

  const artifact::Program *program;
  SymTable table;
  std::vector<uint32_t> bufferBytes; ///< places
  std::vector<CompiledLaunch> launches;
};

} // namespace fusion

#endif // FUSION_LIB_RUNTIME_COMPILEDPROGRAM_H
