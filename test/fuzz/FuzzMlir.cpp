//===- FuzzMlir.cpp - Bytes as a .mlir file -------------------------------===//
//
// Whatever a file holds, the parser returns a module that verifies or reports
// errors; what verifies prints as text that parses again, and the passes of
// Raise run on it or report errors.
//
//===----------------------------------------------------------------------===//

#include "Seeds.h"

#include "mlir/Pass/PassManager.h"

#include "fusion/InitAll.h"
#include "fusion/Raise/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>

using namespace mlir;

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  fusion::fuzz::readSeeds(*argc, *argv);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed) {
  return fusion::fuzz::mutate(data, size, limit, seed);
}

/// Types and attributes live as long as their context: a new one for each
/// input would leave no time for anything else.
static MLIRContext &sharedContext() {
  static MLIRContext *context = [] {
    DialectRegistry registry;
    fusion::registerAllDialects(registry);
    auto *made = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    made->loadAllAvailableDialects();
    return made;
  }();
  return *context;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  MLIRContext &context = sharedContext();
  ScopedDiagnosticHandler quiet(&context,
                                [](Diagnostic &) { return success(); });
  std::string text(reinterpret_cast<const char *>(data), size);
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return 0;
  std::string printed;
  llvm::raw_string_ostream os(printed);
  module->print(os);
  if (!parseSourceString<ModuleOp>(printed, &context))
    std::abort();
  PassManager manager(&context);
  fusion::buildRaisePipeline(manager, fusion::RaiseOptions());
  (void)manager.run(*module);
  return 0;
}
