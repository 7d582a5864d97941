// RUN: fusion-opt %s --fusion-clone-buckets=device=h200 --fusion-form-groups | FileCheck %s

// No sequences: no number of rows tells a step from a prompt, so one function
// takes all.

!ids = tensor<0x?xi64, #fusion.shape<[0, seq]>>
!x = tensor<0x?x8xf32, #fusion.shape<[0, seq, 8]>>
!past = tensor<0x?x8xf32, #fusion.shape<[0, past, 8]>>
!now = tensor<0x?x8xf32, #fusion.shape<[0, "past + seq", 8]>>

// CHECK: func.func @main(
// CHECK-SAME: fusion.bucket = {rows = "0"}
// CHECK-NOT: func.func
func.func @main(%ids: !ids {fusion.role = "token_ids"}, %past: !past) -> !now {
  %table = fusion.constant dense<1.0> : tensor<16x8xf32>
  %x = fusion.gather %table, %ids axis = 0 : (tensor<16x8xf32>, !ids) -> !x
  %y = fusion.kv_append %past, %x axis = 1 : (!past, !x) -> !now
  return %y : !now
}
