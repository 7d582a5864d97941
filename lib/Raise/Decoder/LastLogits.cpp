//===- LastLogits.cpp - Logits of the last token alone --------------------===//
//
// Greedy generation reads the logits of a run's last token. The output's last
// row is cut out, and the cut moves up: through what computes each row by
// itself (casts, soft caps) and the head's product, which then has one row.
//
//===----------------------------------------------------------------------===//

#include "fusion/Dialect/Fusion/FusionOps.h"
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
  Cutter(func::FuncOp main, SymExpr rows)
      : rows(std::move(rows)),
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
    b.setInsertionPointAfterValue(value);
    SymShape starts(getSymShape(value).size(), SymExpr(0));
    starts[starts.size() - 2] = rows - SymExpr(1);
    return SliceOp::create(
        b, loc, oneRow(value), value, getExprsAttr(b.getContext(), starts),
        b.getDenseI64ArrayAttr(SmallVector<int64_t>(starts.size(), 1)));
  }

  SymExpr rows;
  Location loc;
  llvm::DenseMap<Value, Value> done;
};

struct LastLogitsPass final : fusion::impl::LastLogitsBase<LastLogitsPass> {
  using LastLogitsBase::LastLogitsBase;

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || failed(cutLogits(main)))
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
      returnOp->setOperand(i, Cutter(main, shape[shape.size() - 2]).cut(value));
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
