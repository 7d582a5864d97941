//===- MaskCases.cpp - Sizes and contents to evaluate a mask for ----------===//

#include "MaskCases.h"
#include "Attention.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

std::optional<int64_t> raise::evaluate(const SymExpr &expr,
                                       const Sizes &sizes) {
  return expr.evaluate([&](std::string_view name) -> std::optional<int64_t> {
    auto it = sizes.find(std::string(name));
    return it == sizes.end() ? std::nullopt
                             : std::optional<int64_t>(it->second);
  });
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

/// Numbers beyond this are no window: minima, maxima, ends of slices.
static constexpr int64_t kLargestWindow = 1 << 19;
/// The same where rows and keys are as many: their product is evaluated.
static constexpr int64_t kLargestSquared = 1500;

/// Tables that are no longer are seen whole by the usual sizes.
static constexpr int64_t kSmallTable = 4;

static void noteNumber(double value, MaskSources &sources) {
  double size = std::abs(value);
  if (size == std::floor(size) && size <= kLargestWindow)
    sources.largest = std::max(sources.largest, static_cast<int64_t>(size));
}

/// Axes of a tile that do not repeat a whole number of times.
static void noteTile(TileOp tile, MaskSources &sources) {
  for (auto [from, to] :
       llvm::zip(getSymShape(tile.getInput()), getSymShape(tile.getResult())))
    if (from != to && !to.exactDiv(from))
      sources.conditional.push_back({from, to});
}

static void noteExpr(const SymExpr &expr, MaskSources &sources) {
  for (const std::string &symbol : expr.symbols())
    sources.symbols.insert(symbol);
  for (auto &[monomial, coefficient] : expr.polynomial())
    if (monomial.empty())
      noteNumber(coefficient, sources);
}

static void noteAttr(Attribute attr, MaskSources &sources) {
  if (auto text = dyn_cast<StringAttr>(attr))
    noteExpr(getExpr(text), sources);
  if (auto array = dyn_cast<ArrayAttr>(attr))
    for (Attribute element : array)
      noteAttr(element, sources);
}

/// Lengths of what is neither computed nor the same everywhere.
static void noteTable(Operation *op, MaskSources &sources) {
  auto constant = dyn_cast<ConstantOp>(op);
  if (!isa<WeightOp>(op) && (!constant || getScalar(constant.getResult())))
    return;
  for (const SymExpr &size : getSymShape(op->getResult(0)))
    if (auto length = size.asConstant(); length && *length > kSmallTable)
      sources.tables.insert(*length);
}

static void noteType(Type type, MaskSources &sources) {
  for (const SymExpr &size : getSymShape(type))
    for (const std::string &symbol : size.symbols())
      sources.symbols.insert(symbol);
}

FailureOr<MaskSources> raise::findSources(Value mask, std::string &reason) {
  MaskSources sources;
  SetVector<Value> work;
  work.insert(mask);
  for (size_t i = 0; i < work.size(); ++i) {
    Value value = work[i];
    noteType(value.getType(), sources);
    Operation *op = value.getDefiningOp();
    if (!op) {
      if (getSymShape(value).size() > 2) {
        reason = "it reads an argument of more than two axes";
        return failure();
      }
      sources.arguments.insert(value);
      continue;
    }
    if (isa<MatmulOp, AttentionOp, SoftmaxOp>(op) || work.size() > 400) {
      reason = "it is computed from " + describe(op);
      return failure();
    }
    auto scalar = getScalar(value);
    if (scalar && !(isFloat(value) && isHidden(*scalar, elementType(value))))
      noteNumber(*scalar, sources);
    noteTable(op, sources);
    if (auto tile = dyn_cast<TileOp>(op))
      noteTile(tile, sources);
    for (NamedAttribute attr : op->getAttrs())
      noteAttr(attr.getValue(), sources);
    for (Value operand : op->getOperands())
      work.insert(operand);
  }
  sources.values = std::move(work);
  return sources;
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

namespace {
struct SizeChooser {
  const MaskSources &sources;
  const ScoreSizes &scores;
  std::set<std::string> symbols, past, rows;
  /// Without sizes that only the scores have, such as a batch that the mask is
  /// broadcast along.
  std::set<std::string> relevant;

  SizeChooser(const MaskSources &sources, const ScoreSizes &scores)
      : sources(sources), scores(scores), symbols(sources.symbols) {
    for (const SymExpr &e : {scores.batch, scores.rows, scores.keys})
      for (const std::string &symbol : e.symbols())
        symbols.insert(symbol);
    rows = scores.rows.symbols();
    relevant = sources.symbols;
    for (const SymExpr &e : {scores.rows, scores.keys})
      for (const std::string &symbol : e.symbols())
        relevant.insert(symbol);
    // What the keys have beyond the rows may be nothing.
    for (const std::string &symbol : scores.keys.symbols())
      if (!rows.count(symbol) && !scores.batch.symbols().count(symbol))
        past.insert(symbol);
  }

  Sizes base(unsigned turn) const {
    static constexpr int64_t kValues[] = {2, 5, 3, 7, 4};
    Sizes sizes;
    unsigned i = turn;
    for (const std::string &symbol : symbols)
      sizes[symbol] = kValues[i++ % 5];
    return sizes;
  }

  /// Keys that are a symbol of their own count the past and the rows.
  void add(std::vector<Sizes> &all, Sizes sizes) const {
    auto keys = scores.keys.asSymbol();
    auto count = evaluate(scores.rows, sizes);
    if (keys && past.count(*keys) && count)
      sizes[*keys] += *count;
    all.push_back(std::move(sizes));
  }

  /// A sequence with so many keys: few rows, all of them new, one row.
  void addLarge(std::vector<Sizes> &all, int64_t keys, bool withFresh) const {
    Sizes large = base(0);
    set(large, scores.batch.symbols(), 1);
    Sizes largeFresh = large, largeDecode = large;
    set(large, rows, past.empty() ? keys : 3);
    set(large, past, keys - 3);
    set(largeFresh, rows, keys);
    set(largeFresh, past, 0);
    set(largeDecode, rows, 1);
    set(largeDecode, past, keys - 1);
    all.push_back(large);
    if (withFresh)
      all.push_back(largeFresh);
    all.push_back(largeDecode);
  }

  static void set(Sizes &sizes, const std::set<std::string> &names,
                  int64_t value) {
    for (const std::string &name : names)
      sizes[name] = value;
  }
};
} // namespace

/// Choices that differ in what matters, in their order.
static std::vector<Sizes> distinct(ArrayRef<Sizes> all,
                                   const std::set<std::string> &relevant) {
  std::vector<Sizes> kept;
  std::set<Sizes> seen;
  for (const Sizes &sizes : all) {
    Sizes part;
    for (const std::string &symbol : relevant)
      if (auto it = sizes.find(symbol); it != sizes.end())
        part.insert(*it);
    if (seen.insert(part).second)
      kept.push_back(sizes);
  }
  return kept;
}

FailureOr<std::vector<Sizes>> raise::chooseSizes(const MaskSources &sources,
                                                 const ScoreSizes &scores,
                                                 std::string &reason) {
  SizeChooser chooser(sources, scores);
  std::vector<Sizes> all;
  if (chooser.symbols.empty()) {
    chooser.add(all, {});
    return all;
  }
  int64_t beyond = sources.largest + 3;
  bool squared = chooser.past.empty() || !sources.conditional.empty();
  if (beyond > (squared ? kLargestSquared : kLargestWindow)) {
    reason = "it holds the number " + std::to_string(sources.largest) +
             ", too large to evaluate beyond";
    return failure();
  }
  // A table is seen to its end: there is no more of it.
  std::vector<Sizes> candidates;
  for (int64_t table : llvm::reverse(sources.tables))
    if (table > beyond)
      chooser.addLarge(candidates, table, true);
  chooser.addLarge(candidates, beyond + 3, squared);
  for (int64_t table : llvm::reverse(sources.tables))
    if (table <= beyond)
      chooser.addLarge(candidates, table, true);
  Sizes ones = chooser.base(0), fresh = chooser.base(1),
        decode = chooser.base(4);
  SizeChooser::set(ones, chooser.symbols, 1);
  SizeChooser::set(fresh, chooser.past, 0);
  SizeChooser::set(decode, chooser.rows, 1);
  for (const Sizes &sizes :
       {chooser.base(0), chooser.base(2), chooser.base(3), ones, fresh, decode})
    candidates.push_back(sizes);
  for (Sizes &sizes : candidates) {
    // Where rows and keys are many in every choice, two sequences have to do.
    if (!sources.areSmall(sizes))
      for (const std::string &symbol : scores.batch.symbols())
        sizes[symbol] = std::min<int64_t>(sizes[symbol], 2);
    if (sources.haveMeaning(sizes))
      chooser.add(all, sizes);
  }
  return distinct(all, chooser.relevant);
}

/// Whether the elements of a slice are ones of its input.
static bool isWithin(SliceOp slice, const Sizes &sizes) {
  SymShape from = getSymShape(slice.getInput()),
           to = getSymShape(slice.getResult());
  for (size_t i = 0; i < from.size(); ++i) {
    auto start =
             evaluate(getExpr(cast<StringAttr>(slice.getStarts()[i])), sizes),
         count = evaluate(to[i], sizes), length = evaluate(from[i], sizes);
    if (!start || !count || !length)
      return false;
    int64_t last = *start + (*count - 1) * slice.getSteps()[i];
    if (*count > 0 &&
        (std::min(*start, last) < 0 || std::max(*start, last) >= *length))
      return false;
  }
  return true;
}

bool MaskSources::haveMeaning(const Sizes &sizes) const {
  for (Value value : values)
    if (auto slice = value.getDefiningOp<SliceOp>();
        slice && !isWithin(slice, sizes))
      return false;
  return llvm::all_of(conditional, [&](const auto &axis) {
    auto from = evaluate(axis.first, sizes), to = evaluate(axis.second, sizes);
    return from && to && (*from == 1 || *from == *to);
  });
}

bool MaskSources::areSmall(const Sizes &sizes) const {
  return llvm::all_of(values, [&](Value value) {
    int64_t count = 1;
    for (const SymExpr &expr : getSymShape(value)) {
      auto size = evaluate(expr, sizes);
      if (!size || *size < 0 || __builtin_mul_overflow(count, *size, &count) ||
          count > kLargestTensor)
        return false;
    }
    return true;
  });
}

//===----------------------------------------------------------------------===//
// Contents
//===----------------------------------------------------------------------===//

eval::Tensor raise::makeContents(Value argument, const Sizes &sizes,
                                 unsigned kind, std::mt19937 &random) {
  std::vector<int64_t> shape;
  for (const SymExpr &size : getSymShape(argument))
    shape.push_back(evaluate(size, sizes).value_or(0));
  eval::Tensor tensor(elementType(argument), shape);
  int64_t columns = shape.empty() ? 1 : shape.back();
  std::vector<int64_t> firsts;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    int64_t row = i / columns, column = i % columns;
    if (column == 0)
      firsts.push_back(random() % (columns + 1));
    bool seen = kind == 0 || (kind == 1 && column >= firsts[row]) ||
                (kind == 2 && random() % 2) ||
                (kind == 3 && row != 0 && random() % 3);
    tensor.set(i, seen ? 1 : 0);
  }
  return tensor;
}
