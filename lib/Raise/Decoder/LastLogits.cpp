//===- LastLogits.cpp - Logits of the last token alone --------------------===//
//
// Greedy generation reads the logits of a run's last token. The output's last
// row is cut out, and the cut moves up: through what computes each row by
// itself (casts, soft caps) and the head's product, which then has one row. Of
// sequences with lengths of their own, the row is each one's last.
//
//===----------------------------------------------------------------------===//

#include "SessionInputs.h"

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Dialect/Fusion/MainFunction.h"
#include "fusion/Raise/Decoder/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fusion;

namespace fusion {
#define GEN_PASS_DEF_LASTLOGITS
#include "fusion/Raise/Decoder/Passes.h.inc"
} // namespace fusion

namespace {
/// Cuts the last row out of tensors [..., rows, columns].
class Cutter {
public:
  /// `lasts` [batch, 1, 1]: each sequence's row, or null for the last row of
  /// all.
  Cutter(func::FuncOp main, SymExpr rows, Value lasts)
      : rows(std::move(rows)), lasts(lasts),
        loc(NameLoc::get(StringAttr::get(main.getContext(), "last_row"))) {}

  Value cut(Value value) {
    auto [it, inserted] = done.try_emplace(value);
    if (inserted) {
      Value result = cutNew(value);
      done[value] = result;
      return result;
    }
    return it->second;
  }

private:
  bool hasRows(Value value) const {
    SymShape shape = getSymShape(value);
    return shape.size() >= 2 && shape[shape.size() - 2] == rows;
  }
  RankedTensorType oneRow(Value value) const {
    SymShape shape = getSymShape(value);
    shape[shape.size() - 2] = 1;
    return getTensorType(shape, elementType(value));
  }

  /// Whether row i of the result needs row i of the operands alone.
  bool worksByRow(Operation *op) const {
    if (auto matmul = dyn_cast<MatmulOp>(op))
      return hasRows(matmul.getLhs()) && !matmul.getTransposeLhs() &&
             getSymShape(matmul.getRhs()).size() == 2;
    auto fusable = dyn_cast<FusableOpInterface>(op);
    if (!fusable || fusable.getOpClass() != OpClass::Elementwise ||
        isa<DequantizeOp>(op))
      return false;
    size_t rank = getSymShape(op->getResult(0)).size();
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      SymShape shape = getSymShape(operand);
      return shape.size() < 2 || shape[shape.size() - 2] == SymExpr(1) ||
             (shape.size() == rank && hasRows(operand));
    });
  }

  Value cutNew(Value value) {
    Operation *op = value.getDefiningOp();
    if (op && op->getNumResults() == 1 && op->hasOneUse() && worksByRow(op)) {
      for (OpOperand &operand : op->getOpOperands()) {
        bool product = isa<MatmulOp>(op) && operand.getOperandNumber() == 1;
        if (!product && hasRows(operand.get()))
          operand.set(cut(operand.get()));
      }
      value.setType(oneRow(value));
      return value;
    }
    OpBuilder b(value.getContext());
    // The rows are computed at the head of the function, behind its arguments.
    b.setInsertionPointAfterValue(lasts && !op ? lasts : value);
    if (lasts)
      return GatherNdOp::create(b, loc, oneRow(value), value, lasts,
                                /*batch_dims=*/1);
    SymShape starts(getSymShape(value).size(), SymExpr(0));
    starts[starts.size() - 2] = rows - SymExpr(1);
    return SliceOp::create(
        b, loc, oneRow(value), value, getExprsAttr(b.getContext(), starts),
        b.getDenseI64ArrayAttr(SmallVector<int64_t>(starts.size(), 1)));
  }

  SymExpr rows;
  Value lasts;
  Location loc;
  llvm::DenseMap<Value, Value> done;
};

/// Rows [batch, 1, 1] of each sequence's last token; of a sequence that rests,
/// whose row nobody reads, row 0.
Value makeLastRows(func::FuncOp main, int64_t batch) {
  Value counts = addSequenceInput(main, "token_counts", batch);
  OpBuilder b = OpBuilder::atBlockBegin(&main.front());
  Location loc = counts.getLoc();
  Type i32 = elementType(counts);
  auto number = [&](int64_t value) -> Value {
    return ShapeValueOp::create(b, loc, RankedTensorType::get({}, i32),
                                getExprsAttr(b.getContext(), {SymExpr(value)}));
  };
  Value row = SubOp::create(b, loc, counts, number(1));
  row = MaxOp::create(b, loc, row, number(0));
  return ReshapeOp::create(b, loc, RankedTensorType::get({batch, 1, 1}, i32),
                           row);
}

struct LastLogitsPass final : fusion::impl::LastLogitsBase<LastLogitsPass> {
  using LastLogitsBase::LastLogitsBase;

  void runOnOperation() override {
    auto main = getMain(getOperation());
    if (failed(main) || failed(cutLogits(*main)))
      return signalPassFailure();
  }

  LogicalResult cutLogits(func::FuncOp main) {
    auto returnOp = cast<func::ReturnOp>(main.front().getTerminator());
    for (auto [i, value] : llvm::enumerate(returnOp.getOperands())) {
      auto role =
          main.getResultAttrOfType<StringAttr>(i, FusionDialect::kRoleAttr);
      if (!role || role.getValue() != "logits")
        continue;
      SymShape shape = getSymShape(value);
      if (shape.size() < 2)
        return main.emitError()
               << "--logits=last: expected logits [..., tokens, vocabulary], "
                  "found type "
               << value.getType();
      Value lasts;
      if (ownLengths) {
        auto batch = countSequences(main);
        if (failed(batch))
          return failure();
        if (shape.size() != 3 || shape[0] != SymExpr(*batch))
          return main.emitError()
                 << "--kv-lengths=own: expected logits [" << *batch
                 << ", tokens, vocabulary], found type " << value.getType();
        lasts = makeLastRows(main, *batch);
      }
      Cutter cutter(main, shape[shape.size() - 2], lasts);
      returnOp->setOperand(i, cutter.cut(value));
      main.setFunctionType(FunctionType::get(&getContext(),
                                             main.front().getArgumentTypes(),
                                             returnOp.getOperandTypes()));
      return success();
    }
    return main.emitError() << "--logits=last found no output of logits; name "
                               "one with --role logits=NAME";
  }
};
} // namespace
