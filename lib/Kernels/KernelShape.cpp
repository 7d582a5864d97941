//===- KernelShape.cpp - What a kernel computes, and its sizes
//-------------===//

#include "fusion/Kernels/KernelShape.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

static SymExpr roundUp(const SymExpr &value, int64_t multiple) {
  auto blocks = SymExpr::floorDiv(value + SymExpr(multiple - 1), multiple);
  return *blocks * SymExpr(multiple);
}

static bool isNarrowOrF32(Type element) {
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() <= 32;
}

static bool dependsOn(Value value, Operation *op) {
  SmallVector<Value> open{value};
  llvm::SmallPtrSet<Operation *, 16> seen;
  while (!open.empty()) {
    Operation *at = open.pop_back_val().getDefiningOp();
    if (at == op)
      return true;
    if (at && seen.insert(at).second)
      llvm::append_range(open, at->getOperands());
  }
  return false;
}

/// All results that depend on one of `heroes` are views of values of the given
/// shape, and there is one. The others are computed on their own.
static bool yieldsOver(KernelOp kernel, const SymShape &space,
                       ArrayRef<Operation *> heroes) {
  bool any = false;
  for (Value v : kernel.getYield().getValues()) {
    if (getStridedOutput(v, space)) {
      any = true;
      continue;
    }
    if (llvm::any_of(heroes, [&](Operation *op) { return dependsOn(v, op); }))
      return false;
  }
  return any;
}

/// No axis runs backwards, which BLAS does not know.
static bool runsForward(const SymShape &strides) {
  return llvm::all_of(strides, [](const SymExpr &e) {
    return llvm::all_of(e.polynomial(),
                        [](const auto &term) { return term.second >= 0; });
  });
}

//===----------------------------------------------------------------------===//
// Matmul
//===----------------------------------------------------------------------===//

std::optional<int64_t> kernels::getContiguousAxis(Value value) {
  if (auto view = getStridedView(value)) {
    for (auto [axis, stride] : llvm::enumerate(view->strides))
      if (stride == SymExpr(1))
        return axis;
    return std::nullopt;
  }
  Operation *op = value.getDefiningOp();
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    auto axis = getContiguousAxis(transpose.getInput());
    if (!axis)
      return std::nullopt;
    return llvm::find(transpose.getPerm(), *axis) - transpose.getPerm().begin();
  }
  auto fusable = dyn_cast<FusableOpInterface>(op);
  if (!fusable || fusable.getOpClass() != OpClass::Elementwise ||
      op->getNumOperands() == 0 ||
      getSymShape(op->getOperand(0)) != getSymShape(value))
    return std::nullopt;
  return getContiguousAxis(op->getOperand(0));
}

/// An f32 matrix (last two axes) that BLAS reads where it lies.
static bool isPlain(Value value) {
  auto view = getStridedView(value);
  if (!view || !elementType(value).isF32() || !runsForward(view->strides))
    return false;
  SymShape shape = getSymShape(value);
  size_t rank = shape.size();
  auto unit = [&](size_t axis) {
    return view->strides[axis] == SymExpr(1) || shape[axis] == SymExpr(1);
  };
  // The other axis' stride has to be a row's, not a broadcast's.
  auto row = [&](size_t axis) {
    return view->strides[axis] != SymExpr(0) || shape[axis] == SymExpr(1);
  };
  return (unit(rank - 1) && row(rank - 2)) || (unit(rank - 2) && row(rank - 1));
}

