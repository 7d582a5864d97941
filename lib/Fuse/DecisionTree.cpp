//===- DecisionTree.cpp - Which ops become one kernel ---------------------===//
//
// The tree, from top to bottom. Legality (families, cycles) and profit (the
// roofline) are asked in Grouping::tryMerge; here is only what is tried, and in
// which order:
//
//   1. known patterns, whenever they are legal;
//   2. attention takes the appends, views and casts around it;
//   3. a product takes what prepares its weight;
//   4. a product takes what follows it, and the product it is gated with;
//   5. a row reduction takes what precedes and follows it;
//   6. products of one row take each other and what computes the row;
//   7. pointwise neighbours merge, producer into consumer;
//   8. siblings that read one tensor merge.
//
//===----------------------------------------------------------------------===//

#include "DecisionTree.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::fuse;
using Gate = Grouping::Gate;

namespace {

class Tree {
public:
  explicit Tree(Grouping &grouping) : g(grouping) {}

  std::vector<SiteDecision> takePatterns(std::vector<Site> sites);
  void feedAttentions();
  void takeWeightPrologues();
  void takeEpilogues();
  void takeRowNeighbours();
  void foldRows();
  void mergePointwise();
  void mergeSiblings();

private:
  bool off(StringRef rule) const { return g.getDisabled().rule(rule); }
  SmallVector<Operation *> heroes(OpClass kind) const;
  bool merge(ArrayRef<unsigned> clusters, StringRef rule,
             Gate gate = Gate::IfItPays) {
    return g.tryMerge(clusters, rule, gate).ok();
  }
  bool isPointwise(unsigned cluster) const {
    return g.familyOf(cluster) == Family::Pointwise;
  }
  bool onlyAroundAttention(unsigned cluster) const;
  bool takeOneEpilogue(Operation *product);
  bool takeOneRowNeighbour(Operation *hero);
  void foldRow(Value lhs);
  bool mergeWithConsumers(unsigned cluster);
  SmallVector<unsigned> readersOf(Value value) const;

