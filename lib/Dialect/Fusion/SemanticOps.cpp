//===- SemanticOps.cpp - Matmul, norms, rope, attention, dequantize -------===//

#include "fusion/Dialect/Fusion/FusionOps.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace fusion;

//===----------------------------------------------------------------------===//
// Matmul
//===----------------------------------------------------------------------===//

/// The last two dimensions, swapped when `transposed`; vectors get a 1.
static std::pair<SymExpr, SymExpr> matrixDims(const SymShape &shape, bool isLhs,
                                              bool transposed) {
  if (shape.size() == 1)
    return isLhs ? std::make_pair(SymExpr(1), shape[0])
                 : std::make_pair(shape[0], SymExpr(1));
  SymExpr rows = shape[shape.size() - 2], columns = shape.back();
  return transposed ? std::make_pair(columns, rows)
                    : std::make_pair(rows, columns);
}

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *context,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  SymShape lhs = getSymShape(adaptor.getLhs());
  SymShape rhs = getSymShape(adaptor.getRhs());
  if (lhs.empty() || rhs.empty())
    return emitOptionalError(loc, "expected operands of rank 1 or more");
  auto [m, k] = matrixDims(lhs, true, adaptor.getTransposeLhs());
  auto [k2, n] = matrixDims(rhs, false, adaptor.getTransposeRhs());
  if (k.isConstant() && k2.isConstant() && k != k2)
    return emitOptionalError(loc, "contracted sizes differ: ", k.str(), " and ",
                             k2.str());
  auto batch = [](const SymShape &s) {
    return s.size() <= 2 ? ArrayRef<SymExpr>() : ArrayRef(s).drop_back(2);
  };
  auto shape = broadcastShapes(batch(lhs), batch(rhs));
  if (!shape)
    return emitOptionalError(loc, "batch dimensions do not broadcast");
  if (lhs.size() > 1)
    shape->push_back(m);
  if (rhs.size() > 1)
    shape->push_back(n);
  Type element = elementType(adaptor.getLhs());
  if (element.isIntOrIndex() && element.getIntOrFloatBitWidth() < 32)
    element = IntegerType::get(context, 32);
  types.push_back(getTensorType(*shape, element));
  return success();
}

SymExpr MatmulOp::getContractedSize() {
  return matrixDims(getSymShape(getLhs()), true, getTransposeLhs()).second;
}

double MatmulOp::getFlopsPerElement() {
  // A symbolic K stands for a typical context.
  return 2.0 * getContractedSize().asConstant().value_or(1024);
}

namespace {
/// A transpose of the last two axes is an attribute of the product:
/// matmul(x, transpose(w)) -> matmul(x, w) {transpose_rhs}
struct AbsorbTranspose final : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  static bool swapsLastTwo(TransposeOp op) {
    auto perm = op.getPerm();
    int64_t rank = perm.size();
    if (rank < 2 || perm[rank - 1] != rank - 2 || perm[rank - 2] != rank - 1)
      return false;
    for (int64_t i = 0; i < rank - 2; ++i)
      if (perm[i] != i)
        return false;
    return true;
  }

  LogicalResult matchAndRewrite(MatmulOp op,
                                PatternRewriter &rewriter) const override {
    auto lhs = op.getLhs().getDefiningOp<TransposeOp>();
    auto rhs = op.getRhs().getDefiningOp<TransposeOp>();
    bool takeLhs =
        lhs && swapsLastTwo(lhs) && getSymShape(op.getLhs()).size() > 1;
    bool takeRhs =
        rhs && swapsLastTwo(rhs) && getSymShape(op.getRhs()).size() > 1;
    if (!takeLhs && !takeRhs)
      return rewriter.notifyMatchFailure(
          op, "no operand is a transpose of the last two axes");
    auto merged = MatmulOp::create(rewriter, op.getLoc(), op.getType(),
                                   takeLhs ? lhs.getInput() : op.getLhs(),
                                   takeRhs ? rhs.getInput() : op.getRhs(),
                                   op.getTransposeLhs() != takeLhs,
                                   op.getTransposeRhs() != takeRhs);
    merged->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    rewriter.replaceOp(op, merged);
    return success();
  }
};
} // namespace

void MatmulOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<AbsorbTranspose>(context);
}

//===----------------------------------------------------------------------===//
// Dequantize
//===----------------------------------------------------------------------===//

