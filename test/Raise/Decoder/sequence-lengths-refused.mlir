// RUN: not fusion-opt %s --fusion-assign-roles --fusion-bind-decoder-inputs=own-lengths --fusion-sequence-lengths 2>&1 | FileCheck %s

// Positions that the model counts from the batch's cached length.

// CHECK: --kv-lengths=own: this node computes with past, and each sequence has a cached length of its own; use --kv-lengths=shared
func.func @main(
    %ids: tensor<2x?xi64, #fusion.shape<[2, seq]>> {fusion.name = "input_ids"},
    %past: tensor<2x2x?x8xf32, #fusion.shape<[2, 2, past, 8]>> {fusion.name = "past_key_values.0.key"})
    -> tensor<?xi64, #fusion.shape<[seq]>> {
  %p = fusion.iota "past" step "1" : tensor<?xi64, #fusion.shape<[seq]>>
  return %p : tensor<?xi64, #fusion.shape<[seq]>>
}
