// RUN: fusion-opt %s --fusion-split-appends | FileCheck %s

// K's rotation goes with the append, Q's stays with the attention; the
// attention reads the appended caches.

// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]]:2 = fusion.group "append" (%[[K:.*]] = %arg1, %[[V:.*]] = %arg2, %[[PK:.*]] = %arg3, %[[PV:.*]] = %arg4, %[[C:.*]] = %arg5)
// CHECK-SAME: kernel #fusion.config<"append", {}>
// CHECK-NEXT: %[[R:.*]] = fusion.rope %[[K]], %[[C]], %[[C]]
// CHECK-NEXT: %[[NK:.*]] = fusion.kv_append %[[PK]], %[[R]]
// CHECK-NEXT: %[[NV:.*]] = fusion.kv_append %[[PV]], %[[V]]
// CHECK-NEXT: fusion.yield %[[NK]], %[[NV]]
// CHECK: %[[A:.*]] = fusion.group "rope_attention" (%[[Q:.*]] = %arg0, %[[C2:.*]] = %arg5, %[[AK:.*]] = %[[P]]#0, %[[AV:.*]] = %[[P]]#1)
// CHECK-SAME: kernel #fusion.config<"attention", {}>
// CHECK-NEXT: %[[RQ:.*]] = fusion.rope %[[Q]], %[[C2]], %[[C2]]
// CHECK-NEXT: fusion.attention %[[RQ]], %[[AK]], %[[AV]]
// CHECK-NEXT: fusion.yield
// CHECK: return %[[A]], %[[P]]#0, %[[P]]#1
!new = tensor<1x2x?x64xf32, #fusion.shape<[1, 2, seq, 64]>>
!past = tensor<1x2x?x64xf32, #fusion.shape<[1, 2, past, 64]>>
!all = tensor<1x2x?x64xf32, #fusion.shape<[1, 2, "past + seq", 64]>>
!table = tensor<1x1x?x32xf32, #fusion.shape<[1, 1, seq, 32]>>
func.func @main(%q: !new, %k: !new, %v: !new, %pk: !past, %pv: !past, %cos: !table) -> (!new, !all, !all) {
  %a, %nk, %nv = fusion.group "rope_attention" (%q0 = %q, %k0 = %k, %v0 = %v, %pk0 = %pk, %pv0 = %pv, %c = %cos)
      : (!new, !new, !new, !past, !past, !table) -> (!new, !all, !all) kernel #fusion.config<"attention", {}> {
    %0 = fusion.rope %q0, %c, %c : (!new, !table, !table) -> !new
    %1 = fusion.rope %k0, %c, %c : (!new, !table, !table) -> !new
    %2 = fusion.kv_append %pk0, %1 axis = 2 : (!past, !new) -> !all
    %3 = fusion.kv_append %pv0, %v0 axis = 2 : (!past, !new) -> !all
    %4 = fusion.attention %0, %2, %3 {scale = 0.125 : f32, causal, causal_offset = "past"} : (!new, !all, !all) -> !new
    fusion.yield %4, %2, %3 : !new, !all, !all
  }
  return %a, %nk, %nv : !new, !all, !all
}

// Without an attention there is nothing to split.
// CHECK-LABEL: func.func @append_alone
// CHECK: fusion.group "append"
// CHECK-NOT: fusion.group
// CHECK: return
func.func @append_alone(%k: !new, %pk: !past) -> !all {
  %nk = fusion.group "append" (%k0 = %k, %pk0 = %pk) : (!new, !past) -> !all kernel #fusion.config<"append", {}> {
    %2 = fusion.kv_append %pk0, %k0 axis = 2 : (!past, !new) -> !all
    fusion.yield %2 : !all
  }
  return %nk : !all
}
