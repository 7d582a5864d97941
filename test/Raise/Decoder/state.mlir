// RUN: fusion-opt %s --fusion-assign-roles --fusion-bind-decoder-inputs --fusion-make-cache-state=max-context=512 | FileCheck %s

// The mask and the positions are computed, the caches stay in the session.

// CHECK: module attributes {fusion.cached_length = "past"}
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<1x?xi64, #fusion.shape<[1, seq]>> {fusion.name = "input_ids", fusion.role = "token_ids"}
// CHECK-SAME: storage = [1, 2, 512, 64]>> {fusion.name = "past_key_values.0.key", fusion.role = "past_key", fusion.state = 0 : i64}
// CHECK-NOT: attention_mask
// CHECK-NOT: present
// CHECK: fusion.constant dense<1>
// CHECK: fusion.expand
// CHECK: fusion.iota "past" step "1"
// CHECK: fusion.kv_append {{.*}} storage = [1, 2, 512, 64]
func.func @main(
    %ids: tensor<?x?xi64, #fusion.shape<[batch, seq]>> {fusion.name = "input_ids"},
    %mask: tensor<?x?xi64, #fusion.shape<[batch, "past + seq"]>> {fusion.name = "attention_mask"},
    %pos: tensor<?x?xi64, #fusion.shape<[batch, seq]>> {fusion.name = "position_ids"},
    %past: tensor<?x2x?x64xf32, #fusion.shape<[batch, 2, past, 64]>> {fusion.name = "past_key_values.0.key"},
    %new: tensor<?x2x?x64xf32, #fusion.shape<[batch, 2, seq, 64]>> {fusion.name = "new"})
    -> (tensor<?x?xi64, #fusion.shape<[batch, "past + seq"]>> {fusion.name = "mask"},
        tensor<?x?xi64, #fusion.shape<[batch, seq]>> {fusion.name = "positions"},
        tensor<?x2x?x64xf32, #fusion.shape<[batch, 2, "past + seq", 64]>> {fusion.name = "present.0.key"}) {
  %0 = fusion.kv_append %past, %new axis = 2 : (tensor<?x2x?x64xf32, #fusion.shape<[batch, 2, past, 64]>>, tensor<?x2x?x64xf32, #fusion.shape<[batch, 2, seq, 64]>>) -> tensor<?x2x?x64xf32, #fusion.shape<[batch, 2, "past + seq", 64]>>
  return %mask, %pos, %0 : tensor<?x?xi64, #fusion.shape<[batch, "past + seq"]>>, tensor<?x?xi64, #fusion.shape<[batch, seq]>>, tensor<?x2x?x64xf32, #fusion.shape<[batch, 2, "past + seq", 64]>>
}