static std::optional<HostLowBitWeight> getHostLowBitWeight(MatmulOp product) {
  Value w = product.getRhs();
  bool transposed = product.getTransposeRhs();
  while (auto transpose = w.getDefiningOp<TransposeOp>()) {
    if (transpose.getPerm().size() != 2)
      return std::nullopt;
    transposed = !transposed; // a transpose of rank 2 swaps (or is folded)
    w = transpose.getInput();
  }
  auto op = w.getDefiningOp<DequantizeOp>();
  if (!op || !transposed || op.getGroupIndex())
    return std::nullopt;
  auto codes = dyn_cast<BlockArgument>(op.getInput());
  auto type = cast<RankedTensorType>(op.getInput().getType());
  auto element = dyn_cast<IntegerType>(type.getElementType());
  if (!codes || type.getRank() != 2 || type.isDynamicDim(1) || !element ||
      hasStorage(type))
    return std::nullopt;
  unsigned bits = element.getWidth();
  int64_t block = op.getBlockSize(), k = type.getDimSize(1);
  bool fits = (bits == 4 || bits == 8) && block > 0 && block % 32 == 0 &&
              k % block == 0 && *normalizeAxis(op.getAxis(), 2) == 1;
  if (!fits)
    return std::nullopt;
  return HostLowBitWeight{op, codes, bits, block};
}

static int64_t chooseColumnTile(const MatmulShape &shape) {
  if (shape.isGemvOnly())
    return 64;
  auto n = shape.n.asConstant();
  if (!n || *n <= 0)
    return 128;
  // An even number of tiles of up to 256 columns, so that cores share them.
  int64_t tiles = 2 * std::max<int64_t>(1, (*n + 511) / 512);
  return std::max<int64_t>(16, ((*n + tiles - 1) / tiles + 15) / 16 * 16);
}

int64_t MatmulShape::rowTile() const {
  return std::min<int64_t>(
      kHostRowTile, std::max<int64_t>(maxRows.value_or(kHostRowTile), 1));
}

static void layOutScratch(KernelOp kernel, MatmulShape &shape) {
  int64_t rows = shape.rowTile();
  int64_t gemvRows = std::min(rows, kHostGemvRows);
  int64_t tile = gemvRows * kHostGemvColumns;
  if (!shape.isGemvOnly())
    tile = std::max(tile, rows * shape.columnTile);
  shape.resultStride = SymExpr(4 * tile);
  shape.lhsOffset =
      shape.resultStride * SymExpr(int64_t(shape.products.size()));
  SymExpr k = roundUp(shape.k, 16);
  bool tiledPanel = !shape.plainLhs && !shape.isGemvOnly();
  shape.sumsOffset =
      shape.lhsOffset + k * SymExpr(4 * (tiledPanel ? rows : gemvRows));
  SymExpr sums = shape.lowBit.empty() ? SymExpr(0) : k * SymExpr(gemvRows);
  shape.rhsOffset = shape.sumsOffset + roundUp(sums, 64);
  SymExpr panel = shape.plainRhs || shape.isGemvOnly()
                      ? SymExpr(0)
                      : k * SymExpr(4 * shape.columnTile);
  shape.rowsOffset = shape.rhsOffset + panel;
  shape.scratchBytes = shape.rowsOffset + getRowScratch(kernel, shape.k);
}

std::optional<ProductShape> kernels::getProductShape(KernelOp kernel) {
  ProductShape shape;
  for (Operation &op : *kernel.getBlock()) {
    if (auto product = dyn_cast<MatmulOp>(op))
      shape.products.push_back(product);
    else if (isa<AttentionOp, ScatterNdOp, ScatterElementsOp>(op))
      return std::nullopt;
  }
  if (shape.products.empty() || shape.products.size() > 2)
    return std::nullopt;
  MatmulOp first = shape.products.front();
  SymShape lhs = getSymShape(first.getLhs()), rhs = getSymShape(first.getRhs());
  if (lhs.size() < 2 || rhs.size() < 2)
    return std::nullopt;
  for (MatmulOp product : shape.products)
    if (product.getLhs() != first.getLhs() ||
        product.getTransposeLhs() != first.getTransposeLhs() ||
        getSymShape(product.getResult()) != getSymShape(first.getResult()) ||
        getSymShape(product.getRhs()).size() != rhs.size())
      return std::nullopt;
  shape.space = getSymShape(first.getResult());
  SmallVector<Operation *> heroes(shape.products.begin(), shape.products.end());
  if (!yieldsOver(kernel, shape.space, heroes))
    return std::nullopt;
  size_t rank = shape.space.size();
  shape.n = shape.space[rank - 1];
  shape.k = first.getContractedSize();
  shape.flat = !first.getTransposeLhs();
  for (MatmulOp product : shape.products) {
    SymShape weight = getSymShape(product.getRhs());
    shape.flat &=
        llvm::all_of(ArrayRef(weight).drop_back(2),
                     [](const SymExpr &e) { return e == SymExpr(1); });
  }
  SymExpr outer = numElements(ArrayRef(shape.space).drop_back(2));
  shape.m = shape.flat ? outer * shape.space[rank - 2] : shape.space[rank - 2];
  shape.batch = shape.flat ? SymExpr(1) : outer;
  return shape;
}