static LogicalResult verifyBlocks(DequantizeOp op, const SymShape &input,
                                  const SymShape &scale) {
  int64_t block = op.getBlockSize(), axis = op.getAxis();
  if (block < 1)
    return op.emitOpError("expected a block_size of 1 or more, found ")
           << block;
  for (auto [i, size] : llvm::enumerate(input)) {
    auto have = scale[i].asConstant(), full = size.asConstant();
    if (!have || !full)
      continue;
    int64_t want =
        static_cast<int64_t>(i) == axis ? (*full + block - 1) / block : *full;
    // A group index may name any block.
    if (*have != want && !(op.getGroupIndex() && axis == (int64_t)i))
      return op.emitOpError("expected ")
             << want << " scales along axis " << i << ", found " << *have;
  }
  return success();
}

LogicalResult DequantizeOp::verify() {
  SymShape input = getSymShape(getInput()), scale = getSymShape(getScale());
  if (!compatibleShapes(input, getSymShape(getType())))
    return emitOpError("expected the shape of the input");
  if (!isa<FloatType>(elementType(getType())) ||
      !isa<FloatType>(elementType(getScale())))
    return emitOpError("expected floating-point scale and result");
  int64_t rank = input.size(), axis = getAxis();
  if (rank > 0 && (axis < 0 || axis >= rank))
    return emitOpError("axis ") << axis << " is out of range for rank " << rank;
  if (getZeroPoint() && !compatibleShapes(getSymShape(getZeroPoint()), scale))
    return emitOpError("expected a zero point of the scale's shape, found ")
           << getZeroPoint().getType();
  bool perTensor = numElements(scale) == SymExpr(1);
  if (perTensor && getBlockSize() == 0)
    return success();
  if (getBlockSize() == 0) {
    if (scale.size() != 1 ||
        !compatibleShapes(scale, ArrayRef(&input[axis], 1)))
      return emitOpError("expected one scale for each element of axis ")
             << axis << ", found " << getScale().getType();
    return success();
  }
  if (scale.size() != input.size())
    return emitOpError("expected scales of the input's rank, found ")
           << getScale().getType();
  return verifyBlocks(*this, input, scale);
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

LogicalResult RmsNormOp::verify() {
  SymShape input = getSymShape(getInput());
  if (input.empty())
    return emitOpError("expected an input of rank 1 or more");
  if (!compatibleShapes(input, getSymShape(getType())))
    return emitOpError("expected the shape of the input, found ") << getType();
  if (!getWeight())
    return success();
  auto shape = broadcastShapes(input, getSymShape(getWeight()));
  if (!shape || !compatibleShapes(*shape, input))
    return emitOpError("weight ")
           << getWeight().getType() << " does not broadcast over the input";
  return success();
}

LogicalResult LayerNormOp::verify() {
  SymShape input = getSymShape(getInput());
  if (!normalizeAxis(getAxis(), input.size()))
    return emitOpError("axis ")
           << getAxis() << " is out of range for rank " << input.size();
  if (!compatibleShapes(input, getSymShape(getType())))
    return emitOpError("expected the shape of the input, found ") << getType();
  for (Value v : {Value(getWeight()), Value(getBias())}) {
    if (!v)
      continue;
    auto shape = broadcastShapes(input, getSymShape(v));
    if (!shape || !compatibleShapes(*shape, input))
      return emitOpError() << v.getType()
                           << " does not broadcast over the input";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Rope, append, attention
//===----------------------------------------------------------------------===//

LogicalResult RopeOp::inferReturnTypes(MLIRContext *, std::optional<Location>,
                                       Adaptor adaptor,
                                       SmallVectorImpl<Type> &types) {
  types.push_back(logicalType(adaptor.getInput().getType()));
  return success();
}

LogicalResult RopeOp::verify() {
  SymShape input = getSymShape(getInput());
  if (input.empty())
    return emitOpError("expected an input of rank 1 or more");
  auto width = input.back().asConstant();
  if (!width)
    return emitOpError("expected a constant head size");
  int64_t rotary = getRotaryDim() ? getRotaryDim() : *width;
  if (rotary < 2 || rotary % 2 || rotary > *width)
    return emitOpError("expected an even rotary_dim up to ")
           << *width << ", found " << rotary;
  for (Value table : {getCos(), getSin()}) {
    SymShape shape = getSymShape(table);
    auto columns = shape.empty() ? std::nullopt : shape.back().asConstant();
    if (!columns || (*columns != rotary && *columns != rotary / 2))
      return emitOpError("expected tables of width ")
             << rotary / 2 << " or " << rotary << ", found " << table.getType();
    auto outer = broadcastShapes(ArrayRef(input).drop_back(),
                                 ArrayRef(shape).drop_back());
    if (!outer || !compatibleShapes(*outer, ArrayRef(input).drop_back()))
      return emitOpError() << table.getType()
                           << " does not broadcast over the input";
  }
  return success();
}

/// `numbers`, where given, are integers, one a sequence of the batch.
static LogicalResult checkPerSequence(Operation *op, Value numbers,
                                      const SymShape &operand, StringRef what) {
  if (!numbers)
    return success();
  SymShape shape = getSymShape(numbers);
  if (!elementType(numbers).isInteger(32) &&
      !elementType(numbers).isInteger(64))
    return op->emitOpError("expected ")
           << what << " of type i32 or i64, found " << numbers.getType();
  if (shape.size() != 1 || !compatibleShapes(shape, operand.front()))
    return op->emitOpError("expected ")
           << what << " [" << operand.front().str() << "], one a sequence, "
           << "found " << numbers.getType();
  return success();
}

LogicalResult KvAppendOp::inferReturnTypes(MLIRContext *,
                                           std::optional<Location> loc,
                                           Adaptor adaptor,
                                           SmallVectorImpl<Type> &types) {
  SymShape past = getSymShape(adaptor.getPast());
  SymShape update = getSymShape(adaptor.getUpdate());
  int64_t axis = adaptor.getAxis();
  if (past.size() != update.size() || axis < 0 ||
      axis >= static_cast<int64_t>(past.size()))
    return emitOptionalError(
        loc, "expected past and update of equal rank, and an axis below it");
  if (!adaptor.getInBuffer())
    past[axis] = past[axis] + update[axis];
  Type element = elementType(adaptor.getPast());
  if (hasStorage(adaptor.getPast().getType()))
    types.push_back(getTensorType(
        past, getStorageShape(adaptor.getPast().getType()), element));
  else
    types.push_back(getTensorType(past, element));
  return success();
}

LogicalResult KvAppendOp::verify() {
  if (elementType(getPast()) != elementType(getUpdate()))
    return emitOpError("expected past and update of one element type");
  if (getInBuffer() && !getLengths())
    return emitOpError("expected lengths with in_buffer");
  if (getLengths() && getAxis() == 0)
    return emitOpError("expected an axis behind the batch, found axis 0");
  return checkPerSequence(*this, getLengths(), getSymShape(getPast()),
                          "lengths");
}

LogicalResult AttentionOp::verify() {
  SymShape q = getSymShape(getQuery()), k = getSymShape(getKey()),
           v = getSymShape(getValue()), out = getSymShape(getType());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || out.size() != 4)
    return emitOpError("expected operands of rank 4: batch, heads, rows, size");
  auto heads = q[1].asConstant(), kvHeads = k[1].asConstant();
  if (!heads || !kvHeads || *kvHeads == 0 || *heads % *kvHeads)
    return emitOpError("expected a multiple of ")
           << k[1].str() << " query heads, found " << q[1].str();
  SymExpr expected[] = {q[0], q[1], q[2], v[3]};
  if (!compatibleShapes(out, expected))
    return emitOpError("expected a result [batch, heads, rows, value size], "
                       "found ")
           << getType();
  if (!compatibleShapes(ArrayRef(q).take_back(1), ArrayRef(k).take_back(1)))
    return emitOpError("query and key differ in head size");
  if (!llvm::is_contained({"zero", "nan", "uniform"}, getMaskedRows()))
    return emitOpError("unknown masked_rows '") << getMaskedRows() << "'";
  StringRef offset = getCausalOffset();
  if (!SymExpr::parse(std::string_view(offset.data(), offset.size())))
    return emitOpError("expected a size expression as causal_offset, found '")
           << offset << "'";
  if (getOffsets() && offset != "0")
    return emitOpError("expected causal_offset 0 beside offsets, found '")
           << offset << "'";
  if (getOffsets() && !getCausal() && getWindowLeft() < 0 &&
      getWindowRight() < 0)
    return emitOpError("expected offsets with causal or a window alone");
  if (failed(checkPerSequence(*this, getOffsets(), q, "offsets")))
    return failure();
  return checkPerSequence(*this, getValidLengths(), q, "valid_lengths");
}

SmallVector<int64_t> LayerNormOp::getReducedAxes() {
  int64_t rank = getSymShape(getInput()).size();
  SmallVector<int64_t> axes;
  for (int64_t i = normalizeAxis(getAxis(), rank).value_or(rank - 1); i < rank;
       ++i)
    axes.push_back(i);
  return axes;
}

double AttentionOp::getFlopsPerElement() {
  // Two products over the keys; a symbolic number of keys stands for a typical
  // context.
  SymShape key = getSymShape(getKey());
  return 4.0 * key[key.size() - 2].asConstant().value_or(1024);
}
