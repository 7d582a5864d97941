//===- LaunchOps.cpp - Text and checks of plan.launch ---------------------===//

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Dialect/Plan/PlanOps.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::plan;
using artifact::CacheHint;
using artifact::Invariance;

static LogicalResult setFlag(StringRef word, int32_t &hint,
                             int32_t &invariance) {
  if (word == "evict_first")
    hint = static_cast<int32_t>(CacheHint::EvictFirst);
  else if (word == "evict_last")
    hint = static_cast<int32_t>(CacheHint::EvictLast);
  else if (word == "invariant")
    invariance = static_cast<int32_t>(Invariance::All);
  else if (word == "older_invariant")
    invariance = static_cast<int32_t>(Invariance::OlderRows);
  else
    return failure();
  return success();
}

/// `%b {evict_first, invariant}`
static ParseResult
parseArgument(OpAsmParser &parser,
              SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands,
              SmallVectorImpl<int32_t> &hints,
              SmallVectorImpl<int32_t> &invariance) {
  if (parser.parseOperand(operands.emplace_back()))
    return failure();
  int32_t &hint = hints.emplace_back(0);
  int32_t &invariant = invariance.emplace_back(0);
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::OptionalBraces, [&]() -> ParseResult {
        StringRef word;
        SMLoc loc = parser.getCurrentLocation();
        if (parser.parseKeyword(&word))
          return failure();
        if (failed(setFlag(word, hint, invariant)))
          return parser.emitError(loc, "unknown flag '") << word << "'";
        return success();
      });
}

static ParseResult
parseLaunchArgs(OpAsmParser &parser,
                SmallVectorImpl<OpAsmParser::UnresolvedOperand> &inputs,
                SmallVectorImpl<OpAsmParser::UnresolvedOperand> &outputs,
                DenseI32ArrayAttr &hints, DenseI32ArrayAttr &invariance) {
  SmallVector<int32_t> hintValues, invariantValues;
  auto list = [&](auto &operands) {
    return parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&] {
      return parseArgument(parser, operands, hintValues, invariantValues);
    });
  };
  if (list(inputs) || parser.parseKeyword("to") || list(outputs))
    return failure();
  hints = DenseI32ArrayAttr::get(parser.getContext(), hintValues);
  invariance = DenseI32ArrayAttr::get(parser.getContext(), invariantValues);
  return success();
}

static void printArgument(OpAsmPrinter &p, LaunchOp op, unsigned index) {
  p << op->getOperand(index);
  SmallVector<StringRef> flags;
  if (op.getHint(index) == CacheHint::EvictFirst)
    flags.push_back("evict_first");
  if (op.getHint(index) == CacheHint::EvictLast)
    flags.push_back("evict_last");
  if (op.getInvariant(index) == Invariance::All)
    flags.push_back("invariant");
  if (op.getInvariant(index) == Invariance::OlderRows)
    flags.push_back("older_invariant");
  if (flags.empty())
    return;
  p << " {";
  llvm::interleaveComma(flags, p);
  p << '}';
}

static void printLaunchArgs(OpAsmPrinter &p, LaunchOp op, OperandRange inputs,
                            OperandRange outputs, DenseI32ArrayAttr,
                            DenseI32ArrayAttr) {
  p << '(';
  llvm::interleaveComma(llvm::seq<unsigned>(0, inputs.size()), p,
                        [&](unsigned i) { printArgument(p, op, i); });
  p << ") to (";
  llvm::interleaveComma(
      llvm::seq<unsigned>(0, outputs.size()), p,
      [&](unsigned i) { printArgument(p, op, inputs.size() + i); });
  p << ')';
}

LogicalResult LaunchOp::verify() {
  size_t buffers = getNumOperands();
  if (getHints().size() != buffers || getInvariance().size() != buffers)
    return emitOpError("expected one hint and one invariance for each of ")
           << buffers << " buffers";
  auto check = [&](StringRef what, StringRef text) -> LogicalResult {
    if (SymExpr::parse(std::string_view(text.data(), text.size())))
      return success();
    return emitOpError("expected a size expression as ")
           << what << ", found '" << text << "'";
  };
  for (auto size : getSizes().getAsRange<StringAttr>())
    if (failed(check("size", size.getValue())))
      return failure();
  if (failed(check("grid", getGrid())) || failed(check("grain", getGrain())))
    return failure();
  return check("scratch", getScratch());
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel =
      symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError("no kernel ") << getKernelAttr();
  size_t inputs = kernel.getBlock()->getNumArguments();
  size_t outputs = kernel.getYield().getValues().size();
  if (getInputs().size() != inputs || getOutputs().size() != outputs)
    return emitOpError("expected ")
           << inputs << " inputs and " << outputs << " outputs for "
           << getKernelAttr() << ", found " << getInputs().size() << " and "
           << getOutputs().size();
  if (static_cast<int64_t>(getSizes().size()) != kernel.getNumSizes())
    return emitOpError("expected ")
           << kernel.getNumSizes() << " sizes for " << getKernelAttr()
           << ", found " << getSizes().size();
  return success();
}

void PlanDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "fusion/Dialect/Plan/PlanOps.cpp.inc"
      >();
}

#define GET_OP_CLASSES
#include "fusion/Dialect/Plan/PlanOps.cpp.inc"
