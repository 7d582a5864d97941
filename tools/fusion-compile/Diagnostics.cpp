//===- Diagnostics.cpp - What fusion-compile says of faults ---------------===//

#include "Diagnostics.h"

#include "fusion/Support/Printable.h"

#include "mlir/IR/Location.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::compile;

DiagnosticPrinter::DiagnosticPrinter(MLIRContext &context, std::string file)
    : file(printable(file)),
      handler(&context, [this](Diagnostic &d) { return print(d); }) {}

/// The ONNX node that a location names, if any.
static StringRef nodeOf(Location location) {
  StringRef name;
  location->walk([&](Location inner) {
    auto named = dyn_cast<NameLoc>(inner);
    if (!named)
      return WalkResult::advance();
    name = named.getName().getValue();
    return WalkResult::interrupt();
  });
  return name;
}

static StringRef severity(DiagnosticSeverity level) {
  switch (level) {
  case DiagnosticSeverity::Error:
    return "error";
  case DiagnosticSeverity::Warning:
    return "warning";
  case DiagnosticSeverity::Note:
    return "note";
  case DiagnosticSeverity::Remark:
    return "remark";
  }
  return "";
}

LogicalResult DiagnosticPrinter::print(Diagnostic &diagnostic) {
  // Remarks are collected by the report.
  if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
    return success();
  auto printOne = [&](Diagnostic &d) {
    std::string node = printableName(nodeOf(d.getLocation()));
    std::string text = printableMessage(d.str());
    // A message may name the file or the node itself.
    StringRef rest = text;
    if (rest.consume_front(file))
      text = (rest.consume_front(": ") ? rest : StringRef(text)).str();
    llvm::errs() << file << ": " << severity(d.getSeverity()) << ": ";
    if (!node.empty() && !StringRef(text).contains(node))
      llvm::errs() << "node '" << node << "': ";
    llvm::errs() << text << "\n";
  };
  printOne(diagnostic);
  for (Diagnostic &note : diagnostic.getNotes())
    printOne(note);
  return success();
}
