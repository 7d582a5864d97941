//===- Grouping.h - A function's ops as clusters ----------------*- C++ -*-===//
//
// The state that the decision tree works on: every op that is no constant is
// in one cluster; a merge is made when it is legal and, where asked, pays.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_FUSE_GROUPING_H
#define FUSION_LIB_FUSE_GROUPING_H

#include "ClusterGraph.h"
#include "CostModel.h"
#include "Measured.h"
#include "Sites.h"

#include "llvm/Support/GlobPattern.h"

namespace fusion::fuse {

/// What the user switched off.
class Disabled {
public:
  explicit Disabled(llvm::ArrayRef<std::string> texts);
  bool site(const Site &site) const;
  bool rule(llvm::StringRef rule) const;

private:
  struct Entry {
    std::string kind;
    std::optional<llvm::GlobPattern> node;
  };
  std::vector<Entry> entries;
};

/// The outcome of one attempt.
struct Attempt {
  std::optional<Refusal> refusal;
  double secondsBefore = 0, secondsAfter = 0;
  /// Of the bucket's time in a profile, where it decided.
  std::optional<double> measuredShare;
  bool ok() const { return !refusal; }
};

class Grouping {
public:
  Grouping(mlir::func::FuncOp func, CostModel &costs, const Disabled &disabled,
           int64_t fuel, MeasuredBucket measured = {});

  enum class Gate { Always, IfItPays };
  /// Merges clusters. `rule` names the decision in remarks. Merging one
  /// cluster with itself succeeds and says nothing.
  Attempt tryMerge(llvm::ArrayRef<unsigned> clusters, llvm::StringRef rule,
                   Gate gate);
  /// Whether and at what times the clusters could be merged; no remark.
  Attempt examine(llvm::ArrayRef<unsigned> clusters, Gate gate);

  mlir::func::FuncOp getFunction() const { return func; }
  llvm::ArrayRef<mlir::Operation *> ops() const { return nodes; }
  unsigned clusterOf(mlir::Operation *op) const {
    return graph.find(places.lookup(op));
  }
  bool isNode(mlir::Operation *op) const { return places.contains(op); }
  /// In block order.
  llvm::ArrayRef<mlir::Operation *> members(unsigned cluster) const {
    return lists[cluster];
  }
  Family familyOf(unsigned cluster) const { return families[cluster]; }
  /// A cluster of nothing but border reshapes, which costs nothing.
  bool isFree(unsigned cluster) const;
  /// Clusters in topological order.
  llvm::SmallVector<unsigned> clusters() const;
  /// Neighbours, ordered by rank.
  llvm::SmallVector<unsigned> successors(unsigned cluster) const;
  llvm::SmallVector<unsigned> predecessors(unsigned cluster) const;

  /// Remarks on every tensor that still passes through memory between two
  /// clusters, with the reason.
  void explainEdges();

  CostModel &getCosts() { return costs; }
  Cost clusterCost(unsigned cluster);
  const Disabled &getDisabled() const { return disabled; }
  const MeasuredBucket &getMeasured() const { return measured; }

private:
  bool measurementTakes(Attempt &attempt,
                        llvm::ArrayRef<mlir::Operation *> ops) const;
  bool separates(llvm::ArrayRef<unsigned> clusters) const;
  llvm::SmallVector<mlir::Operation *>
  gather(llvm::ArrayRef<unsigned> clusters) const;
  void remark(const Attempt &attempt, llvm::StringRef rule,
              llvm::ArrayRef<mlir::Operation *> ops);

  mlir::func::FuncOp func;
  CostModel &costs;
  const Disabled &disabled;
  int64_t fuel;
  MeasuredBucket measured;
  llvm::SmallVector<mlir::Operation *> nodes;
  llvm::DenseMap<mlir::Operation *, unsigned> places;
  ClusterGraph graph;
  std::vector<llvm::SmallVector<mlir::Operation *>> lists;
  std::vector<Family> families;
  llvm::DenseMap<unsigned, Cost> clusterCosts;
  /// Switched-off sites of each op, by number.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<unsigned, 1>> kept;
};

} // namespace fusion::fuse

#endif // FUSION_LIB_FUSE_GROUPING_H
