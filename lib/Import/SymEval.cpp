//===- SymEval.cpp - Shape arithmetic over symbolic sizes -----------------===//
//
// Which operations are evaluated, and where their elements come from: `Probe`
// asks the interpreter, run on places of elements or on unit vectors.
//
//===----------------------------------------------------------------------===//

#include "SymEval.h"

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Eval/Eval.h"

#include "mlir/IR/Block.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::symeval;

bool SymElements::isConstant() const {
  return llvm::all_of(values,
                      [](const SymElement &e) { return e.isConstant(); });
}

/// Operands larger than a result may be: tables of constants.
static constexpr int64_t maxOperandElements = 1024;
/// Products of two unknown vectors take one probe for each pair of elements.
static constexpr size_t maxProbes = 4096;

namespace {

/// A copy of an operation on operands of our own.
class Probe {
public:
  explicit Probe(Operation *op) : copy(op->clone()) {
    for (OpOperand &operand : copy->getOpOperands())
      operand.set(block.addArgument(operand.get().getType(), op->getLoc()));
  }
  ~Probe() { copy->destroy(); }
  Probe(const Probe &) = delete;
  Probe &operator=(const Probe &) = delete;

  std::optional<eval::Tensor> run(ArrayRef<eval::Tensor> operands,
                                  std::string &why) {
    eval::Evaluator evaluator({}, maxOperandElements);
    for (auto [argument, tensor] : llvm::zip(block.getArguments(), operands))
      evaluator.bind(argument, tensor);
    auto result = evaluator.evaluate(copy->getResult(0));
    if (succeeded(result))
      return std::move(*result);
    why = evaluator.getError();
    return std::nullopt;
  }

private:
  Block block;
  Operation *copy;
};

using Operands = ArrayRef<const SymElements *>;

/// A tensor of operand `i` with element e from fn(e).
template <typename Fn>
eval::Tensor tensorOf(Operation *op, unsigned i, const SymElements &like,
                      Fn fn) {
  eval::Tensor tensor(elementType(op->getOperand(i)), like.dims);
  for (int64_t e = 0, n = tensor.size(); e < n; ++e)
    if (tensor.isFloat())
      tensor.floats[e] = fn(e);
    else
      tensor.ints[e] = static_cast<int64_t>(fn(e));
  return tensor;
}

/// The known values; those that are not constants as 1.
eval::Tensor constantsOf(Operation *op, unsigned i, const SymElements &known) {
  eval::Tensor tensor(elementType(op->getOperand(i)), known.dims);
  for (auto [e, value] : llvm::enumerate(known.values))
    if (value.real)
      tensor.set(e, *value.real);
    else
      tensor.setInt(e, value.num.asConstant().value_or(1));
  return tensor;
}

SymElement constantElement(const eval::Tensor &tensor, int64_t i) {
  SymElement element;
  if (tensor.isFloat())
    element.real = tensor.floats[i];
  else // INT64_MIN is no SymExpr; as a bound its neighbour means the same
    element.num = std::max(tensor.ints[i], INT64_MIN + 1);
  return element;
}

/// Whether operand `i` says where elements are, not what they are.
bool isIndex(Operation *op, unsigned i) {
  return i == 1 && isa<GatherOp, GatherElementsOp, GatherNdOp, ScatterNdOp,
                       ScatterElementsOp>(op);
}

bool movesData(Operation *op) {
  if (auto scatter = dyn_cast<ScatterNdOp>(op))
    return scatter.getReduction() == "none";
  if (auto scatter = dyn_cast<ScatterElementsOp>(op))
    return scatter.getReduction() == "none";
  return isa<ReshapeOp, TransposeOp, ExpandOp, SliceOp, ConcatOp, PadOp, TileOp,
             GatherOp, GatherElementsOp, GatherNdOp, TriluOp>(op);
}

std::optional<SymElements> move(Operation *op, Operands operands,
                                std::string &why) {
  std::vector<SymElement> table = {SymElement(SymExpr(0))}; // outside: zero
  SmallVector<eval::Tensor> places;
  for (auto [i, operand] : llvm::enumerate(operands)) {
    if (!isIndex(op, i)) {
      int64_t first = table.size();
      places.push_back(tensorOf(op, i, *operand,
                                [&](int64_t e) { return double(first + e); }));
      // Numbers of places, whatever the type of what lies there holds.
      places.back().element =
          places.back().isFloat()
              ? Type(Float64Type::get(op->getContext()))
              : Type(IntegerType::get(op->getContext(), 64));
      llvm::append_range(table, operand->values);
      continue;
    }
    if (!operand->isConstant()) {
      why = "expected constant indices in operand " + std::to_string(i);
      return std::nullopt;
    }
    places.push_back(constantsOf(op, i, *operand));
  }
  auto moved = Probe(op).run(places, why);
  if (!moved)
    return std::nullopt;
  SymElements result;
  result.dims = moved->shape;
  for (int64_t e = 0, n = moved->size(); e < n; ++e)
    result.values.push_back(table[moved->getInt(e)]);
  return result;
}

/// Broadcasts places, so that arithmetic sees elements only.
int64_t placeIn(const SymElements &t, ArrayRef<int64_t> dims, int64_t index) {
  int64_t place = 0, stride = 1;
  size_t skip = dims.size() - t.dims.size();
  for (size_t i = dims.size(); i-- > skip;) {
    int64_t coordinate = index % dims[i], size = t.dims[i - skip];
    index /= dims[i];
    place += (size == 1 ? 0 : coordinate) * stride;
    stride *= size;
  }
  return place;
}

std::optional<SymElements> mapElements(Operation *op, Operands operands,
                                       ArrayRef<int64_t> dims, Scalars &scalars,
                                       std::string &why) {
  // Constant elements have the interpreter's values, with its roundings.
  SmallVector<eval::Tensor> constants;
  for (auto [i, operand] : llvm::enumerate(operands))
    constants.push_back(constantsOf(op, i, *operand));
  auto known = Probe(op).run(constants, why);
  if (!known)
    return std::nullopt;
  SymElements result;
  result.dims = dims.vec();
  for (int64_t e = 0, n = known->size(); e < n; ++e) {
    SmallVector<SymElement> inputs;
    for (const SymElements *operand : operands)
      inputs.push_back(operand->values[placeIn(*operand, dims, e)]);
    if (llvm::all_of(inputs, [](auto &x) { return x.isConstant(); })) {
      result.values.push_back(constantElement(*known, e));
      continue;
    }
    auto value = scalars.apply(op, inputs);
    if (!value)
      return std::nullopt;
    result.values.push_back(*value);
  }
  return result;
}

/// Reductions: one operand's element at a time is set apart from all others,
/// which shows the results that it enters.
std::optional<SymElements> reduce(Operation *op, const SymElements &in,
                                  Scalars &scalars, std::string &why) {
  bool isLow = isa<ReduceProdOp, ReduceMinOp, ReduceAndOp>(op);
  Probe probe(op);
  std::optional<SymElements> result;
  std::vector<std::optional<SymElement>> sums;
  int64_t each = 0;
  for (int64_t e = 0, n = in.values.size(); e < n; ++e) {
    auto marked = probe.run(
        {tensorOf(op, 0, in,
                  [&](int64_t i) { return double((i == e) != isLow); })},
        why);
    if (!marked)
      return std::nullopt;
    sums.resize(marked->size());
    each = n / std::max<int64_t>(marked->size(), 1);
    for (int64_t i = 0; i < marked->size(); ++i) {
      if ((marked->get(i) != 0) == isLow)
        continue;
      auto &sum = sums[i];
      const SymElement &next = in.values[e];
      if (!sum)
        sum = next;
      else if (isa<ReduceSumOp, ReduceMeanOp>(op))
        sum = scalars.add(*sum, next);
      else if (isa<ReduceProdOp, ReduceAndOp>(op))
        sum = scalars.mul(*sum, next);
      else if (isa<ReduceMinOp>(op))
        sum = scalars.minimum(*sum, next);
      else
        sum = scalars.maximum(*sum, next);
      if (!sum)
        return std::nullopt;
    }
    result.emplace();
    result->dims = marked->shape;
  }
  for (auto &sum : sums) {
    if (isa<ReduceMeanOp>(op))
      sum = scalars.div(*sum, SymElement(each),
                        isa<FloatType>(elementType(op->getOperand(0))));
    if (!sum)
      return std::nullopt;
    result->values.push_back(*sum);
  }
  return result;
}

/// Cumulative sums and products of matrices: results are sums of products of
/// one element of each operand, with coefficients that unit vectors show.
std::optional<SymElements> combine(Operation *op, Operands operands,
                                   ArrayRef<int64_t> dims, Scalars &scalars,
                                   std::string &why) {
  SmallVector<size_t> counts;
  size_t probes = 1;
  for (const SymElements *operand : operands) {
    counts.push_back(operand->values.size());
    probes *= counts.back();
  }
  if (probes > maxProbes) {
    why = "expected fewer elements";
    return std::nullopt;
  }
  Probe probe(op);
  SymElements result;
  result.dims = dims.vec();
  int64_t size = 1;
  for (int64_t d : dims)
    size *= d;
  result.values.assign(size, SymElement(SymExpr(0)));
  for (size_t p = 0; p < probes; ++p) {
    SmallVector<eval::Tensor> units;
    std::optional<SymElement> product = SymElement(1);
    size_t rest = p;
    for (auto [i, operand] : llvm::enumerate(operands)) {
      auto at = static_cast<int64_t>(rest % counts[i]);
      rest /= counts[i];
      units.push_back(tensorOf(op, i, *operand,
                               [&](int64_t e) { return double(e == at); }));
      product = scalars.mul(*product, operand->values[at]);
      if (!product)
        return std::nullopt;
    }
    auto terms = probe.run(units, why);
    if (!terms)
      return std::nullopt;
    for (int64_t e = 0; e < size; ++e)
      if (terms->get(e) != 0) {
        auto sum = scalars.add(result.values[e], *product);
        if (!sum)
          return std::nullopt;
        result.values[e] = *sum;
      }
  }
  return result;
}

} // namespace

