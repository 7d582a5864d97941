//===- Passes.td - Roles and session state of decoders ---*- tablegen -*-===//

#ifndef FUSION_RAISE_DECODER_PASSES_TD
#define FUSION_RAISE_DECODER_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignRoles : Pass<"fusion-assign-roles", "::mlir::ModuleOp"> {
  let summary = "find what the inputs and outputs of a decoder mean";
  let description = [{
    Sets `fusion.role` on arguments and results of `@main`: token_ids,
    attention_mask, position_ids, past_key, past_value; logits, present_key,
    present_value. By the names that exporters use, and by structure: token
    ids index the embedding, a present value is what `kv_append` makes of a
    past one. `roles` (ROLE=NAME) decides where both fail.
  }];
  let options = [
    ListOption<"roles", "roles", "std::string", "ROLE=NAME of an input or output">,
  ];
}

def BindDecoderInputs : Pass<"fusion-bind-decoder-inputs", "::mlir::ModuleOp"> {
  let summary = "compute the attention mask and the positions in the model";
  let description = [{
    For a cache that is session state: every cached token is attended to and
    positions follow the number of cached tokens, so the inputs with these
    roles are replaced by constants and `iota`. A symbolic batch becomes
    `batch`. With `own-lengths` the inputs stay: fusion-sequence-lengths replaces
    them.
  }];
  let options = [
    Option<"ownLengths", "own-lengths", "bool", "false", "sequences have cached lengths of their own">,
    Option<"batch", "batch", "int64_t", "1", "value of a symbolic batch size">,
  ];
}

def AppendCaches : Pass<"fusion-append-caches", "::mlir::ModuleOp"> {
  let summary = "concatenations with a cached input become kv_append";
  let description = [{
    By the roles past_key and past_value of the inputs alone, for graphs whose
    attentions are not raised: the unfused form.
  }];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def SequenceLengths : Pass<"fusion-sequence-lengths", "::mlir::ModuleOp"> {
  let summary = "a cached length for each sequence of a batch";
  let description = [{
    Adds the input `cached_lengths` [batch], which the session gives: tokens
    cached of each sequence. `kv_append` writes behind them, attentions that
    were causal behind the batch's cached length get `offsets`, the inputs
    attention_mask and position_ids become `key < length + new` and
    `length + 0, 1, ...`. What else computes with the cached length is refused.
  }];
  let dependentDialects = ["::fusion::FusionDialect"];
}

def MakeCacheState : Pass<"fusion-make-cache-state", "::mlir::ModuleOp"> {
  let summary = "keep the KV cache inside the session";
  let description = [{
    Gives each past input the storage shape of a cache with room for
    `max-context` tokens and the attribute `fusion.state`; what `kv_append`
    makes of it is the same memory, and the present outputs go away. The symbol
    of the cached length is recorded as `fusion.cached_length` on the module.
  }];
  let options = [
    Option<"maxContext", "max-context", "int64_t", "2048", "tokens that the cache holds">,
  ];
}

def LastLogits : Pass<"fusion-last-logits", "::mlir::ModuleOp"> {
  let summary = "compute the logits of a run's last token alone";
  let description = [{
    The output with the role logits keeps its last row, and so do the head's
    product and the elementwise ops between the two: a prompt of many tokens
    pays for one row of the head. For sessions that only generate. With
    `own-lengths` the last row is each sequence's own: the pass adds the input
    `token_counts` [batch], which the session gives, tokens of each sequence
    that are no padding.
  }];
  let options = [
    Option<"ownLengths", "own-lengths", "bool", "false", "sequences have lengths of their own">,
  ];
  let dependentDialects = ["::fusion::FusionDialect"];
}

#endif // FUSION_RAISE_DECODER_PASSES_TD
