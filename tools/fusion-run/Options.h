//===- Options.h - The command line of fusion-run ---------------*- C++ -*-===//

#ifndef FUSION_TOOLS_FUSION_RUN_OPTIONS_H
#define FUSION_TOOLS_FUSION_RUN_OPTIONS_H

#include "fusion/Runtime/Session.h"

#include <optional>

namespace fusion::run {

enum ExitCode { kSuccess = 0, kInputFault = 1, kUsage = 2, kVerifyFailed = 3 };

struct Options {
  std::string artifact;
  Device device = Device::Host;
  CudaOptions cuda;
  bool graphs = true;
  unsigned threads = 0;
  std::vector<std::pair<std::string, std::string>> inputs; ///< name, file
  std::string outputDir;
  std::string profile; ///< where the trace goes
  int64_t bench = 0;   ///< timed runs
  bool info = false, verify = false, json = false, stream = false;

  bool generates = false;
  int64_t generate = 0;
  std::vector<std::vector<int64_t>> prompts; ///< of each sequence
  std::vector<int64_t> forced, stop;
};

/// The options, or an exit code where a message or the help was printed.
std::optional<Options> parseOptions(int argc, char **argv, int &exitCode);

int runInputs(const Options &options, Session &session);
int runGenerate(const Options &options, Session &session);
int runVerify(const Options &options, Session &session);

/// Prints `fusion-run: error: ...`; returns the exit code of the failure.
int fail(const Status &status);

/// Reads the files of --input and binds them; the tensors must live as long
/// as the session uses them.
class InputFiles {
public:
  Status load(const Options &options, const artifact::Model &model);
  Status bind(Session &session) const;

private:
  struct File;
  std::vector<std::shared_ptr<File>> files;
};

/// Writes the trace and prints the summary, where --profile asks for it.
int writeProfile(const Options &options, const Profile &profile,
                 const artifact::Model &model);

} // namespace fusion::run

#endif // FUSION_TOOLS_FUSION_RUN_OPTIONS_H
