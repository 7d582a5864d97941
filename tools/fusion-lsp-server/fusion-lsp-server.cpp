//===- fusion-lsp-server.cpp - Language server for .mlir files ------------===//

#include "../Tools.h"

#include "fusion/InitAll.h"

#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int fusionLspServerMain(int argc, char **argv) {
  mlir::DialectRegistry registry;
  fusion::registerAllDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