  Grouping &g;
};

SmallVector<Operation *> Tree::heroes(OpClass kind) const {
  SmallVector<Operation *> result;
  for (Operation *op : g.ops())
    if (classOf(op) == kind)
      result.push_back(op);
  return result;
}

// 1. Known patterns: the costs do not choose whether, only how.
std::vector<SiteDecision> Tree::takePatterns(std::vector<Site> sites) {
  std::vector<SiteDecision> decisions;
  for (Site &site : sites) {
    SmallVector<unsigned> clusters;
    for (Operation *op : site.ops)
      clusters.push_back(g.clusterOf(op));
    Attempt attempt = g.tryMerge(clusters, site.kind, Gate::Always);
    decisions.push_back({std::move(site), std::move(attempt)});
  }
  return decisions;
}

bool Tree::onlyAroundAttention(unsigned cluster) const {
  return llvm::all_of(g.members(cluster), [](Operation *op) {
    OpClass kind = classOf(op);
    return kind == OpClass::View || kind == OpClass::Append || isa<CastOp>(op);
  });
}

// 2. Views become the kernel's access maps, appends write what it reads.
void Tree::feedAttentions() {
  if (off("attention"))
    return;
  for (Operation *attention : heroes(OpClass::Attention)) {
    bool changed = true;
    while (changed) {
      changed = false;
      unsigned cluster = g.clusterOf(attention);
      SmallVector<unsigned> around = g.predecessors(cluster);
      llvm::append_range(around, g.successors(cluster));
      for (unsigned other : around)
        if (onlyAroundAttention(other) &&
            merge({cluster, other}, "attention", Gate::Always)) {
          changed = true;
          break;
        }
    }
  }
}

// 3. What is computed from constants and read as a weight.
void Tree::takeWeightPrologues() {
  if (off("prologue"))
    return;
  ConstantValues constants(g.getFunction().getBody().front());
  for (Operation *product : heroes(OpClass::Contraction)) {
    bool changed = true;
    while (changed) {
      changed = false;
      unsigned cluster = g.clusterOf(product);
      for (unsigned other : g.predecessors(cluster)) {
        Operation *last = g.members(other).back();
        if (constants.contains(last->getResult(0)) &&
            merge({cluster, other}, "prologue")) {
          changed = true;
          break;
        }
      }
    }
  }
}

// 4. The only reader of a product's result becomes its epilogue.
bool Tree::takeOneEpilogue(Operation *product) {
  unsigned cluster = g.clusterOf(product);
  SmallVector<unsigned> readers = g.successors(cluster);
  if (readers.size() != 1)
    return false;
  Family family = g.familyOf(readers[0]);
  if (family != Family::Pointwise && family != Family::Matmul)
    return false;
  return merge({cluster, readers[0]}, "epilogue");
}

void Tree::takeEpilogues() {
  if (off("epilogue"))
    return;
  for (Operation *product : heroes(OpClass::Contraction))
    while (takeOneEpilogue(product)) {
    }
}

// 5. What lies over the same rows.
bool Tree::takeOneRowNeighbour(Operation *hero) {
  unsigned cluster = g.clusterOf(hero);
  SmallVector<unsigned> around = g.successors(cluster);
  llvm::append_range(around, g.predecessors(cluster));
  for (unsigned other : around) {
    bool fits = isPointwise(other) || g.familyOf(other) == Family::RowReduction;
    if (fits && !g.isFree(other) && merge({cluster, other}, "row"))
      return true;
  }
  return false;
}

void Tree::takeRowNeighbours() {
  if (off("row"))
    return;
  for (OpClass kind : {OpClass::RowReduction, OpClass::Reduction})
    for (Operation *hero : heroes(kind))
      while (takeOneRowNeighbour(hero)) {
      }
}

// 6. Products of one lhs become one kernel that computes lhs on the way.
void Tree::foldRow(Value lhs) {
  SmallVector<Operation *> products;
  SmallVector<unsigned> clusters;
  for (Operation *user : lhs.getUsers())
    if (g.isNode(user) && classOf(user) == OpClass::Contraction &&
        user->getOperand(0) == lhs) {
      products.push_back(user);
      clusters.push_back(g.clusterOf(user));
    }
  if (products.empty())
    return;
  // All at once, else one after another.
  if (!merge(clusters, "fold"))
    for (Operation *other : ArrayRef(products).drop_front())
      merge({g.clusterOf(products.front()), g.clusterOf(other)}, "fold");
  Operation *maker = lhs.getDefiningOp();
  if (!maker || !g.isNode(maker))
    return;
  unsigned cluster = g.clusterOf(maker);
  bool fits =
      isPointwise(cluster) || g.familyOf(cluster) == Family::RowReduction;
  if (!fits || g.isFree(cluster))
    return;
  for (Operation *product : products)
    if (merge({cluster, g.clusterOf(product)}, "fold"))
      return;
}

void Tree::foldRows() {
  if (off("fold") || !g.getCosts().getAbilities().foldsRow)
    return;
  SmallVector<Value> values(g.getFunction().getArguments());
  for (Operation *op : g.ops())
    llvm::append_range(values, op->getResults());
  for (Value value : values)
    foldRow(value);
}

// 7. Producer into consumer, the last producer first, so that chains become one
// cluster. Border reshapes between the two come along.
bool Tree::mergeWithConsumers(unsigned cluster) {
  for (unsigned next : g.successors(cluster)) {
    SmallVector<unsigned> way = {cluster};
    while (g.isFree(next)) {
      way.push_back(next);
      SmallVector<unsigned> readers = g.successors(next);
      if (readers.size() != 1)
        break;
      next = readers.front();
    }
    if (g.isFree(next) || !isPointwise(next))
      continue;
    way.push_back(next);
    if (merge(way, "pointwise"))
      return true;
  }
  return false;
}

void Tree::mergePointwise() {
  if (off("pointwise"))
    return;
  bool changed = true;
  for (unsigned round = 0; changed && round < 4; ++round) {
    changed = false;
    for (Operation *op : llvm::reverse(g.ops())) {
      unsigned cluster = g.clusterOf(op);
      if (isPointwise(cluster) && !g.isFree(cluster) &&
          g.members(cluster).back() == op)
        changed |= mergeWithConsumers(cluster);
    }
  }
}

SmallVector<unsigned> Tree::readersOf(Value value) const {
  // A table that every layer reads says nothing about which readers belong
  // together.
  static constexpr unsigned most = 8;
  SmallVector<unsigned> readers;
  for (Operation *user : value.getUsers()) {
    if (!g.isNode(user))
      continue;
    unsigned cluster = g.clusterOf(user);
    if (!llvm::is_contained(readers, cluster))
      readers.push_back(cluster);
    if (readers.size() > most)
      return {};
  }
  return readers;
}

// 8. Two clusters of one family that read one tensor read it once.
void Tree::mergeSiblings() {
  if (off("siblings"))
    return;
  auto mergeReaders = [&](Value value) {
    SmallVector<unsigned> readers = readersOf(value);
    for (size_t i = 0; i < readers.size(); ++i)
      for (size_t j = i + 1; j < readers.size(); ++j) {
        Family family = g.familyOf(readers[i]);
        if (family != g.familyOf(readers[j]) || g.isFree(readers[i]) ||
            g.isFree(readers[j]))
          continue;
        if (family != Family::Pointwise && family != Family::RowReduction)
          continue;
        if (merge({readers[i], readers[j]}, "siblings"))
          return true;
      }
    return false;
  };
  SmallVector<Value> values(g.getFunction().getArguments());
  for (Operation *op : g.ops())
    llvm::append_range(values, op->getResults());
  for (Value value : values)
    while (mergeReaders(value)) {
    }
}

} // namespace

std::vector<SiteDecision> fuse::decide(Grouping &grouping,
                                       std::vector<Site> sites) {
  Tree tree(grouping);
  std::vector<SiteDecision> decisions = tree.takePatterns(std::move(sites));
  tree.feedAttentions();
  tree.takeWeightPrologues();
  tree.takeEpilogues();
  tree.takeRowNeighbours();
  tree.foldRows();
  tree.mergePointwise();
  tree.mergeSiblings();
  grouping.explainEdges();
  return decisions;
}
