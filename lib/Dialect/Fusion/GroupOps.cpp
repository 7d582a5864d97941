//===- GroupOps.cpp - Groups and kernels ----------------------------------===//

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fusion;

YieldOp GroupOp::getYield() {
  return cast<YieldOp>(getBlock()->getTerminator());
}
YieldOp KernelOp::getYield() {
  return cast<YieldOp>(getBlock()->getTerminator());
}

static LogicalResult verifyBody(Operation *op, Block &block) {
  if (block.empty() || !isa<YieldOp>(block.back()))
    return op->emitOpError("expected a body that ends in fusion.yield");
  return success();
}

//===----------------------------------------------------------------------===//
// Group
//===----------------------------------------------------------------------===//

// `"kind" (%arg = %operand, ...) : (types) -> (types) attr-dict { body }`
ParseResult GroupOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr kind;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  if (parser.parseAttribute(kind))
    return failure();
  result.getOrAddProperties<Properties>().kind = kind;
  auto parseBinding = [&]() -> ParseResult {
    return failure(parser.parseArgument(arguments.emplace_back()) ||
                   parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()));
  };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren,
                                     parseBinding) ||
      parser.parseColonType(type))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("kernel"))) {
    KernelConfigAttr kernel;
    if (parser.parseAttribute(kernel))
      return failure();
    result.getOrAddProperties<Properties>().kernel = kernel;
  }
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.resolveOperands(operands, type.getInputs(), loc, result.operands))
    return failure();
  for (auto [argument, t] : llvm::zip(arguments, type.getInputs()))
    argument.type = t;
  result.addTypes(type.getResults());
  return parser.parseRegion(*result.addRegion(), arguments);
}

void GroupOp::print(OpAsmPrinter &p) {
  p << ' ' << getKindAttr() << " (";
  llvm::interleaveComma(
      llvm::zip(getBlock()->getArguments(), getInputs()), p, [&](auto pair) {
        p.printRegionArgument(std::get<0>(pair), {}, /*omitType=*/true);
        p << " = " << std::get<1>(pair);
      });
  p << ") : ";
  p.printFunctionalType(getInputs().getTypes(), getOutputs().getTypes());
  if (getKernelAttr())
    p << " kernel " << getKernelAttr();
  p.printOptionalAttrDictWithKeyword((*this)->getAttrs(),
                                     {getKindAttrName(), getKernelAttrName()});
  p << ' ';
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult GroupOp::verifyRegions() {
  Block &block = getBody().front();
  if (failed(verifyBody(*this, block)))
    return failure();
  if (TypeRange(block.getArgumentTypes()) != TypeRange(getInputs().getTypes()))
    return emitOpError("expected block arguments of the inputs' types");
  if (TypeRange(getYield().getValues().getTypes()) !=
      TypeRange(getOutputs().getTypes()))
    return emitOpError("expected fusion.yield of the outputs' types");
  return success();
}

//===----------------------------------------------------------------------===//
// Kernel
//===----------------------------------------------------------------------===//

// `@name config #attr sizes N (%arg: type, ...) attr-dict { body }`
ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto &properties = result.getOrAddProperties<Properties>();
  int64_t sizes;
  SmallVector<OpAsmParser::Argument> arguments;
  if (parser.parseSymbolName(properties.sym_name) ||
      parser.parseKeyword("config") ||
      parser.parseAttribute(properties.config) ||
      parser.parseKeyword("sizes") || parser.parseInteger(sizes) ||
      parser.parseArgumentList(arguments, AsmParser::Delimiter::Paren,
                               /*allowType=*/true, /*allowAttrs=*/true) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  properties.num_sizes = parser.getBuilder().getI64IntegerAttr(sizes);
  return parser.parseRegion(*result.addRegion(), arguments);
}

void KernelOp::print(OpAsmPrinter &p) {
  p << ' ';
  p.printSymbolName(getSymName());
  p << " config " << getConfigAttr() << " sizes " << getNumSizes() << " (";
  llvm::interleaveComma(getBlock()->getArguments(), p,
                        [&](BlockArgument a) { p.printRegionArgument(a); });
  p << ')';
  p.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(),
      {getSymNameAttrName(), getConfigAttrName(), getNumSizesAttrName()});
  p << ' ';
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

bool KernelOp::runsOn(StringRef device) {
  if ((*this)->hasAttr(FusionDialect::kCompileTimeAttr))
    return false;
  auto devices = (*this)->getAttrOfType<ArrayAttr>(FusionDialect::kDevicesAttr);
  return !devices ||
         llvm::is_contained(devices.getAsValueRange<StringAttr>(), device);
}

LogicalResult KernelOp::verifyRegions() {
  if (getNumSizes() < 0)
    return emitOpError("expected a number of sizes, found ") << getNumSizes();
  return verifyBody(*this, getBody().front());
}
