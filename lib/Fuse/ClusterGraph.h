//===- ClusterGraph.h - Merging nodes of a graph without cycles -*- C++ -*-===//
//
// An acyclic graph whose nodes are merged step by step. A merge is refused
// when it would close a cycle: when a path leaves the merged nodes and comes
// back. A topological rank of every node, kept up as in Pearce and Kelly, "A
// dynamic topological sort algorithm for directed acyclic graphs" (2006),
// bounds each search to the ranks between the merged nodes.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_FUSE_CLUSTERGRAPH_H
#define FUSION_LIB_FUSE_CLUSTERGRAPH_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

namespace fusion::fuse {

class ClusterGraph {
public:
  /// Nodes 0 .. count-1 in a topological order.
  explicit ClusterGraph(unsigned count);
  void addEdge(unsigned from, unsigned to);

  /// The node that `node` was merged into.
  unsigned find(unsigned node) const;
  /// Whether `nodes` may become one node.
  bool canMerge(llvm::ArrayRef<unsigned> nodes);
  /// Merges nodes for which canMerge() holds; returns the merged node.
  unsigned merge(llvm::ArrayRef<unsigned> nodes);

  llvm::SmallVector<unsigned> successors(unsigned node) const;
  llvm::SmallVector<unsigned> predecessors(unsigned node) const;
  /// Ascending along every edge.
  unsigned rank(unsigned node) const { return ranks[find(node)]; }

private:
  using List = llvm::SmallVector<unsigned, 4>;
  llvm::SmallVector<unsigned> neighbours(const std::vector<List> &lists,
                                         unsigned node) const;
  /// What `seeds` reach along `lists` within the ranks [low, high], the seeds
  /// left out. False when a path comes back to a seed.
  bool reach(const std::vector<List> &lists, llvm::ArrayRef<unsigned> seeds,
             unsigned low, unsigned high, List &reached);

  mutable std::vector<unsigned> parents;
  std::vector<unsigned> ranks;
  std::vector<List> outs, ins;
  std::vector<unsigned> stamps;
  unsigned stamp = 0;
};

} // namespace fusion::fuse

#endif // FUSION_LIB_FUSE_CLUSTERGRAPH_H
