// RUN: fusion-opt %s --fusion-clone-buckets=device=h200 | FileCheck %s
// RUN: fusion-opt %s --fusion-clone-buckets | FileCheck %s --check-prefix=HOST

// Four sequences: a step has four rows, and the classes of more rows begin
// behind them.

!ids = tensor<4x?xi64, #fusion.shape<[4, seq]>>
!x = tensor<4x?x8xf32, #fusion.shape<[4, seq, 8]>>
!past = tensor<4x?x8xf32, #fusion.shape<[4, past, 8]>>
!now = tensor<4x?x8xf32, #fusion.shape<[4, "past + seq", 8]>>

// CHECK: func.func @decode(%{{.*}}: tensor<4x1xi64>
// CHECK-SAME: fusion.bucket = {fixed = {seq = 1 : i64}, max = 4 : i64, min = 4 : i64, rows = "4*seq"}
// CHECK: func.func @small_m(
// CHECK-SAME: fusion.bucket = {max = 64 : i64, min = 5 : i64, rows = "4*seq"}
// CHECK: func.func @prefill(
// CHECK-SAME: fusion.bucket = {min = 65 : i64, rows = "4*seq"}
// HOST: func.func @decode(%{{.*}}: tensor<4x1xi64>
// HOST-SAME: fusion.bucket = {fixed = {seq = 1 : i64}, max = 4 : i64, min = 4 : i64, rows = "4*seq"}
// HOST: func.func @prefill(
// HOST-SAME: fusion.bucket = {min = 5 : i64, rows = "4*seq"}
func.func @main(%ids: !ids {fusion.role = "token_ids"}, %past: !past) -> !now {
  %table = fusion.constant dense<1.0> : tensor<16x8xf32>
  %x = fusion.gather %table, %ids axis = 0 : (tensor<16x8xf32>, !ids) -> !x
  %y = fusion.kv_append %past, %x axis = 1 : (!past, !x) -> !now
  return %y : !now
}
