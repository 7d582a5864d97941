//===- Families.cpp - What one kernel can execute -------------------------===//

#include "Families.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::fuse;

/// More ops make a kernel slow to compile and short of registers.
static constexpr size_t maxOps = 96;
static constexpr size_t maxInputs = 32;

StringRef fuse::stringify(Family family) {
  switch (family) {
  case Family::Pointwise:
    return "pointwise";
  case Family::RowReduction:
    return "row_reduction";
  case Family::Matmul:
    return "matmul";
  case Family::Attention:
    return "attention";
  case Family::Append:
    return "append";
  case Family::Sequential:
    return "sequential";
  }
  return "";
}

static Form refuse(StringRef code, const Twine &why) {
  Form form;
  form.refusal = Refusal{code, why.str()};
  return form;
}

static std::string quote(Operation *op) {
  return (op->getName().stripDialect() + " at '" + nodeName(op->getLoc()) + "'")
      .str();
}

//===----------------------------------------------------------------------===//
// Pointwise
//===----------------------------------------------------------------------===//

static Form classifyPointwise(const Candidate &c) {
  Type space;
  for (Value output : c.outputs()) {
    if (space && space != spaceOf(output))
      return refuse("ITERATION_SPACE",
                    "outputs lie over different iteration spaces, at " +
                        quote(output.getDefiningOp()));
    space = spaceOf(output);
  }
  return Form{Family::Pointwise};
}

//===----------------------------------------------------------------------===//
// Row reduction
//===----------------------------------------------------------------------===//

namespace {
/// A tensor's rows: all axes before the last `trailing` ones.
struct Rows {
  Type space;
  int64_t trailing = 0;
  bool operator==(const Rows &other) const {
    return space == other.space && trailing == other.trailing;
  }
};
} // namespace

/// The rows that a reduction goes over; nullopt when the reduced axes are not
/// the last ones.
static std::optional<Rows> rowsOf(Operation *op) {
  SmallVector<int64_t> axes = cast<FusableOpInterface>(op).getReducedAxes();
  int64_t rank = getSymShape(op->getOperand(0)).size();
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis != rank - static_cast<int64_t>(axes.size() - i))
      return std::nullopt;
  return Rows{spaceOf(op->getOperand(0)), static_cast<int64_t>(axes.size())};
}

/// Whether `value` has an element for each element of the rows, one for each
/// row, or fewer (it is broadcast).
static bool liesOverRows(Value value, const Rows &rows) {
  SymShape full = getSymShape(rows.space), shape = getSymShape(value);
  SymShape dropped(full.begin(), full.end() - rows.trailing);
  if (ArrayRef<SymExpr>(shape) == ArrayRef<SymExpr>(dropped))
    return true;
  auto together = broadcastShapes(full, shape);
  return together && ArrayRef<SymExpr>(*together) == ArrayRef<SymExpr>(full);
}

static bool isRowOutput(Value value, const Rows &rows) {
  SymShape full = getSymShape(rows.space), shape = getSymShape(value);
  SymShape kept = full, dropped(full.begin(), full.end() - rows.trailing);
  std::fill(kept.end() - rows.trailing, kept.end(), SymExpr(1));
  return shape == full || shape == kept || shape == dropped;
}

/// The candidate's ops that need a hero's result.
static llvm::DenseSet<Operation *> dependents(const Candidate &c,
                                              ArrayRef<Operation *> heroes) {
  llvm::DenseSet<Operation *> behind;
  for (Operation *op : c.ops())
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (def && c.contains(def) &&
          (behind.contains(def) || llvm::is_contained(heroes, def)))
        behind.insert(op);
    }
  return behind;
}

/// Whether the op reads a value's elements from anywhere: it gathers, views, or
/// takes them as the scales or zero points of blocks.
static bool picksFrom(Operation *user, Operation *op) {
  OpClass kind = classOf(user);
  if (kind == OpClass::Gather || kind == OpClass::View)
    return true;
  return isa<DequantizeOp>(user) && user->getOperand(0).getDefiningOp() != op;
}

