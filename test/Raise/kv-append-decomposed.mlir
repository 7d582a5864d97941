// RUN: fusion-opt %s --split-input-file --fusion-raise | FileCheck %s

!past = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, past, 8]>>
!new = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, seq, 8]>>
!all = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, "past + seq", 8]>>
!wide = tensor<1x2x2x?x8xf32, #fusion.shape<[1, 2, 2, "past + seq", 8]>>
!spread = tensor<1x4x?x8xf32, #fusion.shape<[1, 4, "past + seq", 8]>>
!queries = tensor<1x4x?x8xf32, #fusion.shape<[1, 4, seq, 8]>>
!scores = tensor<1x4x?x?xf32, #fusion.shape<[1, 4, seq, "past + seq"]>>

// A sigmoid in place of the softmax: no attention, but caches that are kept all the same.
// CHECK-LABEL: func.func @sigmoid
// CHECK: %[[K:.*]] = fusion.kv_append %arg1, %{{.*}} axis = 2
// CHECK: %[[V:.*]] = fusion.kv_append %arg3, %{{.*}} axis = 2
// CHECK: return %{{.*}}, %[[K]], %[[V]]
func.func @sigmoid(%q: !queries, %past.k: !past, %new: !new, %past.v: !past) -> (!queries, !all, !all) {
  %n = fusion.neg %new : (!new) -> !new
  %k = fusion.concat %past.k, %n axis = 2 : (!past, !new) -> !all
  %v = fusion.concat %past.v, %n axis = 2 : (!past, !new) -> !all
  %k1 = fusion.reshape %k : (!all) -> tensor<1x2x1x?x8xf32, #fusion.shape<[1, 2, 1, "past + seq", 8]>>
  %k2 = fusion.expand %k1 : (tensor<1x2x1x?x8xf32, #fusion.shape<[1, 2, 1, "past + seq", 8]>>) -> !wide
  %k3 = fusion.reshape %k2 : (!wide) -> !spread
  %v1 = fusion.reshape %v : (!all) -> tensor<1x2x1x?x8xf32, #fusion.shape<[1, 2, 1, "past + seq", 8]>>
  %v2 = fusion.expand %v1 : (tensor<1x2x1x?x8xf32, #fusion.shape<[1, 2, 1, "past + seq", 8]>>) -> !wide
  %v3 = fusion.reshape %v2 : (!wide) -> !spread
  %0 = fusion.matmul %q, %k3 {transpose_rhs} : (!queries, !spread) -> !scores
  %1 = fusion.sigmoid %0 : (!scores) -> !scores
  %2 = fusion.matmul %1, %v3 : (!scores, !spread) -> !queries
  return %2, %k, %v : !queries, !all, !all
}

// -----

// What no product reads is no cache of keys: the last rows of a convolution.
// CHECK-LABEL: func.func @state
// CHECK: fusion.concat
// CHECK-NOT: fusion.kv_append
func.func @state(%past: tensor<1x?x8xf32, #fusion.shape<[1, past, 8]>>, %new: tensor<1x?x8xf32, #fusion.shape<[1, seq, 8]>>) -> tensor<1x?x8xf32, #fusion.shape<[1, "past + seq", 8]>> {
  %n = fusion.neg %new : (tensor<1x?x8xf32, #fusion.shape<[1, seq, 8]>>) -> tensor<1x?x8xf32, #fusion.shape<[1, seq, 8]>>
  %k = fusion.concat %past, %n axis = 1 : (tensor<1x?x8xf32, #fusion.shape<[1, past, 8]>>, tensor<1x?x8xf32, #fusion.shape<[1, seq, 8]>>) -> tensor<1x?x8xf32, #fusion.shape<[1, "past + seq", 8]>>
  return %k : tensor<1x?x8xf32, #fusion.shape<[1, "past + seq", 8]>>
}

// -----

// Read by a product, but not returned.
// CHECK-LABEL: func.func @prefix
// CHECK-NOT: fusion.kv_append
func.func @prefix(%q: tensor<1x2x3x8xf32>, %past: tensor<1x2x4x8xf32>, %new: tensor<1x2x3x8xf32>) -> tensor<1x2x3x7xf32> {
  %n = fusion.neg %new : (tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  %k = fusion.concat %past, %n axis = 2 : (tensor<1x2x4x8xf32>, tensor<1x2x3x8xf32>) -> tensor<1x2x7x8xf32>
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x3x8xf32>, tensor<1x2x7x8xf32>) -> tensor<1x2x3x7xf32>
  return %0 : tensor<1x2x3x7xf32>
}
