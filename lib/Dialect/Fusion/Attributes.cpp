//===- Attributes.cpp - Symbolic shape, weight reference, kernel ----------===//

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;

#define GET_ATTRDEF_CLASSES
#include "fusion/Dialect/Fusion/FusionAttributes.cpp.inc"

void FusionDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fusion/Dialect/Fusion/FusionAttributes.cpp.inc"
      >();
}

// `stored` is an element type, or the tensor type of the transposed matrix.
RankedTensorType WeightRefAttr::getFileType(Type tensor) const {
  auto type = cast<RankedTensorType>(tensor);
  if (auto transposed = dyn_cast_or_null<RankedTensorType>(getStored()))
    return transposed;
  return getStored() ? withElementType(type, getStored()) : type;
}

/// A name, a number, or an expression in quotes.
static FailureOr<StringAttr> parseDim(AsmParser &parser) {
  std::string text;
  int64_t number;
  StringRef keyword;
  OptionalParseResult integer = parser.parseOptionalInteger(number);
  if (integer.has_value()) {
    if (failed(*integer))
      return failure();
    text = std::to_string(number);
  } else if (succeeded(parser.parseOptionalKeyword(&keyword))) {
    text = keyword.str();
  } else if (failed(parser.parseString(&text))) {
    return failure();
  }
  auto expr = SymExpr::parse(text);
  if (!expr) {
    parser.emitError(parser.getCurrentLocation())
        << "expected a size expression, found '" << text << "'";
    return failure();
  }
  return StringAttr::get(parser.getContext(), expr->str());
}

static ParseResult parseDims(AsmParser &parser,
                             SmallVectorImpl<StringAttr> &dims) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                        [&]() -> ParseResult {
                                          auto dim = parseDim(parser);
                                          if (failed(dim))
                                            return failure();
                                          dims.push_back(*dim);
                                          return success();
                                        });
}

Attribute ShapeAttr::parse(AsmParser &parser, Type) {
  SmallVector<StringAttr> dims, storage;
  if (parser.parseLess() || parseDims(parser, dims))
    return {};
  if (succeeded(parser.parseOptionalComma()) &&
      (parser.parseKeyword("storage") || parser.parseEqual() ||
       parseDims(parser, storage)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ShapeAttr>(parser.getContext(), dims, storage);
}

static void printDims(AsmPrinter &printer, ArrayRef<StringAttr> dims) {
  printer << '[';
  llvm::interleaveComma(dims, printer, [&](StringAttr dim) {
    SymExpr expr = getExpr(dim);
    if (expr.isConstant() || (expr.asSymbol() && !dim.getValue().contains('.')))
      printer << dim.getValue();
    else
      printer << dim;
  });
  printer << ']';
}

void ShapeAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printDims(printer, getDims());
  if (!getStorage().empty()) {
    printer << ", storage = ";
    printDims(printer, getStorage());
  }
  printer << '>';
}

LogicalResult ShapeAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                ArrayRef<StringAttr> dims,
                                ArrayRef<StringAttr> storage) {
  if (!storage.empty() && storage.size() != dims.size())
    return emitError() << "expected " << dims.size()
                       << " storage dimensions, found " << storage.size();
  return success();
}
