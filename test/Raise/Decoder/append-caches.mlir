// RUN: fusion-opt %s --split-input-file --fusion-append-caches | FileCheck %s

!past = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, past, 8]>>
!new = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, seq, 8]>>
!all = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, "past + seq", 8]>>

// No attention reads it.
// CHECK-LABEL: func.func @main
// CHECK: %[[K:.*]] = fusion.kv_append %arg0, %arg1 axis = 2
// CHECK: return %[[K]]
func.func @main(%past: !past {fusion.role = "past_key"}, %new: !new) -> !all {
  %k = fusion.concat %past, %new axis = 2 : (!past, !new) -> !all
  return %k : !all
}

// -----

!past = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, past, 8]>>
!new = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, seq, 8]>>
!all = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, "past + seq", 8]>>

// The cache stands behind, or the input is none.
// CHECK-LABEL: func.func @main
// CHECK-NOT: fusion.kv_append
func.func @main(%past: !past {fusion.role = "past_key"}, %new: !new, %x: !past) -> (!all, !all) {
  %k = fusion.concat %new, %past axis = 2 : (!new, !past) -> !all
  %l = fusion.concat %x, %new axis = 2 : (!past, !new) -> !all
  return %k, %l : !all, !all
}