const SymElements *SymEval::find(Value value) {
  auto it = known.find(value);
  if (it == known.end()) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<ConstantOp, ShapeValueOp>(op))
      return nullptr;
    visit(op);
    it = known.find(value);
    if (it == known.end())
      return nullptr;
  }
  for (SymElement &e : it->second.values) {
    e.num = symbols.resolve(e.num);
    e.den = symbols.resolve(e.den);
  }
  return &it->second;
}

void SymEval::stop(const Twine &reason) {
  if (why.empty())
    why = reason.str();
}

/// Constants, shapes, and ranges that start or step by a size.
static std::optional<SymElements> leaf(Operation *op, RankedTensorType type) {
  SymElements result;
  result.dims = type.getShape().vec();
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!dense)
      return std::nullopt;
    eval::Tensor tensor = eval::Tensor::fromAttr(dense);
    for (int64_t i = 0, n = tensor.size(); i < n; ++i)
      result.values.push_back(constantElement(tensor, i));
    return result;
  }
  if (auto shape = dyn_cast<ShapeValueOp>(op)) {
    for (const SymExpr &e : getExprs(shape.getValues()))
      result.values.push_back(e);
    return result;
  }
  auto iota = cast<IotaOp>(op);
  SymExpr start = getExpr(iota.getStartAttr()),
          step = getExpr(iota.getStepAttr());
  for (int64_t i = 0, n = type.getNumElements(); i < n; ++i)
    result.values.push_back(start + SymExpr(i) * step);
  return result;
}

