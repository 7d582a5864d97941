//===- Sites.cpp - The table of known patterns ----------------------------===//
//
// The only place in this phase that knows what a pattern looks like. A site is
// counted whether or not it fuses; the decision tree decides that.
//
//===----------------------------------------------------------------------===//

#include "Sites.h"

#include "fusion/Fuse/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::fuse;

namespace fusion {
#define GEN_PASS_DEF_MARKSITES
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

namespace {

using Path = SmallVector<Operation *>;

/// What the matchers share: a function's constants.
struct Context {
  const ConstantValues &constants;
  bool varies(Value value) const { return !constants.contains(value); }
};

/// The value behind casts (and views, where `views`); the ops on the way enter
/// `path`.
Value strip(Value value, bool views, Path &path) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<CastOp>(op) && !(views && classOf(op) == OpClass::View))
      break;
    path.push_back(op);
    value = op->getOperand(0);
  }
  return value;
}

/// True when an addend is more than a bias: it varies, or a constant that is
/// not the same for all rows, as embedded positions of a known length are.
bool isStream(Value addend, const Context &context) {
  if (context.varies(addend))
    return true;
  SymShape shape = getSymShape(addend);
  return llvm::any_of(ArrayRef(shape).drop_back(shape.empty() ? 0 : 1),
                      [](const SymExpr &size) { return size != SymExpr(1); });
}

/// norm(casts(a + b)), neither addend a bias.
bool matchAddNorm(Operation *norm, const Context &context, Path &path) {
  Value sum = strip(norm->getOperand(0), /*views=*/false, path);
  auto add = sum.getDefiningOp<AddOp>();
  if (!add || !isStream(add.getLhs(), context) ||
      !isStream(add.getRhs(), context))
    return false;
  path.push_back(add);
  return true;
}

bool matchAddRmsNorm(Operation *op, const Context &context, Path &path) {
  return isa<RmsNormOp>(op) && matchAddNorm(op, context, path);
}

bool matchAddLayerNorm(Operation *op, const Context &context, Path &path) {
  return isa<LayerNormOp>(op) && matchAddNorm(op, context, path);
}

/// activation(gate) * up, of one shape, up not constant.
template <typename Activation>
bool matchGated(Operation *op, const Context &context, Path &path) {
  auto mul = dyn_cast<MulOp>(op);
  if (!mul || spaceOf(mul.getLhs()) != spaceOf(mul.getRhs()))
    return false;
  for (auto [gate, up] : {std::make_pair(mul.getLhs(), mul.getRhs()),
                          std::make_pair(mul.getRhs(), mul.getLhs())}) {
    Path casts;
    auto activation =
        strip(gate, /*views=*/false, casts).getDefiningOp<Activation>();
    if (!activation || !context.varies(up) || !context.varies(gate))
      continue;
    path.append(casts);
    path.push_back(activation);
    return true;
  }
  return false;
}

bool findRotation(Value value, Path &path);

/// A rotation that stands beside what is not rotated (latent attention).
bool findRotatedPart(ConcatOp concat, Path &path) {
  if (concat.getAxis() + 1 !=
      static_cast<int64_t>(getSymShape(concat.getResult()).size()))
    return false;
  for (Value input : concat.getInputs()) {
    Path way;
    if (!findRotation(input, way))
      continue;
    path.push_back(concat);
    path.append(way);
    return true;
  }
  return false;
}

/// A rotation behind views, casts and the append to a cache.
bool findRotation(Value value, Path &path) {
  while (true) {
    value = strip(value, /*views=*/true, path);
    Operation *op = value.getDefiningOp();
    if (!op)
      return false;
    if (isa<RopeOp>(op)) {
      path.push_back(op);
      return true;
    }
    if (auto concat = dyn_cast<ConcatOp>(op))
      return findRotatedPart(concat, path);
    if (classOf(op) != OpClass::Append)
      return false;
    path.push_back(op);
    value = op->getOperand(1);
  }
}

/// attention of rotated queries and keys, with the appends to its cache.
bool matchRopeAttention(Operation *op, const Context &, Path &path) {
  auto attention = dyn_cast<AttentionOp>(op);
  if (!attention || !findRotation(attention.getQuery(), path) ||
      !findRotation(attention.getKey(), path))
    return false;
  Path values;
  Value value = strip(attention.getValue(), /*views=*/true, values);
  Operation *append = value.getDefiningOp();
  if (append && classOf(append) == OpClass::Append) {
    path.append(values);
    path.push_back(append);
  }
  return true;
}

