//===- Options.h - Command line of fusion-compile ---------------*- C++ -*-===//

#ifndef FUSION_TOOLS_FUSION_COMPILE_OPTIONS_H
#define FUSION_TOOLS_FUSION_COMPILE_OPTIONS_H

#include "fusion/Import/Import.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fusion::compile {

/// Exit codes that every tool shares.
enum ExitCode { kSuccess = 0, kInputFault = 1, kUsage = 2, kExpectation = 3 };

enum class Stage {
  Imported,
  Raised,
  Fused,
  Planned,
  Kernel,
  Llvm,
  Ptx,
  Cubin,
  Artifact
};

enum class ExplainForm { None, Text, Json, Html };

struct Options {
  std::string input, output;
  bool host = true, card = false;
  std::string
      hostCpu; ///< one level of x86-64; empty: all that there is code for
  Stage emit = Stage::Artifact;
  ImportOptions import;
  bool cacheState = false;
  bool lastLogits = false; ///< compute the logits of the last token alone
  bool ownLengths = false; ///< a cached length for each sequence
  int64_t maxContext = 2048;
  bool strict = false;
  std::string computeType; ///< bf16 or fp16; empty: as in the file
  ExplainForm explain = ExplainForm::None;
  std::string expect;
  std::vector<std::string> disabled;
  std::map<std::string, int64_t> likely; ///< sizes of symbols
  int64_t fuel = -1;
  std::string measured;      ///< profile of a run; empty: none
  std::string ptxas;         ///< its path; empty: searched for
  uint64_t measuredHash = 0; ///< of its bytes
  bool timing = false;
  bool verify = false; ///< keep the unfused form for fusion-run --verify

  bool isUnfused() const;
  /// The options that shape the artifact, in one canonical line.
  std::string canonical() const;
};

/// Parses the command line; prints what is wrong and returns nullopt.
std::optional<Options> parseOptions(int argc, char **argv);

} // namespace fusion::compile

#endif // FUSION_TOOLS_FUSION_COMPILE_OPTIONS_H
