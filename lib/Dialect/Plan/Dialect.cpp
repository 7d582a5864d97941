//===- Dialect.cpp - Registration of the plan dialect ---------------------===//

#include "fusion/Dialect/Plan/PlanOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion::plan;

#include "fusion/Dialect/Plan/PlanDialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "fusion/Dialect/Plan/PlanTypes.cpp.inc"

void PlanDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "fusion/Dialect/Plan/PlanTypes.cpp.inc"
      >();
}

void PlanDialect::initialize() {
  registerTypes();
  registerOps();
}
