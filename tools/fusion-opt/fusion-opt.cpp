//===- fusion-opt.cpp - Runs passes on IR ---------------------------------===//

#include "../Tools.h"

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/InitAll.h"
#include "fusion/Support/Printable.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

/// Lines of a message, with names of the file in them.
static std::string printableLines(const std::string &text) {
  std::string result;
  for (llvm::StringRef rest = text, line; !rest.empty();) {
    std::tie(line, rest) = rest.split('\n');
    result += fusion::printable(line.str());
    result += rest.empty() ? "" : "\n";
  }
  return result;
}

static void makePrintable(mlir::Diagnostic &diagnostic) {
  std::string text = diagnostic.str(), fit = printableLines(text);
  if (fit == text)
    return;
  mlir::Diagnostic made(diagnostic.getLocation(), diagnostic.getSeverity());
  made << fit;
  for (mlir::Diagnostic &note : diagnostic.getNotes()) {
    makePrintable(note);
    made.attachNote(note.getLocation()) << note.str();
  }
  diagnostic = std::move(made);
}

/// The dialect is loaded while a file is parsed, after the printer of messages
/// is there: this handler sees each message before that one.
static void escapeMessages(mlir::DialectRegistry &registry) {
  registry.addExtension(
      +[](mlir::MLIRContext *context, fusion::FusionDialect *) {
        context->getDiagEngine().registerHandler([](mlir::Diagnostic &d) {
          makePrintable(d);
          return mlir::failure(); // not yet printed
        });
      });
}

int fusionOptMain(int argc, char **argv) {
  mlir::DialectRegistry registry;
  fusion::registerAllDialects(registry);
  fusion::registerAllPasses();
  escapeMessages(registry);
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "runs passes of the fusion compiler\n", registry));
}
