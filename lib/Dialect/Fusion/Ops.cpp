//===- Ops.cpp - Generated definitions of the fusion ops ------------------===//

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace fusion;

void FusionDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "fusion/Dialect/Fusion/FusionOps.cpp.inc"
      >();
}

#define GET_OP_CLASSES
#include "fusion/Dialect/Fusion/FusionOps.cpp.inc"
