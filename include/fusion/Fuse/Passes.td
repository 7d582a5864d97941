//===- Passes.td - Passes of the Fuse phase ---------------------*- tablegen -*-===//

#ifndef FUSION_FUSE_PASSES_TD
#define FUSION_FUSE_PASSES_TD

include "mlir/Pass/PassBase.td"

def CloneBuckets : Pass<"fusion-clone-buckets", "::mlir::ModuleOp"> {
  let summary = "one function for each class of token rows";
  let description = [{
    Clones `@main` into `@decode` (one token row, or one a sequence where the
    batch is fixed), `@small_m` (up to 64) and `@prefill` (more), each with the
    attribute `fusion.bucket`. In `@decode` the symbols of the token rows are 1.
    The host needs two classes, `@decode`
    and `@prefill`. A function without a symbolic token dimension or without a
    cache stays one `@main`.
  }];
  let options = [
    Option<"device", "device", "std::string", "\"host\"", "h100, h200 or host">,
    Option<"single", "single", "bool", "false", "keep one function">,
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def CloneFreeOps : Pass<"fusion-clone-free-ops", "::mlir::func::FuncOp"> {
  let summary = "one copy for each user of what is free to repeat";
  let description = [{
    Views, and the widening of constants (dequantisation, casts), cost nothing
    inside a kernel. With one user each they can follow that user into its
    group. Equal groups that come of it are merged again behind.
  }];
}

def MarkSites : Pass<"fusion-mark-sites", "::mlir::ModuleOp"> {
  let summary = "name the sites where known patterns may fuse";
  let description = [{
    Puts `fusion.sites = ["kind:node", ...]` on every op that belongs to a site
    of a known pattern, and the list of all sites on the module. Kinds:
    add_rms_norm, add_layer_norm, swiglu, geglu, rope_attention,
    dequant_matmul.
  }];
}

def FormGroups : Pass<"fusion-form-groups", "::mlir::ModuleOp"> {
  let summary = "form fusion groups by the decision tree";
  let description = [{
    Every op of every function enters a `fusion.group`, unless it is a constant
    or a contiguous reshape at the border of a group. See lib/Fuse/README.md
    for the tree. Each decision is a remark of category `fuse`.
  }];
  let options = [
    Option<"device", "device", "std::string", "\"host\"", "h100, h200 or host">,
    ListOption<"disable", "disable", "std::string",
               "KIND or KIND@NODE that is not to be fused">,
    Option<"numerics", "numerics", "std::string", "\"default\"",
           "strict or default">,
    Option<"fuel", "fuel", "int64_t", "-1",
           "number of fusions to make in each function; negative: all">,
    Option<"measured", "measured", "std::string", "\"\"",
           "profile of a run, as fusion-run --profile writes it">,
    Option<"explain", "explain", "std::string", "\"\"",
           "print the report to the error stream: summary, text or json">,
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def GroupPerNode : Pass<"fusion-group-per-node", "::mlir::ModuleOp"> {
  let summary = "one group for each node of the model";
  let description = [{
    The unfused form: ops of equal location form one group where one kernel
    family can execute them, one group each otherwise.
  }];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def VerifyFused : Pass<"fusion-verify-fused", "::mlir::ModuleOp"> {
  let summary = "check what Fuse promises to Plan";
  let description = [{
    Each function holds groups, constants, contiguous reshapes and its return
    only; each group has a kernel family that accepts its ops; its outputs lie
    over one iteration space; each function has a bucket.
  }];
}

#endif // FUSION_FUSE_PASSES_TD