/// Ops whose results are read so, by ops of the candidate only: they may lie
/// over any space.
static llvm::DenseSet<Operation *> pickedFrom(const Candidate &c) {
  llvm::DenseSet<Operation *> picked;
  for (Operation *op : llvm::reverse(c.ops())) {
    bool all = llvm::all_of(op->getUsers(), [&](Operation *user) {
      return c.contains(user) && (picksFrom(user, op) || picked.contains(user));
    });
    if (all)
      picked.insert(op);
  }
  return picked;
}

static Form classifyRows(const Candidate &c, ArrayRef<Operation *> heroes) {
  Form form{Family::RowReduction, heroes.front()};
  if (c.ops().size() == 1)
    return form;
  std::optional<Rows> rows = rowsOf(heroes.front());
  if (!rows)
    return refuse("AXIS_NOT_LAST", "reduced axes are not the last ones, at " +
                                       quote(heroes.front()));
  for (Operation *hero : heroes.drop_front()) {
    auto other = rowsOf(hero);
    if (!other || !(*other == *rows))
      return refuse("ITERATION_SPACE", "reductions go over different rows, " +
                                           quote(heroes.front()) + " and " +
                                           quote(hero));
  }
  llvm::DenseSet<Operation *> behind = dependents(c, heroes);
  llvm::DenseSet<Operation *> picked = pickedFrom(c);
  for (Operation *op : c.ops()) {
    if (llvm::is_contained(heroes, op))
      continue;
    // Elements of a row may come from anywhere; results go nowhere else.
    if (!hasElementMaps(op) && behind.contains(op))
      return refuse("LAYOUT", quote(op) + " mixes elements of several rows");
    if (isa<RopeOp>(op))
      return refuse("LAYOUT", quote(op) + " reads pairs of elements");
    if (!picked.contains(op) && !liesOverRows(op->getResult(0), *rows))
      return refuse("ITERATION_SPACE", quote(op) +
                                           " does not lie over the rows of " +
                                           quote(heroes.front()));
  }
  for (Value output : c.outputs())
    if (!isRowOutput(output, *rows))
      return refuse("ITERATION_SPACE", "the output of " +
                                           quote(output.getDefiningOp()) +
                                           " does not lie over the rows of " +
                                           quote(heroes.front()));
  return form;
}

//===----------------------------------------------------------------------===//
// Matmul
//===----------------------------------------------------------------------===//

/// Adds what feeds `value` inside the candidate: a weight's prologue.
static void collectPrologue(Value value, const Candidate &c,
                            llvm::DenseSet<Operation *> &prologue) {
  Operation *op = value.getDefiningOp();
  if (!op || !c.contains(op) || !prologue.insert(op).second)
    return;
  for (Value operand : op->getOperands())
    collectPrologue(operand, c, prologue);
}

static Form classifyPair(Operation *a, Operation *b, Form form) {
  if (a->getOperand(0) != b->getOperand(0) ||
      a->getAttrDictionary().get("transpose_lhs") !=
          b->getAttrDictionary().get("transpose_lhs"))
    return refuse("TWO_HEROES", "two products of different operands, " +
                                    quote(a) + " and " + quote(b));
  if (spaceOf(a->getResult(0)) != spaceOf(b->getResult(0)))
    return refuse("ITERATION_SPACE", "products of different shapes, " +
                                         quote(a) + " and " + quote(b));
  return form;
}

