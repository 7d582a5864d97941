//===- fusion-reduce.cpp - Makes failing IR smaller -----------------------===//

#include "../Tools.h"

#include "fusion/InitAll.h"

#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

int fusionReduceMain(int argc, char **argv) {
  mlir::DialectRegistry registry;
  fusion::registerAllDialects(registry);
  fusion::registerAllPasses();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
