//===- fusion-run.cpp - Runs compiled models ------------------------------===//

#include "../Tools.h"
#include "Options.h"

#include "fusion/Artifact/Dump.h"
#include "fusion/Support/Printable.h"
#include "fusion/Support/TemporaryFile.h"

#include <csignal>
#include <cstdio>

using namespace fusion;
using namespace fusion::run;

/// A message about a file starts with its name in quotes: it is printed as
/// `FILE: error: message`, any other as `fusion-run: error: message`.
int fusion::run::fail(const Status &status) {
  std::string text = status.message(), subject = "fusion-run";
  size_t end = text.find("': ");
  if (!text.empty() && text[0] == '\'' && end != std::string::npos) {
    subject = text.substr(1, end - 1);
    text.erase(0, end + 3);
  }
  fprintf(stderr, "%s: error: %s\n", printable(subject).c_str(),
          printableMessage(text).c_str());
  return status.code() == StatusCode::Usage ? kUsage : kInputFault;
}

int fusion::run::writeProfile(const Options &options, const Profile &profile,
                              const artifact::Model &model) {
  if (options.profile.empty())
    return kSuccess;
  std::string text = chromeTrace(profile, model);
  TemporaryFile file(options.profile);
  Status status = file.isOpen() ? file.writeAt(0, text.data(), text.size())
                                : file.error("create");
  if (status)
    status = file.publish();
  if (!status)
    return fail(status);
  fputs(profileSummary(profile, model).c_str(), stderr);
  return kSuccess;
}

/// --info needs no device: it works on artifacts for another machine too.
static int printInfo(const std::string &path) {
  auto file = artifact::Artifact::open(path);
  if (!file)
    return fail(file.status());
  fputs(artifact::dumpModel((*file)->model()).c_str(), stdout);
  return kSuccess;
}

static int runTool(int argc, char **argv) {
  int exitCode = kSuccess;
  auto options = parseOptions(argc, argv, exitCode);
  if (!options)
    return exitCode;
  if (options->info)
    return printInfo(options->artifact);
  auto model = LoadedModel::open(options->artifact, options->device,
                                 options->threads, options->cuda);
  if (!model)
    return fail(model.status());
  auto session = Session::create(*model);
  if (!session)
    return fail(session.status());
  if (options->generates)
    return runGenerate(*options, **session);
  if (options->verify)
    return runVerify(*options, **session);
  return runInputs(*options, **session);
}

int fusionRunMain(int argc, char **argv) {
  signal(SIGXFSZ, SIG_IGN); // a limit is a full disk
  int code = runTool(argc, argv);
  // Results that nobody could read are no success.
  if ((fflush(stdout) != 0 || ferror(stdout)) && code == kSuccess)
    return fail(
        Status(StatusCode::InvalidInput, "cannot write to standard output"));
  return code;
}