std::optional<MatmulShape> kernels::getMatmulShape(KernelOp kernel) {
  auto common = getProductShape(kernel);
  if (!common)
    return std::nullopt;
  MatmulShape shape{};
  static_cast<ProductShape &>(shape) = *common;
  MatmulOp first = shape.products.front();
  SymShape lhs = getSymShape(first.getLhs()), rhs = getSymShape(first.getRhs());
  for (MatmulOp product : shape.products)
    if (!isNarrowOrF32(elementType(product.getResult())) ||
        !isNarrowOrF32(elementType(product.getRhs())) ||
        !isNarrowOrF32(elementType(product.getLhs())))
      return std::nullopt;
  shape.maxRows = shape.m.asConstant();
  if (auto known = dyn_cast_or_null<IntegerAttr>(
          kernel.getConfig().getParams().get("max_rows")))
    shape.maxRows = std::min(known.getInt(), shape.maxRows.value_or(INT64_MAX));
  auto axis = getContiguousAxis(first.getRhs());
  shape.contiguousK =
      axis ? (*axis == int64_t(rhs.size()) - 1) == first.getTransposeRhs()
           : first.getTransposeRhs();
  shape.plainRhs = llvm::all_of(shape.products, [](MatmulOp product) {
    return isPlain(product.getRhs());
  });
  shape.plainLhs = isPlain(first.getLhs());
  if (shape.flat && shape.plainLhs) {
    // All rows need one distance between them.
    auto view = getStridedView(first.getLhs());
    shape.plainLhs =
        view->strides.back() == SymExpr(1) &&
        reshapeStrides(ArrayRef(lhs).drop_back(),
                       ArrayRef(view->strides).drop_back(), {shape.m});
  }
  if (shape.flat)
    for (MatmulOp product : shape.products)
      if (auto weight = getHostLowBitWeight(product))
        shape.lowBit.push_back(*weight);
  if (shape.lowBit.size() != shape.products.size() ||
      llvm::any_of(shape.lowBit, [&](const HostLowBitWeight &w) {
        return w.bits != shape.lowBit[0].bits ||
               w.block != shape.lowBit[0].block;
      }))
    shape.lowBit.clear();
  shape.columnTile = chooseColumnTile(shape);
  layOutScratch(kernel, shape);
  return shape;
}

//===----------------------------------------------------------------------===//
// Row reductions
//===----------------------------------------------------------------------===//

std::optional<std::pair<Value, SmallVector<int64_t>>>
kernels::getReduction(Operation *op) {
  using Axes = SmallVector<int64_t>;
  using Result = std::optional<std::pair<Value, Axes>>;
  auto rankOf = [](Value v) {
    return cast<RankedTensorType>(v.getType()).getRank();
  };
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<ReduceSumOp, ReduceMeanOp, ReduceMaxOp, ReduceMinOp, ReduceProdOp,
            ReduceAndOp, ReduceOrOp>([](auto o) -> Result {
        if (o.getAxes().empty())
          return std::nullopt;
        return std::pair(Value(o.getInput()), Axes(o.getAxes()));
      })
      .Case<SoftmaxOp, ArgMaxOp>([&](auto o) {
        Value in = o.getInput();
        return Result(
            std::pair(in, Axes{*normalizeAxis(o.getAxis(), rankOf(in))}));
      })
      .Case([&](RmsNormOp o) {
        Value in = o.getInput();
        return Result(std::pair(in, Axes{rankOf(in) - 1}));
      })
      .Case([&](LayerNormOp o) {
        Value in = o.getInput();
        Axes axes;
        for (int64_t k = *normalizeAxis(o.getAxis(), rankOf(in));
             k < rankOf(in); ++k)
          axes.push_back(k);
        return Result(std::pair(in, axes));
      })
      .Default([](Operation *) { return Result(); });
}