static Form classifyMatmul(const Candidate &c, ArrayRef<Operation *> heroes) {
  Form form{Family::Matmul, heroes.front()};
  if (heroes.size() > 2)
    return refuse("TWO_HEROES", "more than two products");
  if (heroes.size() == 2) {
    form = classifyPair(heroes[0], heroes[1], form);
    if (!form.ok())
      return form;
  }
  if (c.outputs().size() != 1)
    return refuse("MULTI_USE", "a value between the product and its epilogue "
                               "is used elsewhere, at " +
                                   quote(heroes.front()));
  Type space = spaceOf(heroes.front()->getResult(0));
  if (spaceOf(c.outputs().front()) != space)
    return refuse("ITERATION_SPACE",
                  "the output has not the product's shape, at " +
                      quote(c.outputs().front().getDefiningOp()));
  llvm::DenseSet<Operation *> prologue;
  for (Operation *hero : heroes) {
    Operation *lhs = hero->getOperand(0).getDefiningOp();
    if (lhs && c.contains(lhs))
      return refuse("LAYOUT", "the lhs of " + quote(hero) +
                                  " is computed in the same group");
    collectPrologue(hero->getOperand(1), c, prologue);
  }
  for (Operation *op : c.ops()) {
    if (llvm::is_contained(heroes, op)) {
      if (prologue.contains(op))
        return refuse("TWO_HEROES",
                      "one product feeds the other at " + quote(op));
      continue;
    }
    bool elementwise = classOf(op) == OpClass::Elementwise;
    if (prologue.contains(op)) {
      if (!elementwise && classOf(op) != OpClass::View)
        return refuse("LAYOUT", quote(op) + " cannot be read as a weight");
      continue;
    }
    if (!elementwise || !hasElementMaps(op))
      return refuse("LAYOUT", quote(op) + " is no epilogue of a product");
    auto together =
        broadcastShapes(getSymShape(space), getSymShape(op->getResult(0)));
    if (!together || *together != getSymShape(space))
      return refuse("ITERATION_SPACE",
                    quote(op) + " is larger than the product");
  }
  return form;
}

//===----------------------------------------------------------------------===//
// Products of one row
//===----------------------------------------------------------------------===//

/// Bounds of the columns that a block keeps and of the sums that it makes.
static constexpr int64_t mostFoldedColumns = 1 << 14;
static constexpr int64_t mostFoldedResults = 1 << 20;

static bool isFloatOf32Bits(Value value) {
  Type element = elementType(value);
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() <= 32;
}

/// Why a product cannot compute its lhs on the way; empty when it can.
static std::string whyNotFoldable(Operation *op, Operation *first) {
  auto product = dyn_cast<MatmulOp>(op);
  if (!product || op->getOperand(0) != first->getOperand(0))
    return "two products of different operands, " + quote(first) + " and " +
           quote(op);
  SymShape lhs = getSymShape(product.getLhs());
  SymShape rhs = getSymShape(product.getRhs());
  auto columns = product.getContractedSize().asConstant();
  bool row = columns && *columns <= mostFoldedColumns && !lhs.empty() &&
             numElements(lhs) == SymExpr(*columns) &&
             !product.getTransposeLhs();
  bool matrix =
      rhs.size() >= 2 && llvm::all_of(ArrayRef(rhs).drop_back(2),
                                      [](const SymExpr &e) { return e == 1; });
  if (!row || !matrix || !isFloatOf32Bits(product.getLhs()) ||
      !isFloatOf32Bits(product.getRhs()) ||
      !isFloatOf32Bits(product.getResult()))
    return quote(op) + " is no product of one row and a matrix";
  return "";
}

/// The products that `value` depends on within the candidate.
static void collectHeroes(Value value, const Candidate &c,
                          ArrayRef<Operation *> heroes,
                          llvm::DenseSet<Operation *> &seen,
                          llvm::SetVector<Operation *> &found) {
  Operation *op = value.getDefiningOp();
  if (!op || !c.contains(op) || !seen.insert(op).second)
    return;
  if (llvm::is_contained(heroes, op)) {
    found.insert(op);
    return;
  }
  for (Value operand : op->getOperands())
    collectHeroes(operand, c, heroes, seen, found);
}

static std::optional<Refusal> checkFoldedOutputs(const Candidate &c,
                                                 ArrayRef<Operation *> heroes) {
  auto no = [](StringRef code, const Twine &why) {
    return Refusal{code, why.str()};
  };
  Value lhs = heroes.front()->getOperand(0);
  for (Value output : c.outputs()) {
    llvm::SetVector<Operation *> own;
    llvm::DenseSet<Operation *> seen;
    collectHeroes(output, c, heroes, seen, own);
    std::string name = quote(output.getDefiningOp());
    if (own.empty() && getSymShape(output) != getSymShape(lhs))
      return no("ITERATION_SPACE", "the output of " + name +
                                       " does not lie over the row of " +
                                       quote(heroes.front()));
    for (Operation *hero : own)
      if (spaceOf(output) != spaceOf(hero->getResult(0)))
        return no("ITERATION_SPACE",
                  "the output has not the product's shape, at " + name);
    // Rows of the weights are told apart by number alone.
    if (own.size() > 1 && own.size() != heroes.size())
      return no("TWO_HEROES", "only some of the products meet in " + name);
  }
  return std::nullopt;
}

