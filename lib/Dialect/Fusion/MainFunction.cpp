//===- MainFunction.cpp - The function that a model is --------------------===//

#include "fusion/Dialect/Fusion/MainFunction.h"

#include "fusion/Dialect/Fusion/FusionOps.h"

using namespace mlir;
using namespace fusion;

LogicalResult fusion::checkGraph(func::FuncOp function) {
  if (function.isExternal())
    return function.emitError("expected a graph, found a declaration");
  if (!function.getBody().hasOneBlock() ||
      !isa<func::ReturnOp>(function.front().getTerminator()))
    return function.emitError(
        "expected a graph: one block that ends in func.return");
  for (TypeRange types : {TypeRange(function.getArgumentTypes()),
                          TypeRange(function.getResultTypes())})
    for (Type type : types)
      if (!isa<RankedTensorType>(type))
        return function.emitError("expected a graph of ranked tensors, found ")
               << type;
  return success();
}

FailureOr<func::FuncOp> fusion::getMain(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    return module.emitError("expected a function @main");
  if (failed(checkGraph(main)))
    return failure();
  return main;
}
