//===- FuzzOnnx.cpp - Bytes as an ONNX file -------------------------------===//
//
// Whatever a file holds, the importer returns a module that verifies or reports
// errors; it neither crashes nor hangs.
//
//===----------------------------------------------------------------------===//

#include "Seeds.h"

#include "fusion/Import/Import.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
  fusion::fuzz::readSeeds(*argc, *argv);
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t limit, unsigned seed) {
  return fusion::fuzz::mutate(data, size, limit, seed);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string path = "/tmp/fuzz-onnx-" + std::to_string(::getpid()) + ".onnx";
  FILE *file = std::fopen(path.c_str(), "wb");
  if (!file)
    std::abort();
  std::fwrite(data, 1, size, file);
  std::fclose(file);

  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  bool complained = false;
  mlir::ScopedDiagnosticHandler quiet(&context, [&](mlir::Diagnostic &) {
    complained = true;
    return mlir::success();
  });
  auto module = fusion::importOnnx(path, {}, context);
  std::remove(path.c_str());
  if (mlir::failed(module) ? !complained : mlir::failed(mlir::verify(**module)))
    std::abort();
  return 0;
}