std::optional<RowShape> kernels::getRowShape(KernelOp kernel) {
  RowShape shape{};
  for (Operation &op : *kernel.getBlock()) {
    if (isa<MatmulOp, AttentionOp, ScatterNdOp, ScatterElementsOp, CumSumOp>(
            op))
      return std::nullopt;
    auto reduction = getReduction(&op);
    if (!reduction || shape.hero)
      continue;
    shape.hero = &op;
    shape.space = getSymShape(reduction->first);
    shape.axes = reduction->second;
  }
  if (!shape.hero)
    return std::nullopt;
  shape.rows = shape.columns = 1;
  for (size_t k = 0; k < shape.space.size(); ++k) {
    bool reduced = llvm::is_contained(shape.axes, int64_t(k));
    SymExpr &product = reduced ? shape.columns : shape.rows;
    product = product * shape.space[k];
    if (!reduced)
      shape.rowAxes.push_back(k);
  }
  return shape;
}

std::optional<RowShape>
kernels::getPrologueRowShape(KernelOp kernel, const MatmulShape &product) {
  MatmulOp first = product.products.front();
  if (first.getTransposeLhs())
    return std::nullopt;
  RowShape shape{};
  shape.space = getSymShape(first.getLhs());
  int64_t last = shape.space.size() - 1;
  shape.axes = {last};
  for (Operation &op : *kernel.getBlock()) {
    auto reduction = getReduction(&op);
    if (!reduction || getSymShape(reduction->first) != shape.space ||
        reduction->second != shape.axes)
      continue;
    // Only what comes before the product: after it, K may equal N.
    if (op.isBeforeInBlock(first)) {
      shape.hero = &op;
      break;
    }
  }
  if (!shape.hero)
    return std::nullopt;
  shape.rows = numElements(ArrayRef(shape.space).drop_back());
  shape.columns = shape.space.back();
  for (int64_t axis = 0; axis < last; ++axis)
    shape.rowAxes.push_back(axis);
  return shape;
}

SymExpr kernels::getRowScratch(KernelOp kernel, const SymExpr &columns) {
  // What a reduction reads and, for softmax, its terms; up to f64.
  int64_t buffers = 0;
  for (Operation &op : *kernel.getBlock())
    buffers += getReduction(&op) ? 2 : 0;
  return roundUp(columns, 16) * SymExpr(8 * buffers);
}

//===----------------------------------------------------------------------===//
// Attention, append
//===----------------------------------------------------------------------===//

/// Rows of contiguous f32 elements.
static bool hasPlainRows(Value value) {
  auto view = getStridedView(value);
  return view && elementType(value).isF32() && runsForward(view->strides) &&
         view->strides.back() == SymExpr(1) &&
         view->strides[view->strides.size() - 2] != SymExpr(0);
}