/// Whether some operand has elements that are sizes.
bool SymEval::readsSizes(Operation *op) {
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    if (operand.getDefiningOp<ConstantOp>())
      return false; // weights too: their elements are not looked at
    const SymElements *elements = find(operand);
    return elements && !elements->isConstant();
  });
}

/// Sizes of tensors are far below these; arithmetic that squares a size again
/// and again would double the text of its result at each node.
static constexpr size_t mostFactors = 128, mostTerms = 128, mostSpelled = 1024;

/// What is too large about a size; empty when nothing is.
static std::string whyTooLarge(const SymExpr &size) {
  if (size.polynomial().size() > mostTerms)
    return "a polynomial of " + std::to_string(size.polynomial().size()) +
           " terms, expected at most " + std::to_string(mostTerms);
  size_t spelled = 0;
  for (const auto &[monomial, coefficient] : size.polynomial()) {
    if (monomial.size() > mostFactors)
      return "a polynomial of degree " + std::to_string(monomial.size()) +
             ", expected at most " + std::to_string(mostFactors);
    for (const std::string &factor : monomial)
      spelled += factor.size();
  }
  if (spelled > mostSpelled)
    return "an expression of " + std::to_string(spelled) +
           " characters, expected at most " + std::to_string(mostSpelled);
  return "";
}

