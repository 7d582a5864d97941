//===- Passes.td - Passes of the plan phase ---------------------*- tablegen -*-===//

#ifndef FUSION_PLAN_PASSES_TD
#define FUSION_PLAN_PASSES_TD

include "mlir/Pass/PassBase.td"

def SplitAppends : Pass<"fusion-split-appends", "::mlir::func::FuncOp"> {
  let summary = "attention groups become an append group and an attention group";
  let description = [{
    All `kv_append` ops of a group with an attention, and what computes their
    new rows (K's rotation), form a group of family `append`; the attention
    group reads the appended caches. Every worker of the attention then sees
    complete keys and values.

    In a function for the card (`fusion.device`), groups that its decode kernel
    takes whole stay: it puts the new rows where they are needed, and saves a
    launch. Keys and values that a group without appends computes (rotates, say)
    form a group of their own there when its fast templates then take the
    attention: they copy blocks of keys and values from memory.
  }];
}

def OutlineKernels : Pass<"fusion-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "equal groups share one fusion.kernel";
  let description = [{
    Symbolic sizes are renamed to d0, d1, ... in order of first appearance, so
    that groups which differ only in the names of their sizes are equal. Each
    group is bound to its kernel by the attributes `plan.kernel` and
    `plan.sizes` (the values of d0, d1, ...). Results of groups that nothing
    uses disappear; constants of more than 16 elements leave the groups.
    A norm that one product of few rows and packed weights reads joins it.
  }];
  let options = [Option<"foldNorms", "fold-norms", "bool", "true",
                        "norms join products of few rows and packed weights">];
}

def LowerToLaunches : Pass<"fusion-lower-to-launches", "::mlir::ModuleOp"> {
  let summary = "functions of groups become programs of launches";
  let description = [{
    Each function becomes a `plan.program`, its signature a `plan.model`. Groups
    become launches; contiguous reshapes and slices become aliases; results are
    written where the function returns them, or copied there when they have
    another home; appends to a session state happen in place. Groups over
    constants only become constants that Link evaluates.
  }];
  let dependentDialects = ["::fusion::plan::PlanDialect", "::fusion::FusionDialect"];
}

def PlanMemory : Pass<"fusion-plan-memory", "::mlir::ModuleOp"> {
  let summary = "live ranges of arena slices, and the arena's size";
  let description = [{
    Gives every `plan.alloc` its first and last launch and drops those that
    nothing uses. Each program records the bytes of its arena at the upper ends
    of its sizes, and the lower bound that liveness gives; a size without an
    upper end counts as `unbounded`.
  }];
  let options = [Option<"unbounded", "unbounded", "int64_t", "1024",
                        "value that stands for a size without an upper end">];
}

def VerifyPlanned : Pass<"fusion-verify-planned", "::mlir::ModuleOp"> {
  let summary = "checks the invariants of planned IR";
  let description = [{
    One model, at least one program, no functions or groups; every size names
    declared symbols; buffers are written before they are read, inputs and
    weights never, each output once or more; live ranges cover all uses.
  }];
}

#endif // FUSION_PLAN_PASSES_TD