std::optional<AttentionShape> kernels::getAttentionShape(KernelOp kernel) {
  AttentionShape shape{};
  for (Operation &op : *kernel.getBlock()) {
    if (auto attention = dyn_cast<AttentionOp>(op)) {
      if (shape.op)
        return std::nullopt;
      shape.op = attention;
    } else if (isa<MatmulOp, ScatterNdOp, ScatterElementsOp>(op)) {
      return std::nullopt;
    }
  }
  if (!shape.op)
    return std::nullopt;
  SymShape q = getSymShape(shape.op.getQuery());
  SymShape k = getSymShape(shape.op.getKey());
  SymShape v = getSymShape(shape.op.getValue());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    return std::nullopt;
  auto d = q[3].asConstant(), dv = v[3].asConstant();
  bool narrow = isNarrowOrF32(elementType(shape.op.getQuery())) &&
                isNarrowOrF32(elementType(shape.op.getKey())) &&
                isNarrowOrF32(elementType(shape.op.getValue()));
  if (!d || !dv || !narrow ||
      !yieldsOver(kernel, getSymShape(shape.op.getResult()), {shape.op}))
    return std::nullopt;
  shape.batch = q[0];
  shape.heads = q[1];
  shape.s = q[2];
  shape.kvHeads = k[1];
  shape.t = k[2];
  shape.d = *d;
  shape.dv = *dv;
  shape.plainKey = hasPlainRows(shape.op.getKey());
  shape.plainValue = hasPlainRows(shape.op.getValue());
  return shape;
}

AttentionScratch kernels::getAttentionScratch(const AttentionShape &shape) {
  AttentionScratch s;
  auto rows = shape.s.asConstant();
  int64_t tile = rows ? std::min(std::max<int64_t>(*rows, 1), kHostQueryTile)
                      : kHostQueryTile;
  auto panel = [](const SymExpr &rows, int64_t width) {
    return roundUp(rows * SymExpr(4 * width), 64);
  };
  s.scoresStride = roundUp(shape.t, 16);
  s.query = 0;
  s.scores = s.query + panel(tile, shape.d);
  s.result = s.scores + s.scoresStride * SymExpr(4 * tile);
  s.key = s.result + panel(tile, shape.dv);
  s.value = s.key + (shape.plainKey ? SymExpr(0) : panel(shape.t, shape.d));
  s.total =
      s.value + (shape.plainValue ? SymExpr(0) : panel(shape.t, shape.dv));
  return s;
}

std::optional<AppendShape> kernels::getAppendShape(KernelOp kernel) {
  AppendShape shape;
  SymExpr rows = 0;
  for (Value v : kernel.getYield().getValues()) {
    auto op = v.getDefiningOp<KvAppendOp>();
    if (!op || !isa<BlockArgument>(op.getPast()))
      return std::nullopt;
    bool inPlace = hasStorage(op.getPast().getType());
    SymShape written = getSymShape(inPlace ? op.getUpdate() : op.getResult());
    if (written.size() < 2 || size_t(op.getAxis()) + 1 >= written.size())
      return std::nullopt;
    shape.ops.push_back(op);
    shape.inPlace.push_back(inPlace);
    rows = SymExpr::max(rows, numElements(ArrayRef(written).drop_back()));
  }
  if (shape.ops.empty())
    return std::nullopt;
  shape.rows = rows;
  return shape;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

HostTemplate kernels::getHostTemplate(KernelOp kernel) {
  bool reduces = false;
  for (Operation &op : *kernel.getBlock()) {
    if (isa<ScatterNdOp, ScatterElementsOp>(op))
      return HostTemplate::Sequential;
    if (isa<CumSumOp>(op) && kernel.getBlock()->getOperations().size() == 2)
      return HostTemplate::Sequential;
    reduces |= getReduction(&op).has_value();
  }
  if (getAppendShape(kernel))
    return HostTemplate::Append;
  if (getAttentionShape(kernel))
    return HostTemplate::Attention;
  if (getMatmulShape(kernel))
    return HostTemplate::Matmul;
  if (reduces && getRowShape(kernel))
    return HostTemplate::RowReduction;
  return HostTemplate::Pointwise;
}

SymExpr kernels::getPointwiseItems(const SymShape &shape) {
  if (shape.empty())
    return 1;
  SymExpr rows = numElements(ArrayRef(shape).drop_back());
  auto blocks =
      SymExpr::floorDiv(shape.back() + SymExpr(kHostColumns - 1), kHostColumns);
  return rows * *blocks;
}