std::optional<SymElements> SymEval::evaluate(Operation *op) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (isa<ConstantOp, ShapeValueOp, IotaOp>(op))
    return leaf(op, type);
  SmallVector<const SymElements *> operands;
  for (Value operand : op->getOperands()) {
    if (!find(operand)) {
      if (readsSizes(op))
        stop("it meets data that is known at run time only");
      return std::nullopt;
    }
  }
  // Only now: the table moves while it is filled.
  bool isConstant = true;
  for (Value operand : op->getOperands()) {
    operands.push_back(find(operand));
    isConstant &= operands.back()->isConstant();
  }
  std::string reason;
  Scalars scalars(symbols, reason);
  std::optional<SymElements> result;
  if (isConstant) {
    SmallVector<eval::Tensor> constants;
    for (auto [i, operand] : llvm::enumerate(operands))
      constants.push_back(constantsOf(op, i, *operand));
    if (auto tensor = Probe(op).run(constants, reason)) {
      result.emplace();
      result->dims = tensor->shape;
      for (int64_t i = 0, n = tensor->size(); i < n; ++i)
        result->values.push_back(constantElement(*tensor, i));
    }
  } else if (movesData(op)) {
    result = move(op, operands, reason);
  } else if (isa<ReduceSumOp, ReduceMeanOp, ReduceProdOp, ReduceMinOp,
                 ReduceMaxOp, ReduceAndOp, ReduceOrOp>(op)) {
    result = reduce(op, *operands[0], scalars, reason);
  } else if (isa<CumSumOp, MatmulOp>(op)) {
    result = combine(op, operands, type.getShape(), scalars, reason);
  } else if (cast<FusableOpInterface>(op).getOpClass() ==
             OpClass::Elementwise) {
    result = mapElements(op, operands, type.getShape(), scalars, reason);
  } else {
    reason = "the operation has no form over sizes";
  }
  if (!result)
    stop(reason.empty() ? "the operation has no form over sizes" : reason);
  return result;
}

void SymEval::visit(Operation *op) {
  if (op->getNumResults() != 1)
    return;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  bool isLeaf = isa<ConstantOp, ShapeValueOp>(op);
  if (!type || !type.hasStaticShape() ||
      type.getNumElements() > (isLeaf ? maxOperandElements : maxSymElements)) {
    if (readsSizes(op))
      stop("expected a result of at most " + Twine(maxSymElements) +
           " elements, found " +
           numElements(getSymShape(op->getResult(0))).str());
    return;
  }
  auto result = evaluate(op);
  if (!result)
    return;
  bool isFloat = isa<FloatType>(type.getElementType());
  for (SymElement &e : result->values) {
    if (e.num.overflowed() || e.den.overflowed())
      return stop("a value overflows 64 bits");
    for (const SymExpr &part : {e.num, e.den})
      if (std::string large = whyTooLarge(part); !large.empty())
        return stop("a size is " + large);
    auto num = e.num.asConstant(), den = e.den.asConstant();
    if (!isFloat || e.real || !num || !den)
      continue;
    eval::Tensor rounded(type.getElementType(), {});
    rounded.set(0, double(*num) / double(*den));
    e = constantElement(rounded, 0);
  }
  known[op->getResult(0)] = std::move(*result);
}
