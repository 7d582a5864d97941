//===- Ops.cpp - Model, constants, programs, buffers ----------------------===//

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Dialect/Plan/PlanOps.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::plan;

static bool isExpr(StringRef text) {
  return SymExpr::parse(std::string_view(text.data(), text.size())).has_value();
}

static LogicalResult verifyExpr(Operation *op, StringRef what, StringRef text) {
  if (isExpr(text))
    return success();
  return op->emitOpError("expected a size expression as ")
         << what << ", found '" << text << "'";
}

static LogicalResult verifyElement(Operation *op, Type tensor) {
  auto shaped = dyn_cast<RankedTensorType>(tensor);
  if (shaped && getDType(shaped.getElementType()))
    return success();
  return op->emitOpError("expected a tensor of an ONNX element type, found ")
         << tensor;
}

LogicalResult ModelOp::verifyRegions() {
  if (failed(verifyExpr(*this, "appended", getAppended())))
    return failure();
  int64_t inputs = 0;
  for (Operation &op : getBody().front()) {
    if (!isa<SymbolOp, ModelInputOp, ModelOutputOp, ModelStateOp, GuardOp>(op))
      return op.emitOpError("does not belong in a plan.model");
    inputs += isa<ModelInputOp>(op);
  }
  llvm::StringSet<> names;
  for (SymbolOp symbol : getBody().getOps<SymbolOp>()) {
    if (!names.insert(symbol.getName()).second)
      return symbol.emitOpError("'") << symbol.getName() << "' declared twice";
    auto input = symbol.getInput();
    if (input && (*input < 0 || *input >= inputs))
      return symbol.emitOpError("names input ")
             << *input << " of " << inputs << " inputs";
  }
  return success();
}

LogicalResult SymbolOp::verify() {
  StringRef name = getName();
  if (!SymExpr::isIdentifier(std::string_view(name.data(), name.size())))
    return emitOpError("expected an identifier, found '") << name << "'";
  if (getInput().has_value() != getAxis().has_value())
    return emitOpError("expected both input and axis, or neither");
  if (getLower() > getUpper())
    return emitOpError("has an empty range");
  return success();
}

LogicalResult GuardOp::verify() {
  if (failed(verifyExpr(*this, "left side", getLeft())))
    return failure();
  return verifyExpr(*this, "right side", getRight());
}

LogicalResult plan::ConstantOp::verify() {
  if (getValueAttr() && getKernelAttr())
    return emitOpError("expected a value or a kernel, found both");
  if (!getValueAttr() && !getKernelAttr())
    return emitOpError("expected a value or a kernel, found neither");
  if (failed(verifyElement(*this, getTensor())))
    return failure();
  auto bytes = numBytes(getTensor()).asConstant();
  if (!bytes)
    return emitOpError("expected a static type, found ") << getTensor();
  if (auto source = dyn_cast_or_null<WeightRefAttr>(getValueAttr())) {
    RankedTensorType file = source.getFileType(getTensor());
    bytes = numBytes(file).asConstant();
    if (source.getLength() != static_cast<uint64_t>(*bytes))
      return emitOpError("expected ") << *bytes << " bytes for " << file
                                      << ", found " << source.getLength();
  } else if (getValueAttr() && !isa<DenseElementsAttr>(getValueAttr())) {
    return emitOpError("expected #fusion.weight or dense elements");
  }
  return success();
}

LogicalResult
plan::ConstantOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!getKernelAttr())
    return success();
  auto kernel =
      symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("no kernel ") << getKernelAttr();
  if (kernel.getBlock()->getNumArguments() != getSources()->size())
    return emitOpError("expected ") << kernel.getBlock()->getNumArguments()
                                    << " constants for " << getKernelAttr();
  if (*getResult() < 0 ||
      *getResult() >=
          static_cast<int64_t>(kernel.getYield().getValues().size()))
    return emitOpError("names result ")
           << *getResult() << " of " << getKernelAttr();
  for (auto source : getSources()->getAsRange<FlatSymbolRefAttr>())
    if (!symbols.lookupNearestSymbolFrom<plan::ConstantOp>(*this, source))
      return emitOpError("no constant ") << source;
  return success();
}

LogicalResult plan::WeightOp::verifySymbolUses(SymbolTableCollection &symbols) {
  if (!symbols.lookupNearestSymbolFrom<plan::ConstantOp>(*this,
                                                         getConstantAttr()))
    return emitOpError("no constant ") << getConstantAttr();
  return success();
}

LogicalResult ProgramOp::verifyRegions() {
  if (failed(verifyExpr(*this, "rows", getRows())))
    return failure();
  if (getMinRows() > getMaxRows())
    return emitOpError("has an empty range of rows");
  if (auto fixed = getFixed())
    for (NamedAttribute value : *fixed)
      if (!isa<IntegerAttr>(value.getValue()))
        return emitOpError("expected an integer for the fixed symbol ")
               << value.getName();
  for (Operation &op : getBody().front())
    if (!isa<plan::InputOp, plan::OutputOp, StateOp, plan::WeightOp, AllocOp,
             ViewOp, LaunchOp>(op))
      return op.emitOpError("does not belong in a plan.program");
  return success();
}

LogicalResult AllocOp::verify() {
  if (failed(verifyExpr(*this, "bytes", getBytes())))
    return failure();
  if (getFirst().has_value() != getLast().has_value() ||
      (getFirst() && *getFirst() > *getLast()))
    return emitOpError("expected a live range from a launch to a later one");
  return verifyElement(*this, getTensor());
}

LogicalResult ViewOp::verify() {
  return verifyExpr(*this, "offset", getOffset());
}
