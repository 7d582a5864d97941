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

// -----

// Keys are computed from what is cached (latent attention): it is as long as they are, and a result.
// CHECK-LABEL: func.func @latent
// CHECK: %[[N:.*]] = fusion.neg %arg2
// CHECK: %[[C:.*]] = fusion.kv_append %arg1, %[[N]] axis = 1
// CHECK: fusion.matmul %[[C]]
// CHECK: return %{{.*}}, %[[C]]
func.func @latent(%q: tensor<1x2x?x8xf32, #fusion.shape<[1, 2, seq, 8]>>, %past: tensor<1x?x4xf32, #fusion.shape<[1, past, 4]>>, %new: tensor<1x?x4xf32, #fusion.shape<[1, seq, 4]>>, %w: tensor<4x16xf32>)
    -> (tensor<1x2x?x8xf32, #fusion.shape<[1, 2, seq, 8]>>, tensor<1x?x4xf32, #fusion.shape<[1, "past + seq", 4]>>) {
  %row = fusion.neg %new : (tensor<1x?x4xf32, #fusion.shape<[1, seq, 4]>>) -> tensor<1x?x4xf32, #fusion.shape<[1, seq, 4]>>
  %n = fusion.concat %past, %row axis = 1 : (tensor<1x?x4xf32, #fusion.shape<[1, past, 4]>>, tensor<1x?x4xf32, #fusion.shape<[1, seq, 4]>>) -> tensor<1x?x4xf32, #fusion.shape<[1, "past + seq", 4]>>
  %m = fusion.matmul %n, %w : (tensor<1x?x4xf32, #fusion.shape<[1, "past + seq", 4]>>, tensor<4x16xf32>) -> tensor<1x?x16xf32, #fusion.shape<[1, "past + seq", 16]>>
  %h = fusion.reshape %m : (tensor<1x?x16xf32, #fusion.shape<[1, "past + seq", 16]>>) -> tensor<1x?x2x8xf32, #fusion.shape<[1, "past + seq", 2, 8]>>
  %k = fusion.transpose %h perm = [0, 2, 1, 3] : (tensor<1x?x2x8xf32, #fusion.shape<[1, "past + seq", 2, 8]>>) -> tensor<1x2x?x8xf32, #fusion.shape<[1, 2, "past + seq", 8]>>
  %0 = fusion.attention %q, %k, %k {scale = 1.0 : f32} : (tensor<1x2x?x8xf32, #fusion.shape<[1, 2, seq, 8]>>, tensor<1x2x?x8xf32, #fusion.shape<[1, 2, "past + seq", 8]>>, tensor<1x2x?x8xf32, #fusion.shape<[1, 2, "past + seq", 8]>>) -> tensor<1x2x?x8xf32, #fusion.shape<[1, 2, seq, 8]>>
  return %0, %n : tensor<1x2x?x8xf32, #fusion.shape<[1, 2, seq, 8]>>, tensor<1x?x4xf32, #fusion.shape<[1, "past + seq", 4]>>
}
