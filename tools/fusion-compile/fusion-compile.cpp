//===- fusion-compile.cpp - Ahead-of-time compiler of ONNX models ---------===//

#include "../Tools.h"
#include "Diagnostics.h"
#include "Driver.h"

#include "fusion/Codegen/Host.h"
#include "fusion/InitAll.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/InitLLVM.h"

#include <csignal>

int fusionCompileMain(int argc, char **argv) {
  using namespace fusion::compile;
  llvm::InitLLVM init(argc, argv);
  signal(SIGXFSZ, SIG_IGN); // a limit is a full disk
  auto options = parseOptions(argc, argv);
  if (!options)
    return kUsage;
  mlir::DialectRegistry registry;
  fusion::registerAllDialects(registry);
  fusion::registerHostCodegenDialects(registry);
  mlir::MLIRContext context(registry);
  context.loadAllAvailableDialects();
  // A message names the node; a dump of the whole function helps nobody.
  context.printOpOnDiagnostic(false);
  DiagnosticPrinter printer(context, options->input);
  return Driver(*options, context).run();
}
