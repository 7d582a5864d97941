//===- ClusterGraph.cpp - Merging nodes of a graph without cycles ---------===//

#include "ClusterGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <numeric>

using namespace fusion::fuse;
using llvm::ArrayRef;
using llvm::SmallVector;

ClusterGraph::ClusterGraph(unsigned count)
    : parents(count), ranks(count), outs(count), ins(count), stamps(count, 0) {
  std::iota(parents.begin(), parents.end(), 0);
  std::iota(ranks.begin(), ranks.end(), 0);
}

void ClusterGraph::addEdge(unsigned from, unsigned to) {
  outs[from].push_back(to);
  ins[to].push_back(from);
}

unsigned ClusterGraph::find(unsigned node) const {
  while (parents[node] != node)
    node = parents[node] = parents[parents[node]];
  return node;
}

SmallVector<unsigned> ClusterGraph::neighbours(const std::vector<List> &lists,
                                               unsigned node) const {
  SmallVector<unsigned> result;
  node = find(node);
  for (unsigned other : lists[node])
    if (find(other) != node)
      result.push_back(find(other));
  llvm::sort(result);
  result.erase(llvm::unique(result), result.end());
  return result;
}

SmallVector<unsigned> ClusterGraph::successors(unsigned node) const {
  return neighbours(outs, node);
}
SmallVector<unsigned> ClusterGraph::predecessors(unsigned node) const {
  return neighbours(ins, node);
}

bool ClusterGraph::reach(const std::vector<List> &lists,
                         ArrayRef<unsigned> seeds, unsigned low, unsigned high,
                         List &reached) {
  unsigned seedStamp = ++stamp, seenStamp = ++stamp;
  for (unsigned seed : seeds)
    stamps[seed] = seedStamp;
  List work(seeds);
  while (!work.empty()) {
    unsigned node = work.pop_back_val();
    bool outside = stamps[node] != seedStamp;
    for (unsigned raw : lists[node]) {
      unsigned next = find(raw);
      if (stamps[next] == seedStamp) {
        if (outside)
          return false;
        continue;
      }
      if (stamps[next] == seenStamp || ranks[next] < low || ranks[next] > high)
        continue;
      stamps[next] = seenStamp;
      reached.push_back(next);
      work.push_back(next);
    }
  }
  return true;
}

static SmallVector<unsigned> roots(const ClusterGraph &graph,
                                   ArrayRef<unsigned> nodes) {
  SmallVector<unsigned> result;
  for (unsigned node : nodes)
    result.push_back(graph.find(node));
  llvm::sort(result);
  result.erase(llvm::unique(result), result.end());
  return result;
}

bool ClusterGraph::canMerge(ArrayRef<unsigned> nodes) {
  SmallVector<unsigned> seeds = roots(*this, nodes);
  if (seeds.size() < 2)
    return true;
  unsigned high = 0;
  for (unsigned seed : seeds)
    high = std::max(high, ranks[seed]);
  List reached;
  return reach(outs, seeds, 0, high, reached);
}

unsigned ClusterGraph::merge(ArrayRef<unsigned> nodes) {
  SmallVector<unsigned> seeds = roots(*this, nodes);
  if (seeds.size() < 2)
    return seeds.front();
  unsigned low = ~0u, high = 0;
  for (unsigned seed : seeds) {
    low = std::min(low, ranks[seed]);
    high = std::max(high, ranks[seed]);
  }
  List before, after;
  reach(outs, seeds, low, high, after);
  reach(ins, seeds, low, high, before);

  // What comes before takes the lowest of the freed ranks, what comes after
  // the highest, and the merged node one between them.
  auto byRank = [&](unsigned a, unsigned b) { return ranks[a] < ranks[b]; };
  llvm::sort(before, byRank);
  llvm::sort(after, byRank);
  SmallVector<unsigned> pool;
  for (ArrayRef<unsigned> list :
       {ArrayRef<unsigned>(before), ArrayRef<unsigned>(after),
        ArrayRef<unsigned>(seeds)})
    for (unsigned node : list)
      pool.push_back(ranks[node]);
  llvm::sort(pool);
  for (size_t i = 0; i < before.size(); ++i)
    ranks[before[i]] = pool[i];
  for (size_t i = 0; i < after.size(); ++i)
    ranks[after[i]] = pool[pool.size() - after.size() + i];

  // The node with most edges keeps its lists.
  unsigned into = seeds.front();
  for (unsigned seed : seeds)
    if (outs[seed].size() + ins[seed].size() >
        outs[into].size() + ins[into].size())
      into = seed;
  ranks[into] = pool[before.size()];
  for (unsigned seed : seeds) {
    if (seed == into)
      continue;
    parents[seed] = into;
    llvm::append_range(outs[into], outs[seed]);
    llvm::append_range(ins[into], ins[seed]);
    outs[seed].clear();
    ins[seed].clear();
  }
  return into;
}
