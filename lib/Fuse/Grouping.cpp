//===- Grouping.cpp - A function's ops as clusters ------------------------===//

#include "Grouping.h"

#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::fuse;

/// A fusion must win this part of a launch: the model is no better.
static constexpr double margin = 0.1;
/// Elements that are read at several places are computed at each of them, by
/// code of its own; no more than so many times.
static constexpr unsigned mostCopies = 8;
/// Where both forms are predicted to take the same time within this part, a
/// profile decides: for one kernel less, when the ops' kernels take this share
/// of the measured time.
static constexpr double unclear = 0.1, worthwhileShare = 0.02;

//===----------------------------------------------------------------------===//
// What is switched off
//===----------------------------------------------------------------------===//

Disabled::Disabled(ArrayRef<std::string> texts) {
  for (StringRef text : texts) {
    auto [kind, node] = text.split('@');
    Entry entry{kind.str(), std::nullopt};
    if (!node.empty()) {
      auto glob = llvm::GlobPattern::create(node);
      if (!glob) {
        llvm::consumeError(glob.takeError());
        continue;
      }
      entry.node = std::move(*glob);
    }
    entries.push_back(std::move(entry));
  }
}

bool Disabled::site(const Site &site) const {
  return llvm::any_of(entries, [&](const Entry &e) {
    return e.kind == site.kind && (!e.node || e.node->match(site.node));
  });
}

bool Disabled::rule(StringRef rule) const {
  return llvm::any_of(
      entries, [&](const Entry &e) { return e.kind == rule && !e.node; });
}

//===----------------------------------------------------------------------===//
// Clusters
//===----------------------------------------------------------------------===//

static SmallVector<Operation *> collectNodes(func::FuncOp func) {
  SmallVector<Operation *> nodes;
  for (Operation &op : func.getBody().front().without_terminator())
    if (!isConstant(&op))
      nodes.push_back(&op);
  return nodes;
}

Grouping::Grouping(func::FuncOp func, CostModel &costs,
                   const Disabled &disabled, int64_t fuel,
                   MeasuredBucket measured)
    : func(func), costs(costs), disabled(disabled), fuel(fuel),
      measured(std::move(measured)), nodes(collectNodes(func)),
      graph(nodes.size()), lists(nodes.size()) {
  for (auto [i, op] : llvm::enumerate(nodes)) {
    places[op] = i;
    lists[i] = {op};
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp(); def && isNode(def))
        graph.addEdge(places[def], i);
    Operation *single[] = {op};
    families.push_back(classify(Candidate(single)).family);
  }
  for (auto [number, site] : llvm::enumerate(readSites(func)))
    if (disabled.site(site))
      for (Operation *op : site.ops)
        if (classOf(op) != OpClass::View)
          kept[op].push_back(number);
}

bool Grouping::isFree(unsigned cluster) const {
  return llvm::all_of(lists[cluster], isAlias);
}

SmallVector<unsigned> Grouping::clusters() const {
  SmallVector<unsigned> result;
  for (unsigned i = 0; i < nodes.size(); ++i)
    if (graph.find(i) == i)
      result.push_back(i);
  llvm::sort(result, [&](unsigned a, unsigned b) {
    return graph.rank(a) < graph.rank(b);
  });
  return result;
}

static void sortByRank(const ClusterGraph &graph,
                       SmallVectorImpl<unsigned> &clusters) {
  llvm::sort(clusters, [&](unsigned a, unsigned b) {
    return graph.rank(a) < graph.rank(b);
  });
}

SmallVector<unsigned> Grouping::successors(unsigned cluster) const {
  SmallVector<unsigned> result = graph.successors(cluster);
  sortByRank(graph, result);
  return result;
}

SmallVector<unsigned> Grouping::predecessors(unsigned cluster) const {
  SmallVector<unsigned> result = graph.predecessors(cluster);
  sortByRank(graph, result);
  return result;
}

SmallVector<Operation *> Grouping::gather(ArrayRef<unsigned> clusters) const {
  SmallVector<Operation *> ops;
  for (unsigned cluster : clusters)
    llvm::append_range(ops, lists[cluster]);
  llvm::sort(ops, [&](Operation *a, Operation *b) {
    return places.lookup(a) < places.lookup(b);
  });
  return ops;
}

Cost Grouping::clusterCost(unsigned cluster) {
  auto [it, inserted] = clusterCosts.try_emplace(cluster);
  if (inserted)
    it->second = costs.cost(Candidate(lists[cluster]));
  return it->second;
}

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

/// Whether two of the clusters hold ops of one switched-off site.
bool Grouping::separates(ArrayRef<unsigned> clusters) const {
  llvm::SmallDenseMap<unsigned, unsigned> owner;
  for (unsigned cluster : clusters)
    for (Operation *op : lists[cluster])
      for (unsigned site : kept.lookup(op)) {
        auto [it, inserted] = owner.try_emplace(site, cluster);
        if (!inserted && it->second != cluster)
          return true;
      }
  return false;
}

