//===- EmitGroups.cpp - Clusters become fusion.group ----------------------===//

#include "EmitGroups.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::fuse;

std::string fuse::defaultKind(const Candidate &c, const Form &form) {
  bool named = form.family == Family::RowReduction ||
               form.family == Family::Append ||
               form.family == Family::Sequential;
  if (named && form.hero)
    return form.hero->getName().stripDialect().str();
  return stringify(form.family).str();
}

namespace {
class Emitter {
public:
  Emitter(func::FuncOp func, EmitOptions options)
      : block(func.getBody().front()), end(block.getTerminator()), builder(end),
        strict(options.strict), abilities(options.abilities) {
    auto bucket =
        func->getAttrOfType<DictionaryAttr>(FusionDialect::kBucketAttr);
    if (!options.withRows || !bucket)
      return;
    auto min = bucket.getAs<IntegerAttr>("min"),
         max = bucket.getAs<IntegerAttr>("max");
    rows = builder.getDenseI64ArrayAttr(
        {min ? min.getInt() : 1, max ? max.getInt() : INT64_MAX});
    // Where the model itself has one row, too.
    if (abilities.foldsRow)
      rows = builder.getDenseI64ArrayAttr({1, 1});
  }

  void hoistConstants() {
    Operation *last = nullptr;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (!isConstant(&op))
        continue;
      if (last)
        op.moveAfter(last);
      else
        op.moveBefore(&block, block.begin());
      last = &op;
    }
  }

  void emit(const GroupPlan &plan) {
    Candidate candidate(plan.ops);
    for (Operation *alias : candidate.before())
      alias->moveBefore(end);
    if (!candidate.ops().empty())
      emitGroup(plan, candidate);
    for (Operation *alias : candidate.behind())
      alias->moveBefore(end);
  }

  void dropUnusedConstants() {
    for (Operation &op : llvm::make_early_inc_range(block))
      if (isConstant(&op) && op.use_empty())
        op.erase();
  }

private:
  KernelConfigAttr config(Family family) {
    NamedAttrList params;
    if (strict)
      params.append("numerics", builder.getStringAttr("strict"));
    if (rows && (family == Family::Matmul || family == Family::Attention))
      params.append("rows", rows);
    return KernelConfigAttr::get(builder.getContext(),
                                 builder.getStringAttr(stringify(family)),
                                 params.getDictionary(builder.getContext()));
  }

  /// The hero's node first: it names the group.
  Location location(const Candidate &candidate, const Form &form) {
    SmallVector<Location> locs;
    if (form.hero)
      locs.push_back(form.hero->getLoc());
    for (Operation *op : candidate.ops())
      locs.push_back(op->getLoc());
    return builder.getFusedLoc(locs);
  }

  void emitGroup(const GroupPlan &plan, const Candidate &candidate) {
    Form form = classify(candidate, abilities);
    std::string kind =
        plan.kind.empty() ? defaultKind(candidate, form) : plan.kind;
    auto group = GroupOp::create(
        builder, location(candidate, form), TypeRange(candidate.outputs()),
        builder.getStringAttr(kind), candidate.inputs(), config(form.family));
    if (!plan.sites.empty()) {
      SmallVector<StringRef> sites(plan.sites.begin(), plan.sites.end());
      group->setAttr(FusionDialect::kSitesAttr, builder.getStrArrayAttr(sites));
    }
    fillBody(group, candidate);
  }

  void fillBody(GroupOp group, const Candidate &candidate) {
    Block *body = group.getBody().empty() ? &group.getBody().emplaceBlock()
                                          : group.getBlock();
    llvm::DenseMap<Value, Value> inside;
    for (Value input : candidate.inputs())
      inside[input] = body->addArgument(input.getType(), input.getLoc());
    OpBuilder inner = OpBuilder::atBlockEnd(body);
    for (Operation *op : candidate.ops())
      for (Value operand : op->getOperands()) {
        Operation *def = operand.getDefiningOp();
        if (def && isSmallConstant(def) && !inside.contains(operand))
          inside[operand] = inner.clone(*def)->getResult(0);
      }
    for (Operation *op : candidate.ops()) {
      op->moveBefore(body, body->end());
      op->removeAttr(FusionDialect::kSitesAttr);
      for (OpOperand &operand : op->getOpOperands())
        if (Value mapped = inside.lookup(operand.get()))
          operand.set(mapped);
    }
    for (auto [i, value] : llvm::enumerate(candidate.outputs()))
      Value(value).replaceUsesWithIf(group.getResult(i), [&](OpOperand &use) {
        return use.getOwner()->getBlock() != body;
      });
    inner.setInsertionPointToEnd(body);
    YieldOp::create(inner, group.getLoc(), candidate.outputs());
  }

  Block &block;
  Operation *end;
  OpBuilder builder;
  bool strict;
  Abilities abilities;
  DenseI64ArrayAttr rows; ///< of the bucket, where groups are to carry them
};
} // namespace

void fuse::emitGroups(func::FuncOp func, ArrayRef<GroupPlan> plans,
                      EmitOptions options) {
  Emitter emitter(func, options);
  emitter.hoistConstants();
  for (const GroupPlan &plan : plans)
    emitter.emit(plan);
  emitter.dropUnusedConstants();
}