/// Products of one row of lhs, with what computes the row.
static Form classifyFolded(const Candidate &c, ArrayRef<Operation *> heroes,
                           ArrayRef<Operation *> reductions) {
  Form form{Family::Matmul, heroes.front()};
  int64_t results = 0;
  for (Operation *hero : heroes) {
    if (std::string why = whyNotFoldable(hero, heroes.front()); !why.empty())
      return refuse("TWO_HEROES", why);
    auto columns = getSymShape(hero->getResult(0)).back().asConstant();
    results += columns.value_or(mostFoldedResults + 1);
  }
  if (results > mostFoldedResults)
    return refuse("SIZE", "too many columns for one kernel");
  Value lhs = heroes.front()->getOperand(0);
  llvm::DenseSet<Operation *> before, weights;
  collectPrologue(lhs, c, before);
  for (Operation *hero : heroes)
    collectPrologue(hero->getOperand(1), c, weights);
  SmallVector<Operation *> row;
  for (Operation *op : c.ops()) {
    if (before.contains(op)) {
      if (weights.contains(op) || llvm::is_contained(heroes, op))
        return refuse("TWO_HEROES", quote(op) + " feeds both operands");
      row.push_back(op);
      continue;
    }
    if (llvm::is_contained(reductions, op))
      return refuse("TWO_HEROES", quote(op) + " follows a product");
    if (llvm::is_contained(heroes, op)) {
      if (weights.contains(op))
        return refuse("TWO_HEROES",
                      "one product feeds the other at " + quote(op));
      continue;
    }
    bool elementwise = classOf(op) == OpClass::Elementwise;
    if (weights.contains(op)) {
      if (!elementwise && classOf(op) != OpClass::View)
        return refuse("LAYOUT", quote(op) + " cannot be read as a weight");
      continue;
    }
    if (!elementwise || !hasElementMaps(op))
      return refuse("LAYOUT", quote(op) + " is no epilogue of a product");
  }
  if (!row.empty()) {
    Candidate prologue(row);
    if (prologue.ops().size() != row.size())
      return refuse("LAYOUT", "a reshape lies before the product");
    Form rows =
        reductions.empty() ? Form() : classifyRows(prologue, reductions);
    if (!rows.ok())
      return rows;
    for (Operation *op : row)
      if (reductions.empty() && !hasElementMaps(op))
        return refuse("LAYOUT", quote(op) + " is no part of a row");
    if (!reductions.empty() &&
        (numElements(reductions.front()->getOperand(0).getType()) !=
             numElements(lhs.getType()) ||
         cast<FusableOpInterface>(reductions.front()).getReducedAxes().size() !=
             1))
      return refuse("ITERATION_SPACE",
                    "what is reduced is not the row of the product");
  }
  if (auto refusal = checkFoldedOutputs(c, heroes)) {
    form.refusal = std::move(refusal);
    return form;
  }
  for (Operation *op : c.ops()) {
    if (before.contains(op) || weights.contains(op) ||
        llvm::is_contained(heroes, op))
      continue;
    llvm::SetVector<Operation *> own;
    llvm::DenseSet<Operation *> seen;
    collectHeroes(op->getResult(0), c, heroes, seen, own);
    if (own.empty() ||
        spaceOf(op->getResult(0)) != spaceOf(own.front()->getResult(0)))
      return refuse("ITERATION_SPACE",
                    quote(op) + " does not lie over a product");
  }
  return form;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// Marks the chain that leads to an operand of attention: views and casts; on
/// queries and keys a rotation; on keys and values an append.
static void markChain(Value value, const Candidate &c, bool data,
                      llvm::DenseSet<Operation *> &marked) {
  Operation *op = value.getDefiningOp();
  if (!op || !c.contains(op))
    return;
  OpClass kind = classOf(op);
  if (kind == OpClass::Append && data) {
    marked.insert(op);
    return markChain(op->getOperand(1), c, data, marked);
  }
  if (kind != OpClass::View && !isa<CastOp>(op) && !(data && isa<RopeOp>(op)))
    return;
  marked.insert(op);
  markChain(op->getOperand(0), c, data, marked);
}

static void markResults(Value value, const Candidate &c,
                        llvm::DenseSet<Operation *> &marked) {
  for (Operation *user : value.getUsers())
    if (c.contains(user) &&
        (classOf(user) == OpClass::View || isa<CastOp>(user)) &&
        marked.insert(user).second)
      markResults(user->getResult(0), c, marked);
}

static Form classifyAttention(const Candidate &c,
                              ArrayRef<Operation *> heroes) {
  if (heroes.size() > 1)
    return refuse("TWO_HEROES", "two attentions, " + quote(heroes[0]) +
                                    " and " + quote(heroes[1]));
  Operation *hero = heroes.front();
  llvm::DenseSet<Operation *> marked;
  for (auto [i, operand] : llvm::enumerate(hero->getOperands()))
    markChain(operand, c, /*data=*/i < 3, marked);
  llvm::DenseSet<Operation *> results;
  markResults(hero->getResult(0), c, results);
  marked.insert(results.begin(), results.end());
  for (Operation *op : c.ops())
    if (op != hero && !marked.contains(op))
      return refuse("LAYOUT", quote(op) + " is no part of an attention kernel");
  unsigned ends = 0;
  for (Value output : c.outputs()) {
    Operation *def = output.getDefiningOp();
    bool result = def == hero || results.contains(def);
    ends += result;
    if (!result && classOf(def) != OpClass::Append)
      return refuse("MULTI_USE", "what prepares an operand is needed "
                                 "elsewhere too, " +
                                     quote(def));
  }
  if (ends > 1)
    return refuse("MULTI_USE",
                  "the result of " + quote(hero) + " leaves in two layouts");
  return Form{Family::Attention, hero};
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

Form fuse::classify(const Candidate &c, Abilities abilities) {
  // One operation has as many inputs as the graph gives it.
  if (c.ops().size() > maxOps ||
      (c.inputs().size() > maxInputs && c.ops().size() > 1))
    return refuse("SIZE", "too many operations or inputs for one kernel");
  SmallVector<Operation *> rows, products, attentions, appends, opaque;
  for (Operation *op : c.ops()) {
    OpClass kind = classOf(op);
    if (kind == OpClass::Reduction || kind == OpClass::RowReduction)
      rows.push_back(op);
    else if (kind == OpClass::Contraction)
      products.push_back(op);
    else if (kind == OpClass::Attention)
      attentions.push_back(op);
    else if (kind == OpClass::Append)
      appends.push_back(op);
    else if (kind == OpClass::Opaque || kind == OpClass::Constant)
      opaque.push_back(op);
  }
  if (!opaque.empty())
    return c.ops().size() == 1
               ? Form{Family::Sequential, opaque.front()}
               : refuse("LAYOUT", quote(opaque.front()) + " runs alone");
  bool makesLhs = llvm::any_of(products, [&](Operation *product) {
    Operation *lhs = product->getOperand(0).getDefiningOp();
    return lhs && c.contains(lhs);
  });
  bool folded = makesLhs || products.size() > 2 || c.outputs().size() > 1;
  if (abilities.foldsRow && !products.empty() && folded && attentions.empty() &&
      appends.empty())
    return classifyFolded(c, products, rows);
  if ((!rows.empty() + !products.empty() + !attentions.empty()) > 1)
    return refuse(
        "TWO_HEROES",
        "work of two kernel families, " +
            quote(rows.empty() ? products.front() : rows.front()) + " and " +
            quote(attentions.empty() ? products.front() : attentions.front()));
  if (!attentions.empty())
    return classifyAttention(c, attentions);
  if (!appends.empty())
    return c.ops().size() == 1
               ? Form{Family::Append, appends.front()}
               : refuse("LAYOUT",
                        quote(appends.front()) +
                            " runs alone where no attention reads it");
  if (!products.empty())
    return classifyMatmul(c, products);
  if (!rows.empty())
    return classifyRows(c, rows);
  return classifyPointwise(c);
}