static SmallVector<unsigned> unique(ArrayRef<unsigned> clusters) {
  SmallVector<unsigned> result(clusters);
  llvm::sort(result);
  result.erase(llvm::unique(result), result.end());
  return result;
}

/// The last question of the tree: what the prediction leaves open.
bool Grouping::measurementTakes(Attempt &attempt,
                                ArrayRef<Operation *> ops) const {
  attempt.measuredShare = measured.share(ops);
  return attempt.measuredShare && *attempt.measuredShare >= worthwhileShare &&
         attempt.secondsAfter <= attempt.secondsBefore * (1 + unclear);
}

Attempt Grouping::examine(ArrayRef<unsigned> given, Gate gate) {
  SmallVector<unsigned> clusters = unique(given);
  Attempt attempt;
  auto refuse = [&](StringRef code, const Twine &why) {
    attempt.refusal = Refusal{code, why.str()};
    return attempt;
  };
  Candidate candidate(gather(clusters));
  for (unsigned cluster : clusters)
    attempt.secondsBefore += clusterCost(cluster).seconds;
  Cost fused = costs.cost(candidate);
  attempt.secondsAfter = fused.seconds;
  if (separates(clusters))
    return refuse("DISABLED_BY_FLAG", "switched off by --disable-fusion");
  if (Form form = classify(candidate, costs.getAbilities()); !form.ok()) {
    attempt.refusal = form.refusal;
    return attempt;
  }
  if (!graph.canMerge(clusters))
    return refuse("CYCLE", "a path leaves the group and comes back");
  if (gate == Gate::IfItPays && fused.mostPlaces > mostCopies)
    return refuse("CODE_SIZE", "an operation would be repeated too often");
  if (gate == Gate::IfItPays &&
      attempt.secondsBefore - attempt.secondsAfter <
          margin * costs.getDevice().launchSeconds.value &&
      !measurementTakes(attempt, candidate.ops())) {
    std::string why = "the fused kernel is not faster";
    if (attempt.measuredShare)
      why += llvm::formatv(", measured share {0:f2} %",
                           *attempt.measuredShare * 100)
                 .str();
    return refuse("NOT_PROFITABLE", why);
  }
  if (fuel == 0)
    return refuse("FUEL", "no fuel left");
  return attempt;
}

Attempt Grouping::tryMerge(ArrayRef<unsigned> given, StringRef rule,
                           Gate gate) {
  SmallVector<unsigned> clusters = unique(given);
  if (clusters.size() < 2)
    return {};
  Attempt attempt = examine(clusters, gate);
  if (!attempt.ok())
    return attempt;
  SmallVector<Operation *> ops = gather(clusters);
  unsigned merged = graph.merge(clusters);
  for (unsigned cluster : clusters) {
    lists[cluster].clear();
    clusterCosts.erase(cluster);
  }
  families[merged] = classify(Candidate(ops), costs.getAbilities()).family;
  lists[merged] = std::move(ops);
  if (fuel > 0)
    --fuel;
  remark(attempt, rule, lists[merged]);
  return attempt;
}

void Grouping::remark(const Attempt &attempt, StringRef rule,
                      ArrayRef<Operation *> ops) {
  if (!func.getContext()->getRemarkEngine())
    return;
  StringRef code = attempt.ok() ? "FUSED" : attempt.refusal->code;
  auto options = remark::RemarkOpts::name(code)
                     .category("fuse")
                     .subCategory(rule)
                     .function(func.getName());
  Location loc = ops.back()->getLoc();
  auto emitted = attempt.ok() ? remark::passed(loc, options)
                              : remark::missed(loc, options);
  if (!attempt.ok())
    emitted << remark::reason("{0}", attempt.refusal->why);
  emitted << remark::metric("Nodes", llvm::join(nodeNames(ops), " "))
          << remark::metric(
                 "UnfusedUs",
                 llvm::formatv("{0:f2}", attempt.secondsBefore * 1e6).str())
          << remark::metric(
                 "FusedUs",
                 llvm::formatv("{0:f2}", attempt.secondsAfter * 1e6).str());
  if (attempt.measuredShare)
    emitted << remark::metric(
        "MeasuredShare",
        llvm::formatv("{0:f2} %", *attempt.measuredShare * 100).str());
}

void Grouping::explainEdges() {
  if (!func.getContext()->getRemarkEngine())
    return;
  for (unsigned cluster : clusters()) {
    if (isFree(cluster))
      continue;
    for (unsigned next : successors(cluster)) {
      if (isFree(next))
        continue;
      Attempt attempt = examine({cluster, next}, Gate::IfItPays);
      if (attempt.ok())
        attempt.refusal = Refusal{"NOT_TRIED", "no rule takes this pair"};
      Operation *ends[] = {lists[cluster].back(), lists[next].back()};
      remark(attempt, "edge", ends);
    }
  }
}
