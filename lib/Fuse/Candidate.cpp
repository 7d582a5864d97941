//===- Candidate.cpp - What enters and leaves a set of ops ----------------===//

#include "Families.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::fuse;

Candidate::Candidate(ArrayRef<Operation *> ops) {
  stripBorder(ops);
  llvm::DenseSet<Value> seen;
  for (Operation *op : core) {
    for (Value operand : op->getOperands()) {
      Operation *def = operand.getDefiningOp();
      if (def && (contains(def) || isSmallConstant(def)))
        continue;
      if (seen.insert(operand).second)
        entering.push_back(operand);
    }
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !contains(user); }))
        leaving.push_back(result);
  }
}

void Candidate::stripBorder(ArrayRef<Operation *> ops) {
  members.insert(ops.begin(), ops.end());
  auto inside = [&](Operation *op) { return op && contains(op); };
  for (Operation *op : ops)
    if (isAlias(op) && !inside(op->getOperand(0).getDefiningOp())) {
      members.erase(op);
      aliasesBefore.push_back(op);
    }
  for (Operation *op : llvm::reverse(ops))
    if (isAlias(op) && contains(op) && llvm::none_of(op->getUsers(), inside)) {
      members.erase(op);
      aliasesBehind.push_back(op);
    }
  std::reverse(aliasesBehind.begin(), aliasesBehind.end());
  for (Operation *op : ops)
    if (contains(op))
      core.push_back(op);
}
