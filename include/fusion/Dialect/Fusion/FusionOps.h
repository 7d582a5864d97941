//===- FusionOps.h - The fusion dialect -------------------------*- C++ -*-===//

#ifndef FUSION_DIALECT_FUSION_FUSIONOPS_H
#define FUSION_DIALECT_FUSION_FUSIONOPS_H

#include "fusion/Dialect/Fusion/ShapeUtils.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "fusion/Dialect/Fusion/FusionDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "fusion/Dialect/Fusion/FusionAttributes.h.inc"
#include "fusion/Dialect/Fusion/FusionInterfaces.h.inc"
#define GET_OP_CLASSES
#include "fusion/Dialect/Fusion/FusionOps.h.inc"

#endif // FUSION_DIALECT_FUSION_FUSIONOPS_H
