//===- fusion-opt.cpp - Runs passes on IR ---------------------------------===//

#include "../Tools.h"

#include "fusion/InitAll.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int fusionOptMain(int argc, char **argv) {
  mlir::DialectRegistry registry;
  fusion::registerAllDialects(registry);
  fusion::registerAllPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "runs passes of the fusion compiler\n", registry));
}
