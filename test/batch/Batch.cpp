//===- Batch.cpp - Many compilations and runs in one process --------------===//
//
// Tests of thousands of small models spend their time starting programs. This
// one reads a command a line from standard input, the fields parted by tabs:
// a file for what the command prints, `fusion-compile` or `fusion-run`, and its
// arguments. It answers each with a line that holds the exit code. The command
// `operators` lists what Import knows.
//
//===----------------------------------------------------------------------===//

#include "../../tools/Tools.h"
#include "../../tools/fusion-compile/Diagnostics.h"
#include "../../tools/fusion-compile/Driver.h"

#include "fusion/Codegen/Host.h"
#include "fusion/InitAll.h"

#include "mlir/IR/MLIRContext.h"

#include <cstdio>
#include <fcntl.h>
#include <iostream>
#include <unistd.h>

using namespace fusion::compile;

namespace {
int compile(int argc, char **argv) {
  auto options = parseOptions(argc, argv);
  if (!options)
    return kUsage;
  mlir::DialectRegistry registry;
  fusion::registerAllDialects(registry);
  fusion::registerHostCodegenDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false);
  DiagnosticPrinter printer(context, options->input);
  return Driver(*options, context).run();
}

/// Standard output and standard error go to a file while this lives.
class Redirect {
public:
  explicit Redirect(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    dup2(file, 1);
    dup2(file, 2);
    close(file);
  }
  ~Redirect() {
    fflush(stdout);
    fflush(stderr);
  }
};

std::vector<std::string> split(const std::string &line) {
  std::vector<std::string> fields;
  for (size_t start = 0; start <= line.size();) {
    size_t end = std::min(line.find('\t', start), line.size());
    fields.push_back(line.substr(start, end - start));
    start = end + 1;
  }
  return fields;
}

int execute(std::vector<std::string> fields) {
  Redirect redirect(fields[0].c_str());
  std::vector<char *> argv;
  for (size_t i = 1; i < fields.size(); ++i)
    argv.push_back(fields[i].data());
  int argc = static_cast<int>(argv.size());
  argv.push_back(nullptr);
  if (fields[1] == "fusion-compile")
    return compile(argc, argv.data());
  if (fields[1] == "fusion-run")
    return fusionRunMain(argc, argv.data());
  if (fields[1] == "operators") {
    fusion::listOperators(llvm::outs());
    llvm::outs().flush();
    return kSuccess;
  }
  return kUsage;
}
} // namespace

int main() {
  FILE *answers = fdopen(dup(1), "w");
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> fields = split(line);
    if (fields.size() < 2)
      return kUsage;
    fprintf(answers, "%d\n", execute(std::move(fields)));
    fflush(answers);
  }
  return 0;
}
