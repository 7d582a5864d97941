// RUN: fusion-opt %s --fusion-raise --remarks-filter-missed=raise 2>&1 | FileCheck %s

// CHECK: [Missed] kv_append {{.*}} expected="the past, then the new rows", found="new rows before the past", {{.*}}reason=LAYOUT

!past = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, past, 8]>>
!new = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, seq, 8]>>
!all = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, "past + seq", 8]>>

// CHECK-LABEL: func.func @reversed
// CHECK: fusion.concat
// CHECK-NOT: fusion.kv_append
func.func @reversed(%q: !new, %past: !past, %new: !new) -> (!new, !all) {
  %n = fusion.neg %new : (!new) -> !new
  %k = fusion.concat %n, %past axis = 2 : (!new, !past) -> !all
  %0 = fusion.attention %q, %k, %k {scale = 1.0 : f32} : (!new, !all, !all) -> !new
  return %0, %k : !new, !all
}
