//===- VerifyPlanned.cpp - Invariants of planned IR -----------------------===//

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Plan/Passes.h"

#include "llvm/ADT/StringSet.h"

namespace fusion {
#define GEN_PASS_DEF_VERIFYPLANNED
#include "fusion/Plan/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;
using namespace fusion::plan;

namespace {

class ProgramVerifier {
public:
  ProgramVerifier(ModelOp model, ProgramOp program)
      : model(model), program(program) {
    for (SymbolOp symbol : model.getBody().getOps<SymbolOp>())
      symbols.insert(symbol.getName());
  }

  LogicalResult verify() {
    if (failed(checkExpr(program, program.getRowsAttr())))
      return failure();
    if (auto fixed = program.getFixed())
      for (NamedAttribute value : *fixed)
        if (!symbols.contains(value.getName()))
          return program.emitOpError("fixes the unknown symbol ")
                 << value.getName();
    for (Operation &op : program.getBody().front())
      if (failed(checkOp(&op)))
        return failure();
    return checkOutputs();
  }

private:
  size_t countOf(Operation *handle) {
    Region &body = model.getBody();
    auto size = [](auto range) {
      return static_cast<size_t>(std::distance(range.begin(), range.end()));
    };
    if (isa<plan::InputOp>(handle))
      return size(body.getOps<ModelInputOp>());
    if (isa<plan::OutputOp>(handle))
      return size(body.getOps<ModelOutputOp>());
    return size(body.getOps<ModelStateOp>());
  }

  LogicalResult checkExpr(Operation *op, StringAttr text) {
    // The same few sizes stand everywhere.
    if (!text || !checked.insert(text).second)
      return success();
    for (const std::string &name : getExpr(text).symbols())
      if (!symbols.contains(name))
        return op->emitOpError("size ")
               << text << " names the undeclared symbol '" << name << "'";
    return success();
  }

  LogicalResult checkOp(Operation *op) {
    if (isa<plan::InputOp, plan::OutputOp, StateOp>(op)) {
      auto index = op->getAttrOfType<IntegerAttr>("index").getInt();
      if (index < 0 || index >= static_cast<int64_t>(countOf(op)))
        return op->emitOpError("names ")
               << index << " of " << countOf(op) << " declared ones";
      return success();
    }
    if (auto alloc = dyn_cast<AllocOp>(op)) {
      if (!alloc.getFirst())
        return op->emitOpError("has no live range; run fusion-plan-memory");
      return checkExpr(op, alloc.getBytesAttr());
    }
    if (auto view = dyn_cast<ViewOp>(op))
      return checkExpr(op, view.getOffsetAttr());
    if (auto launch = dyn_cast<LaunchOp>(op))
      return checkLaunch(launch);
    return success();
  }

  LogicalResult checkLaunch(LaunchOp launch) {
    for (auto size : launch.getSizes().getAsRange<StringAttr>())
      if (failed(checkExpr(launch, size)))
        return failure();
    for (StringAttr text :
         {launch.getGridAttr(), launch.getGrainAttr(), launch.getScratchAttr()})
      if (failed(checkExpr(launch, text)))
        return failure();
    for (Value buffer : launch.getInputs()) {
      Operation *root = resolveViews(buffer).first.getDefiningOp();
      if (isa<AllocOp, plan::OutputOp>(root) && !written.contains(root))
        return launch.emitOpError("reads a buffer before it is written");
      if (failed(checkLife(launch, root)))
        return failure();
    }
    for (Value buffer : launch.getOutputs()) {
      Operation *root = resolveViews(buffer).first.getDefiningOp();
      if (isa<plan::InputOp, plan::WeightOp>(root))
        return launch.emitOpError("writes an input or a weight");
      written.insert(root);
      if (failed(checkLife(launch, root)))
        return failure();
    }
    ++index;
    return success();
  }

  LogicalResult checkLife(LaunchOp launch, Operation *root) {
    auto alloc = dyn_cast<AllocOp>(root);
    if (!alloc || (*alloc.getFirst() <= index && index <= *alloc.getLast()))
      return success();
    return launch.emitOpError("is launch ")
           << index << " and uses a buffer that lives from "
           << *alloc.getFirst() << " to " << *alloc.getLast();
  }

  LogicalResult checkOutputs() {
    llvm::DenseSet<int64_t> done;
    for (Operation *root : written)
      if (auto output = dyn_cast<plan::OutputOp>(root))
        done.insert(output.getIndex());
    int64_t i = 0;
    for (ModelOutputOp output : model.getBody().getOps<ModelOutputOp>())
      if (!done.contains(i++))
        return program.emitOpError("never writes output '")
               << output.getName() << "'";
    return success();
  }

  ModelOp model;
  ProgramOp program;
  llvm::StringSet<> symbols;
  llvm::DenseSet<StringAttr> checked;
  llvm::DenseSet<Operation *> written;
  int64_t index = 0;
};

struct VerifyPlanned final : fusion::impl::VerifyPlannedBase<VerifyPlanned> {
  void runOnOperation() override {
    if (failed(verify(getOperation())))
      signalPassFailure();
    markAllAnalysesPreserved();
  }

  static LogicalResult verify(ModuleOp module) {
    SmallVector<ModelOp> models(module.getOps<ModelOp>());
    if (models.size() != 1)
      return module.emitError("expected one plan.model, found ")
             << models.size();
    for (Operation &op : *module.getBody())
      if (!isa<ModelOp, plan::ConstantOp, KernelOp, ProgramOp>(op))
        return op.emitOpError("does not belong in a planned module");
    auto programs = module.getOps<ProgramOp>();
    if (programs.empty())
      return module.emitError("expected a plan.program");
    for (ProgramOp program : programs)
      if (failed(ProgramVerifier(models.front(), program).verify()))
        return failure();
    return success();
  }
};
} // namespace
