//===- DecoderInputs.cpp - Mask and positions computed in the model -------===//

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Dialect/Fusion/MainFunction.h"
#include "fusion/Dialect/Fusion/Symbols.h"
#include "fusion/Raise/Decoder/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fusion;

namespace fusion {
#define GEN_PASS_DEF_BINDDECODERINPUTS
#include "fusion/Raise/Decoder/Passes.h.inc"
} // namespace fusion

static StringRef roleOf(func::FuncOp main, unsigned i) {
  auto role = main.getArgAttrOfType<StringAttr>(i, FusionDialect::kRoleAttr);
  return role ? role.getValue() : StringRef();
}

static std::optional<unsigned> findRole(func::FuncOp main, StringRef role) {
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (roleOf(main, i) == role)
      return i;
  return std::nullopt;
}

/// A tensor of ones: all cached and new tokens are attended to.
static Value makeOnes(OpBuilder &b, Location loc, RankedTensorType type) {
  Type element = type.getElementType();
  auto scalar = RankedTensorType::get({}, element);
  Attribute one = isa<FloatType>(element)
                      ? Attribute(b.getFloatAttr(element, 1.0))
                      : Attribute(b.getIntegerAttr(element, 1));
  Value c = ConstantOp::create(b, loc, DenseElementsAttr::get(scalar, one));
  return ExpandOp::create(b, loc, type, c);
}

/// Positions past, past + 1, ... along the last axis.
static Value makePositions(OpBuilder &b, Location loc, RankedTensorType type,
                           const SymExpr &past) {
  SymShape shape = getSymShape(type);
  auto row = getTensorType(ArrayRef(shape).take_back(1), type.getElementType());
  Value p = IotaOp::create(b, loc, row, getExprAttr(b.getContext(), past),
                           b.getStringAttr("1"));
  return shape.size() == 1 ? p : ExpandOp::create(b, loc, type, p).getResult();
}

namespace {
struct BindDecoderInputsPass final
    : fusion::impl::BindDecoderInputsBase<BindDecoderInputsPass> {
  using BindDecoderInputsBase::BindDecoderInputsBase;

  void runOnOperation() override {
    auto main = getMain(getOperation());
    if (failed(main) || failed(bind(*main)))
      return signalPassFailure();
  }

  LogicalResult bind(func::FuncOp main) {
    auto ids = findRole(main, "token_ids");
    auto past = findRole(main, "past_key");
    if (!ids || !past)
      return main.emitError()
             << "--kv-cache=state needs token ids and cached keys and values "
                "among the inputs, found no "
             << (ids ? "cached key" : "token ids")
             << "; name one with --role ROLE=NAME or use --kv-cache=expose";
    fixBatch(main, *ids);
    auto length = cachedLength(main, *past);
    if (failed(length))
      return failure();
    getOperation()->setAttr("fusion.cached_length",
                            StringAttr::get(&getContext(), *length));
    if (!ownLengths)
      replaceInputs(main, SymExpr::symbol(*length));
    return success();
  }

  void fixBatch(func::FuncOp main, unsigned ids) {
    SymShape shape = getSymShape(main.getArgument(ids));
    auto symbol = shape.size() < 2 ? std::nullopt : shape[0].asSymbol();
    if (symbol)
      substituteSymbols(getOperation(), {{*symbol, SymExpr(batch.getValue())}});
  }

  /// The symbol of the cached length: the free dimension of a past input.
  FailureOr<std::string> cachedLength(func::FuncOp main, unsigned past) {
    for (const SymExpr &e : getSymShape(main.getArgument(past)))
      if (auto symbol = e.asSymbol())
        return *symbol;
    return main.emitError()
           << "input " << main.getArgAttr(past, FusionDialect::kNameAttr)
           << ": expected a cached length that is a free symbol, found type "
           << main.getArgument(past).getType()
           << "; export it with a dynamic axis or use --kv-cache=expose";
  }

  void replaceInputs(func::FuncOp main, const SymExpr &past) {
    OpBuilder b = OpBuilder::atBlockBegin(&main.front());
    llvm::BitVector dead(main.getNumArguments());
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      BlockArgument argument = main.getArgument(i);
      auto type = cast<RankedTensorType>(argument.getType());
      StringRef role = roleOf(main, i);
      if (role != "attention_mask" && role != "position_ids")
        continue;
      Location loc = argument.getLoc();
      argument.replaceAllUsesWith(role == "attention_mask"
                                      ? makeOnes(b, loc, type)
                                      : makePositions(b, loc, type, past));
      dead.set(i);
    }
    (void)main.eraseArguments(dead);
  }
};
} // namespace
