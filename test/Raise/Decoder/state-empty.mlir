// RUN: not fusion-opt %s --fusion-make-cache-state=max-context=512 2>&1 | FileCheck %s

// A run of no tokens appends nothing, and its append has been folded.

// CHECK: input "input_ids": axis 1 has the size 0, with which nothing is appended to the cache
func.func @main(%ids: tensor<1x0xi64> {fusion.name = "input_ids", fusion.role = "token_ids"},
    %past: tensor<1x2x?x64xf32, #fusion.shape<[1, 2, past, 64]>> {fusion.name = "past_key_values.0.key", fusion.role = "past_key"})
    -> (tensor<1x2x?x64xf32, #fusion.shape<[1, 2, past, 64]>> {fusion.name = "present.0.key", fusion.role = "present_key"}) {
  return %past : tensor<1x2x?x64xf32, #fusion.shape<[1, 2, past, 64]>>
}
