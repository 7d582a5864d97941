// RUN: fusion-opt %s --fusion-split-appends | FileCheck %s

// In a function for the card, one row's attention appends to the session's
// cache itself.

// CHECK-LABEL: func.func @decode
// CHECK: fusion.group "rope_attention"
// CHECK-NOT: fusion.group "append"
// CHECK: return
!q = tensor<1x4x1x64xf16>
!new = tensor<1x2x1x64xf16>
!past = tensor<1x2x?x64xf16, #fusion.shape<[1, 2, past, 64], storage = [1, 2, 512, 64]>>
!all = tensor<1x2x?x64xf16, #fusion.shape<[1, 2, "past + 1", 64], storage = [1, 2, 512, 64]>>
!table = tensor<1x1x1x32xf16>
func.func @decode(%q: !q, %k: !new, %v: !new, %pk: !past, %pv: !past, %cos: !table) -> (!q, !all, !all) attributes {fusion.device = "card"} {
  %a, %nk, %nv = fusion.group "rope_attention" (%q0 = %q, %k0 = %k, %v0 = %v, %pk0 = %pk, %pv0 = %pv, %c = %cos)
      : (!q, !new, !new, !past, !past, !table) -> (!q, !all, !all) kernel #fusion.config<"attention", {}> {
    %0 = fusion.rope %q0, %c, %c : (!q, !table, !table) -> !q
    %1 = fusion.rope %k0, %c, %c : (!new, !table, !table) -> !new
    %2 = fusion.kv_append %pk0, %1 axis = 2 : (!past, !new) -> !all
    %3 = fusion.kv_append %pv0, %v0 axis = 2 : (!past, !new) -> !all
    %4 = fusion.attention %0, %2, %3 {scale = 0.125 : f32, causal, causal_offset = "past"} : (!q, !all, !all) -> !q
    fusion.yield %4, %2, %3 : !q, !all, !all
  }
  return %a, %nk, %nv : !q, !all, !all
}

// The same where only the memory changes: the caches become results.
// CHECK-LABEL: func.func @effect
// CHECK: fusion.group "rope_attention"
// CHECK: %[[K:.*]] = fusion.kv_append
// CHECK: %[[V:.*]] = fusion.kv_append
// CHECK: %[[Y:.*]] = fusion.attention
// CHECK-NEXT: fusion.yield %[[Y]], %[[K]], %[[V]]
// CHECK-NOT: fusion.group "append"
// CHECK: return
func.func @effect(%q: !q, %k: !new, %v: !new, %pk: !past, %pv: !past) -> !q attributes {fusion.device = "card"} {
  %a = fusion.group "rope_attention" (%q0 = %q, %k0 = %k, %v0 = %v, %pk0 = %pk, %pv0 = %pv)
      : (!q, !new, !new, !past, !past) -> !q kernel #fusion.config<"attention", {}> {
    %2 = fusion.kv_append %pk0, %k0 axis = 2 : (!past, !new) -> !all
    %3 = fusion.kv_append %pv0, %v0 axis = 2 : (!past, !new) -> !all
    %4 = fusion.attention %q0, %2, %3 {scale = 0.125 : f32, causal, causal_offset = "past"} : (!q, !all, !all) -> !q
    fusion.yield %4 : !q
  }
  return %a : !q
}

// A cache that is not session state grows by a copy: an append of its own.
// CHECK-LABEL: func.func @exposed
// CHECK: fusion.group "append"
// CHECK: fusion.group "rope_attention"
!old = tensor<1x2x?x64xf16, #fusion.shape<[1, 2, past, 64]>>
!grown = tensor<1x2x?x64xf16, #fusion.shape<[1, 2, "past + 1", 64]>>
func.func @exposed(%q: !q, %k: !new, %v: !new, %pk: !old, %pv: !old) -> (!q, !grown, !grown) attributes {fusion.device = "card"} {
  %a, %nk, %nv = fusion.group "rope_attention" (%q0 = %q, %k0 = %k, %v0 = %v, %pk0 = %pk, %pv0 = %pv)
      : (!q, !new, !new, !old, !old) -> (!q, !grown, !grown) kernel #fusion.config<"attention", {}> {
    %2 = fusion.kv_append %pk0, %k0 axis = 2 : (!old, !new) -> !grown
    %3 = fusion.kv_append %pv0, %v0 axis = 2 : (!old, !new) -> !grown
    %4 = fusion.attention %q0, %2, %3 {scale = 0.125 : f32, causal, causal_offset = "past"} : (!q, !grown, !grown) -> !q
    fusion.yield %4, %2, %3 : !q, !grown, !grown
  }
  return %a, %nk, %nv : !q, !grown, !grown
}