/// A product with weights that are stored in fewer bits.
bool matchDequantMatmul(Operation *op, const Context &context, Path &path) {
  auto matmul = dyn_cast<MatmulOp>(op);
  if (!matmul)
    return false;
  for (Value operand : {matmul.getRhs(), matmul.getLhs()}) {
    Path way;
    Value weight = strip(operand, /*views=*/true, way);
    auto dequantize = weight.getDefiningOp<DequantizeOp>();
    if (!dequantize || context.varies(dequantize.getInput()))
      continue;
    path.append(way);
    // Two-level scales are dequantised themselves.
    while (dequantize) {
      path.push_back(dequantize);
      dequantize = dequantize.getScale().getDefiningOp<DequantizeOp>();
    }
    return true;
  }
  return false;
}

struct KnownPattern {
  StringRef kind;
  bool (*match)(Operation *, const Context &, Path &);
};

/// In the order in which sites are tried.
constexpr KnownPattern patterns[] = {
    {"rope_attention", matchRopeAttention},
    {"dequant_matmul", matchDequantMatmul},
    {"swiglu", matchGated<SiluOp>},
    {"geglu", matchGated<GeluOp>},
    {"add_rms_norm", matchAddRmsNorm},
    {"add_layer_norm", matchAddLayerNorm},
};

} // namespace

/// By kind, in the table's order, then as given.
static void sortSites(std::vector<Site> &sites) {
  auto place = [](const Site &site) {
    return llvm::find_if(
               patterns,
               [&](const KnownPattern &p) { return p.kind == site.kind; }) -
           std::begin(patterns);
  };
  llvm::stable_sort(
      sites, [&](const Site &a, const Site &b) { return place(a) < place(b); });
}

static void sortOps(SmallVectorImpl<Operation *> &ops) {
  llvm::sort(ops, [](Operation *a, Operation *b) {
    return a != b && a->isBeforeInBlock(b);
  });
  ops.erase(llvm::unique(ops), ops.end());
}

std::vector<Site> fuse::findSites(func::FuncOp func) {
  Block &block = func.getBody().front();
  ConstantValues constants(block);
  Context context{constants};
  std::vector<Site> sites;
  std::map<std::string, unsigned> taken;
  for (Operation &op : block)
    for (const KnownPattern &pattern : patterns) {
      Path path;
      if (!pattern.match(&op, context, path))
        continue;
      Site site{pattern.kind.str(), nodeName(op.getLoc()), {}};
      // Ops made of one node are told apart by a number.
      if (unsigned n = ++taken[site.id()]; n > 1)
        site.node += "#" + std::to_string(n);
      site.ops.append(path);
      site.ops.push_back(&op);
      sortOps(site.ops);
      sites.push_back(std::move(site));
    }
  sortSites(sites);
  return sites;
}

std::vector<Site> fuse::readSites(func::FuncOp func) {
  llvm::MapVector<StringRef, SmallVector<Operation *>> members;
  for (Operation &op : func.getBody().front())
    if (auto ids = op.getAttrOfType<ArrayAttr>(FusionDialect::kSitesAttr))
      for (auto id : ids.getAsRange<StringAttr>())
        members[id.getValue()].push_back(&op);
  std::vector<Site> sites;
  for (auto &[id, ops] : members) {
    auto [kind, node] = id.split(':');
    sites.push_back(Site{kind.str(), node.str(), ops});
  }
  sortSites(sites);
  return sites;
}

namespace {
struct MarkSitesPass final : fusion::impl::MarkSitesBase<MarkSitesPass> {
  using MarkSitesBase::MarkSitesBase;

  void runOnOperation() override {
    llvm::StringSet<> seen;
    SmallVector<Attribute> all;
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (!func.isDeclaration())
        mark(func, seen, all);
    getOperation()->setAttr(FusionDialect::kSitesAttr,
                            ArrayAttr::get(&getContext(), all));
  }

  void mark(func::FuncOp func, llvm::StringSet<> &seen,
            SmallVectorImpl<Attribute> &all) {
    llvm::MapVector<Operation *, SmallVector<Attribute>> marks;
    for (const Site &site : findSites(func)) {
      auto id = StringAttr::get(&getContext(), site.id());
      if (seen.insert(id.getValue()).second)
        all.push_back(id);
      for (Operation *op : site.ops)
        marks[op].push_back(id);
    }
    for (Operation &op : func.getBody().front())
      op.removeAttr(FusionDialect::kSitesAttr);
    for (auto &[op, ids] : marks)
      op->setAttr(FusionDialect::kSitesAttr,
                  ArrayAttr::get(&getContext(), ids));
  }
};
} // namespace
