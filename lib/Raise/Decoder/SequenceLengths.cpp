//===- SequenceLengths.cpp - A cached length for each sequence ------------===//
//
// Sequences of a batch that are not equally long: the session gives the cached
// length of each as a tensor. Appends write each sequence's rows behind its
// own, masks and positions follow from the lengths, and the cached length of
// the batch, the largest of them, only bounds sizes.
//
//===----------------------------------------------------------------------===//

#include "SessionInputs.h"

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Dialect/Fusion/MainFunction.h"
#include "fusion/Raise/Decoder/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace fusion;

namespace fusion {
#define GEN_PASS_DEF_SEQUENCELENGTHS
#include "fusion/Raise/Decoder/Passes.h.inc"
} // namespace fusion

namespace {

/// Values made from the lengths [batch], at the head of the function.
class LengthBuilder {
public:
  LengthBuilder(func::FuncOp main, Value lengths, SymExpr rows)
      : b(OpBuilder::atBlockBegin(&main.front())), loc(lengths.getLoc()),
        lengths(lengths), rows(std::move(rows)) {}

  /// Cached and new tokens. [batch]
  Value total() {
    if (!theTotal) {
      Type i32 = elementType(lengths);
      Value count = ShapeValueOp::create(b, loc, RankedTensorType::get({}, i32),
                                         getExprsAttr(b.getContext(), {rows}));
      theTotal = AddOp::create(b, loc, lengths, count);
    }
    return theTotal;
  }
  /// What a padding mask of the type says: 1 where a key is a token.
  Value mask(RankedTensorType type) {
    Value seen =
        LessOp::create(b, loc, line(getSymShape(type)[1]), column(total()));
    return cast(seen, type);
  }
  Value positions(RankedTensorType type) {
    return cast(AddOp::create(b, loc, column(lengths), line(rows)), type);
  }

private:
  Value cast(Value value, RankedTensorType type) {
    if (elementType(value) == type.getElementType())
      return value;
    return CastOp::create(b, loc, type, value, /*no_saturate=*/false);
  }
  Value reshape(Value value, SymShape shape) {
    return ReshapeOp::create(b, loc, getTensorType(shape, elementType(value)),
                             value);
  }
  Value column(Value value) {
    return reshape(value, {getSymShape(value)[0], SymExpr(1)});
  }
  Value line(const SymExpr &count) {
    auto type = getTensorType({count}, elementType(lengths));
    Value steps = IotaOp::create(b, loc, type, b.getStringAttr("0"),
                                 b.getStringAttr("1"));
    return reshape(steps, {SymExpr(1), count});
  }

  OpBuilder b;
  Location loc;
  Value lengths, theTotal;
  SymExpr rows;
};

struct SequenceLengthsPass final
    : fusion::impl::SequenceLengthsBase<SequenceLengthsPass> {
  using SequenceLengthsBase::SequenceLengthsBase;

  void runOnOperation() override {
    auto main = getMain(getOperation());
    if (failed(main))
      return signalPassFailure();
    auto cached =
        getOperation()->getAttrOfType<StringAttr>("fusion.cached_length");
    if (!cached)
      getOperation().emitError("expected the attribute fusion.cached_length, "
                               "which fusion-bind-decoder-inputs sets");
    if (!cached || failed(apply(*main, cached.getValue())))
      return signalPassFailure();
  }

  LogicalResult apply(func::FuncOp main, StringRef cached) {
    BlockArgument ids = findRole(main, "token_ids");
    auto sequences = countSequences(main);
    if (failed(sequences))
      return failure();
    int64_t batch = *sequences;
    mask = findRole(main, "attention_mask");
    Value lengths = addSequenceInput(main, "cached_lengths", batch);
    LengthBuilder make(main, lengths, getSymShape(ids)[1]);
    main.walk([&](AttentionOp op) { convert(op, cached, lengths, make); });
    main.walk([&](KvAppendOp op) {
      if (isa<BlockArgument>(op.getPast()) && !op.getLengths())
        op.getLengthsMutable().assign(lengths);
    });
    if (failed(replaceInputs(main, batch, make)))
      return failure();
    return checkRest(main, cached);
  }

  /// Whether `value` is the padding mask itself.
  bool isMask(Value value) const {
    while (auto cast = value.getDefiningOp<CastOp>())
      value = cast.getInput();
    return mask && value == mask;
  }

  /// Queries of each sequence stand behind its own keys.
  void convert(AttentionOp op, StringRef cached, Value lengths,
               LengthBuilder &make) {
    bool appends = false;
    if (auto append = op.getKey().getDefiningOp<KvAppendOp>())
      appends = isa<BlockArgument>(append.getPast());
    bool placed =
        op.getCausal() || op.getWindowLeft() >= 0 || op.getWindowRight() >= 0;
    if (placed && !op.getOffsets() && op.getCausalOffset() == cached) {
      op.getOffsetsMutable().assign(lengths);
      op.setCausalOffset("0");
    }
    // A causal query sees nothing behind its sequence's end.
    if (op.getCausal() && op.getKeyMask() && isMask(op.getKeyMask()))
      op.getKeyMaskMutable().clear();
    if (appends && !op.getCausal() && !op.getKeyMask() && !op.getValidLengths())
      op.getValidLengthsMutable().assign(make.total());
  }

  LogicalResult replaceInputs(func::FuncOp main, int64_t batch,
                              LengthBuilder &make) {
    llvm::BitVector dead(main.getNumArguments());
    for (StringRef role : {"attention_mask", "position_ids"}) {
      BlockArgument argument = findRole(main, role);
      if (!argument)
        continue;
      auto type = cast<RankedTensorType>(argument.getType());
      if (type.getRank() != 2 || type.getDimSize(0) != batch)
        return main.emitError() << "--kv-lengths=own: input "
                                << main.getArgAttr(argument.getArgNumber(),
                                                   FusionDialect::kNameAttr)
                                << ": expected " << batch
                                << " sequences along axis 0, found " << type;
      argument.replaceAllUsesWith(
          role == "attention_mask" ? make.mask(type) : make.positions(type));
      dead.set(argument.getArgNumber());
    }
    return main.eraseArguments(dead);
  }

  /// The cached length of the batch must not be data any more.
  LogicalResult checkRest(func::FuncOp main, StringRef cached) {
    SmallVector<Operation *> ops;
    main.walk<WalkOrder::PostOrder>([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : llvm::reverse(ops)) {
      if (isOpTriviallyDead(op)) {
        op->erase();
        continue;
      }
      SmallVector<SymExpr> read;
      if (auto iota = dyn_cast<IotaOp>(op))
        read = {getExpr(iota.getStartAttr()), getExpr(iota.getStepAttr())};
      else if (auto sizes = dyn_cast<ShapeValueOp>(op))
        read = llvm::to_vector(getExprs(sizes.getValues()));
      else if (auto slice = dyn_cast<SliceOp>(op))
        read = llvm::to_vector(getExprs(slice.getStarts()));
      else if (auto attention = dyn_cast<AttentionOp>(op))
        read = {getExpr(attention.getCausalOffsetAttr())};
      for (const SymExpr &e : read)
        if (e.symbols().count(cached.str()))
          return op->emitError()
                 << "--kv-lengths=own: this node computes with " << e.str()
                 << ", and each sequence has a cached length of its own; use "
                    "--kv-lengths=shared, or a model that takes positions and "
                    "a padding mask as inputs";
    }
    return success();
  }

  Value mask;
};
} // namespace
