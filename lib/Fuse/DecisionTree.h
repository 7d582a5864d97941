//===- DecisionTree.h - Which ops become one kernel -------------*- C++ -*-===//

#ifndef FUSION_LIB_FUSE_DECISIONTREE_H
#define FUSION_LIB_FUSE_DECISIONTREE_H

#include "Grouping.h"

namespace fusion::fuse {

/// A site with what became of it.
struct SiteDecision {
  Site site;
  Attempt attempt;
};

/// Runs the tree over a function; `sites` are its marked sites.
std::vector<SiteDecision> decide(Grouping &grouping, std::vector<Site> sites);

} // namespace fusion::fuse

#endif // FUSION_LIB_FUSE_DECISIONTREE_H
