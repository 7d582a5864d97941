// RUN: fusion-opt %s --split-input-file --fusion-raise | FileCheck %s

!past = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, past, 8]>>
!new = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, seq, 8]>>
!all = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, "past + seq", 8]>>

// CHECK-LABEL: func.func @cached
// CHECK: %[[N:.*]] = fusion.neg
// CHECK: %[[K:.*]] = fusion.kv_append %arg1, %[[N]] axis = 2
// CHECK: %[[R:.*]] = fusion.attention %arg0, %[[K]], %[[K]]
// CHECK: return %[[R]], %[[K]]
func.func @cached(%q: !new, %past: !past, %new: !new) -> (!new, !all) {
  %n = fusion.neg %new : (!new) -> !new
  %k = fusion.concat %past, %n axis = 2 : (!past, !new) -> !all
  %0 = fusion.attention %q, %k, %k {scale = 1.0 : f32} : (!new, !all, !all) -> !new
  return %0, %k : !new, !all
}

// -----

// Heads concatenated: no cache.
// CHECK-LABEL: func.func @heads
// CHECK: fusion.concat
// CHECK-NOT: fusion.kv_append
func.func @heads(%q: tensor<1x4x3x8xf32>, %a: tensor<1x2x3x8xf32>, %b: tensor<1x2x3x8xf32>) -> tensor<1x4x3x8xf32> {
  %n = fusion.neg %b : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %k = fusion.concat %a, %n axis = 1 : (tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x4x3x8xf32>
  %0 = fusion.attention %q, %k, %k {scale = 1.0 : f32} : (tensor<1x4x3x8xf32>, tensor<1x4x3x8xf32>, tensor<1x4x3x8xf32>) -> tensor<1x4x3x8xf32>
  return %0 : tensor<1x4x3x8xf32>
}
