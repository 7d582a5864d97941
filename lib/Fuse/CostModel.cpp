//===- CostModel.cpp - Predicted time of a group --------------------------===//

#include "CostModel.h"
#include "Buckets.h"

#include "fusion/Dialect/Fusion/Symbols.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using namespace fusion::fuse;
using target::Arithmetic;

/// Elementwise code reaches this part of the fp32 peak: exponentials and
/// conversions are no fused multiply-adds.
static constexpr double elementwiseShare = 0.25;
/// The part of the shorter of arithmetic and transfers that is not hidden.
static constexpr double imperfectOverlap = 0.1;

/// Whether the function has products, and all of them and all attentions are of
/// one row.
static bool hasOnlyRows(func::FuncOp func) {
  bool any = false, rows = true;
  func.walk([&](MatmulOp product) {
    SymShape lhs = getSymShape(product.getLhs());
    any = true;
    rows &= !product.getTransposeLhs() && !lhs.empty() &&
            numElements(ArrayRef(lhs).drop_back()) == SymExpr(1);
  });
  func.walk([&](AttentionOp attention) {
    SymShape query = getSymShape(attention.getQuery());
    rows &= query.size() == 4 && query[0] * query[2] == SymExpr(1);
  });
  return any && rows;
}

/// The card streams weights past a row that it computes itself.
static Abilities getAbilitiesOf(const target::DeviceDescription &device,
                                func::FuncOp func) {
  auto bucket = func->getAttrOfType<DictionaryAttr>(FusionDialect::kBucketAttr);
  auto max = bucket ? bucket.getAs<IntegerAttr>("max") : IntegerAttr();
  Abilities abilities;
  abilities.foldsRow =
      !device.isHost() && (max ? max.getInt() == 1 : hasOnlyRows(func));
  return abilities;
}

CostModel::CostModel(const target::DeviceDescription &device, func::FuncOp func,
                     const std::map<std::string, int64_t> &sizes)
    : device(device), abilities(getAbilitiesOf(device, func)),
      values(likelySizes(func)) {
  for (const auto &[name, value] : sizes)
    values[name] = value;
}

double CostModel::evaluate(const SymExpr &expr) const {
  auto value = expr.evaluate([&](std::string_view name) {
    auto it = values.find(std::string(name));
    return std::optional<int64_t>(it == values.end() ? 1 : it->second);
  });
  return value ? static_cast<double>(*value) : 1;
}

double CostModel::elements(Type type) {
  auto [it, inserted] = elementCounts.try_emplace(type, 0);
  if (inserted)
    it->second = std::max(0.0, evaluate(numElements(type)));
  return it->second;
}

double CostModel::bytes(Type type) {
  return std::ceil(elements(type) * elementBits(elementType(type)) / 8.0);
}

//===----------------------------------------------------------------------===//
// Evaluations
//===----------------------------------------------------------------------===//

/// How often an op is evaluated where elements are pulled: once for each
/// distinct way in which its element's place follows from the output's.
struct CostModel::Evaluations {
  using Places = llvm::SmallDenseSet<llvm::hash_code, 2>;
  llvm::DenseMap<Operation *, Places> places;
  double space = 0;    ///< elements of the largest output
  bool pulled = false; ///< whether this kernel pulls elements

  static constexpr unsigned most = 16;

  static bool keepsPlace(Operation *op, unsigned operand) {
    auto fusable = dyn_cast<FusableOpInterface>(op);
    if (!fusable || fusable.getOpClass() != OpClass::Elementwise)
      return false;
    std::optional<AffineMap> map = fusable.getOperandMap(operand);
    return map && map->isIdentity();
  }

  explicit Evaluations(const Candidate &c) {
    for (Value output : c.outputs())
      places[output.getDefiningOp()].insert(llvm::hash_code(0));
    for (Operation *op : llvm::reverse(c.ops())) {
      Places mine = places[op];
      for (OpOperand &operand : op->getOpOperands()) {
        Operation *def = operand.get().getDefiningOp();
        if (!def || !c.contains(def))
          continue;
        Places &theirs = places[def];
        unsigned index = operand.getOperandNumber();
        for (llvm::hash_code place : mine)
          if (theirs.size() < most)
            theirs.insert(keepsPlace(op, index)
                              ? place
                              : llvm::hash_combine(place, op, index));
      }
    }
  }

  double times(Operation *op) const { return places.lookup(op).size() * space; }
  /// The part of the op's `own` elements that is ever asked for.
  double share(Operation *op, double own) const {
    return pulled && own > 0 ? std::min(1.0, times(op) / own) : 1;
  }
};

/// The candidate's uses of a value, found from the shorter list: a tensor that
/// the whole model reads has as many uses as the model has ops.
static SmallVector<OpOperand *> usesIn(const Candidate &c, Value value) {
  SmallVector<OpOperand *> uses;
  if (!llvm::hasNItemsOrMore(value.getUses(), c.ops().size())) {
    for (OpOperand &use : value.getUses())
      if (c.contains(use.getOwner()))
        uses.push_back(&use);
    return uses;
  }
  for (Operation *op : llvm::reverse(c.ops()))
    for (OpOperand &use : op->getOpOperands())
      if (use.get() == value)
        uses.push_back(&use);
  return uses;
}

