//===- Driver.cpp - From ONNX to a fused module ---------------------------===//

#include "Driver.h"
#include "Output.h"

#include "fusion/Eval/Eval.h"
#include "fusion/Raise/Decoder/Passes.h"
#include "fusion/Raise/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Process.h"

#include <chrono>

using namespace mlir;
using namespace fusion;
using namespace fusion::compile;

bool Driver::phase(StringRef name, function_ref<bool()> body) {
  auto start = std::chrono::steady_clock::now();
  bool tty = llvm::sys::Process::StandardErrIsDisplayed();
  if (tty && !options.timing)
    llvm::errs() << "\r\x1b[K" << name << " ...";
  bool ok = body();
  std::chrono::duration<double, std::milli> time =
      std::chrono::steady_clock::now() - start;
  if (options.timing)
    llvm::errs() << llvm::format("%-8s %8.1f ms\n", name.str().c_str(),
                                 time.count());
  else if (tty)
    llvm::errs() << "\r\x1b[K";
  return ok;
}

bool Driver::runPasses(function_ref<void(OpPassManager &)> build) {
  PassManager manager(&context);
  // Phases end in verifier passes of their own; the op verifiers run there.
  manager.enableVerifier(true);
  build(manager);
  return succeeded(manager.run(*module));
}

bool Driver::import() {
  auto imported = importOnnx(options.input, options.import, context);
  if (failed(imported))
    return false;
  module = std::move(*imported);
  return runPasses([&](OpPassManager &pm) {
    // Roles that Import did not find by the options' names.
    pm.addPass(createAssignRoles());
    if (options.cacheState)
      pm.addPass(createBindDecoderInputs());
  });
}

bool Driver::raise() {
  return runPasses([&](OpPassManager &pm) {
    if (!options.isUnfused()) {
      buildRaisePipeline(pm, RaiseOptions());
      pm.addPass(createAssignRoles());
    }
    if (!options.cacheState)
      return;
    MakeCacheStateOptions state;
    state.maxContext = options.maxContext;
    pm.addPass(createMakeCacheState(state));
  });
}

ExitCode Driver::printModule() {
  auto written = writeFile(options.output, [&](raw_ostream &os) {
    OpPrintingFlags flags;
    module->print(os, flags);
    os << "\n";
  });
  return succeeded(written) ? kSuccess : kInputFault;
}

ExitCode Driver::run() {
  if (!phase("import", [&] { return import(); }))
    return kInputFault;
  if (options.emit == Stage::Imported)
    return printModule();
  if (!phase("raise", [&] { return raise(); }))
    return kInputFault;
  return printModule();
}
