// RUN: fusion-opt %s --fusion-assign-roles --fusion-bind-decoder-inputs=own-lengths --fusion-sequence-lengths --fusion-make-cache-state=max-context=64 | FileCheck %s

// The session gives the lengths; mask and positions are computed from them.

!past = tensor<3x2x?x8xf32, #fusion.shape<[3, 2, past, 8]>>
!new = tensor<3x2x?x8xf32, #fusion.shape<[3, 2, seq, 8]>>
!all = tensor<3x2x?x8xf32, #fusion.shape<[3, 2, "past + seq", 8]>>
!ids = tensor<3x?xi64, #fusion.shape<[3, seq]>>
!mask = tensor<3x?xi64, #fusion.shape<[3, "past + seq"]>>

// CHECK-LABEL: func.func @main
// CHECK-NOT: attention_mask
// CHECK-SAME: %[[L:arg[0-9]+]]: tensor<3xi32> {fusion.name = "cached_lengths", fusion.role = "cached_lengths"}
// CHECK: %[[SEEN:.*]] = fusion.less
// CHECK: fusion.cast %[[SEEN]]
// CHECK: %[[POS:.*]] = fusion.add %{{.*}}, %{{.*}} : (tensor<3x1xi32>, tensor<1x?xi32
// CHECK: fusion.cast %[[POS]]
// CHECK: fusion.kv_append {{.*}} lengths %[[L]] axis = 2
// CHECK: fusion.attention {{.*}} offsets %[[L]] {causal, masked_rows
// CHECK: fusion.kv_append {{.*}} lengths %[[L]] axis = 2
// CHECK: fusion.attention {{.*}} valid_lengths %{{.*}} {scale
func.func @main(
    %ids: !ids {fusion.name = "input_ids"}, %mask: !mask {fusion.name = "attention_mask"}, %pos: !ids {fusion.name = "position_ids"},
    %past: !past {fusion.name = "past_key_values.0.key"}, %pastv: !past {fusion.name = "past_key_values.0.value"}, %new: !new {fusion.name = "new"})
    -> (!ids {fusion.name = "p"}, !mask {fusion.name = "m"}, !new {fusion.name = "y"}, !new {fusion.name = "z"}) {
  %seen = fusion.cast %mask : (!mask) -> tensor<3x?xi1, #fusion.shape<[3, "past + seq"]>>
  %k = fusion.kv_append %past, %new axis = 2 : (!past, !new) -> !all
  %y = fusion.attention %new, %k, %k key_mask %seen {scale = 1.0 : f32, causal, causal_offset = "past", masked_rows = "uniform"} : (!new, !all, !all, tensor<3x?xi1, #fusion.shape<[3, "past + seq"]>>) -> !new
  %v = fusion.kv_append %pastv, %new axis = 2 : (!past, !new) -> !all
  %z = fusion.attention %new, %v, %v {scale = 1.0 : f32} : (!new, !all, !all) -> !new
  return %pos, %mask, %y, %z : !ids, !mask, !new, !new
}