double CostModel::bytesRead(Value input, const Candidate &c,
                            const Evaluations &evaluations) {
  double most = bytes(input.getType()), read = 0;
  for (OpOperand *use : usesIn(c, input)) {
    Operation *user = use->getOwner();
    OpClass kind = classOf(user);
    bool data = use->getOperandNumber() == 0;
    double wanted = elements(user->getResult(0).getType());
    // What a gather picks or a view leaves out is not read.
    if (data && (kind == OpClass::Gather || kind == OpClass::View))
      read += wanted * elementBits(elementType(input)) / 8.0;
    else if (kind == OpClass::Append && data && hasStorage(input.getType()))
      // A cache that is session state stays where it is; who reads the
      // result reads all of it.
      read += llvm::any_of(user->getUsers(),
                           [&](Operation *u) { return c.contains(u); })
                  ? most
                  : 0;
    else if (kind == OpClass::Elementwise)
      read += most * evaluations.share(user, wanted);
    else
      read += most;
  }
  return std::min(most, read);
}

double CostModel::bytesWritten(Value output) {
  Operation *def = output.getDefiningOp();
  if (classOf(def) == OpClass::Append && hasStorage(output.getType()))
    return bytes(def->getOperand(1).getType());
  return bytes(output.getType());
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

static Arithmetic arithmeticOf(Operation *hero) {
  OpClass kind = classOf(hero);
  if (kind != OpClass::Contraction && kind != OpClass::Attention)
    return Arithmetic::Vector32;
  Type element = elementType(hero->getOperand(0));
  if (element.getIntOrFloatBitWidth() <= 8)
    return Arithmetic::Tensor8;
  return element.getIntOrFloatBitWidth() <= 16 ? Arithmetic::Tensor16
                                               : Arithmetic::Vector32;
}

/// The ops whose values wait for a reduction: a row reduction makes them once
/// for each row.
static llvm::DenseSet<Operation *> needReduction(const Candidate &c) {
  llvm::DenseSet<Operation *> waiting;
  for (Operation *op : c.ops()) {
    OpClass kind = classOf(op);
    if (kind == OpClass::Reduction || kind == OpClass::RowReduction ||
        llvm::any_of(op->getOperands(), [&](Value operand) {
          return waiting.contains(operand.getDefiningOp());
        }))
      waiting.insert(op);
  }
  return waiting;
}

void CostModel::addArithmetic(const Candidate &c,
                              const Evaluations &evaluations, Cost &cost) {
  llvm::DenseSet<Operation *> waiting = needReduction(c);
  for (Operation *op : c.ops()) {
    auto fusable = dyn_cast<FusableOpInterface>(op);
    if (!fusable || fusable.isFree())
      continue;
    double own = elements(op->getResult(0).getType());
    // Reductions read all of their operand.
    if (fusable.getOpClass() == OpClass::Reduction)
      own = elements(op->getOperand(0).getType());
    double each = fusable.getFlopsPerElement();
    bool counted = evaluations.pulled && !waiting.contains(op);
    double times = counted ? evaluations.times(op) : own;
    cost.flops += each * std::min(own, times);
    cost.repeatedFlops += each * std::max(0.0, times - own);
    if (Arithmetic a = arithmeticOf(op); a != Arithmetic::Vector32)
      cost.arithmetic = a;
  }
}

static bool isProduct(Operation *op) {
  OpClass kind = classOf(op);
  return kind == OpClass::Contraction || kind == OpClass::Attention;
}

Cost CostModel::cost(const Candidate &c) {
  Cost cost;
  if (c.ops().empty())
    return cost;
  cost.launches = 1;
  Evaluations evaluations(c);
  for (Value output : c.outputs())
    evaluations.space = std::max(evaluations.space, elements(output.getType()));
  Form form = classify(c, abilities);
  evaluations.pulled = form.ok() && (form.family == Family::Pointwise ||
                                     form.family == Family::RowReduction);
  addArithmetic(c, evaluations, cost);
  for (Operation *op : c.ops())
    cost.mostPlaces = std::max<unsigned>(cost.mostPlaces,
                                         evaluations.places.lookup(op).size());
  double transfer = 0;
  for (Value input : c.inputs()) {
    bool weight = isConstant(input.getDefiningOp());
    double read = bytesRead(input, c, evaluations);
    (weight ? cost.streamedBytes : cost.residentBytes) += read;
    transfer += device.transferSeconds(read, weight);
  }
  for (Value output : c.outputs()) {
    double written = bytesWritten(output);
    cost.residentBytes += written;
    transfer += device.transferSeconds(written, false);
  }
  double peak = device.flops(cost.arithmetic);
  if (llvm::none_of(c.ops(), isProduct))
    peak *= elementwiseShare;
  double compute = (cost.flops + cost.repeatedFlops) / peak;
  cost.seconds = device.launchSeconds.value + std::max(compute, transfer) +
                 imperfectOverlap * std::min(compute, transfer);
  return cost;
}

Cost CostModel::cost(Operation *op) {
  if (isAlias(op) || isConstant(op))
    return Cost();
  auto [it, inserted] = singles.try_emplace(op);
  if (inserted) {
    Operation *ops[] = {op};
    it->second = cost(Candidate(ops));
  }
  return it->second;
}
