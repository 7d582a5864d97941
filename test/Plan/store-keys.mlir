// RUN: fusion-opt %s --fusion-split-appends | FileCheck %s

// The card's attention copies blocks of keys and values from memory: keys that
// the group rotates are stored by a kernel before it, views stay.

// CHECK-LABEL: func.func @card
// CHECK: %[[K:.*]] = fusion.group "pointwise"
// CHECK: fusion.rope
// CHECK-NEXT: fusion.yield
// CHECK: fusion.group "rope_attention"
// CHECK-SAME: = %[[K]]
// CHECK: %[[Q:.*]] = fusion.rope
// CHECK-NEXT: fusion.attention %[[Q]],
// CHECK-NOT: fusion.rope
// CHECK: return
!rows = tensor<1x256x4x64xf16>
!q = tensor<1x4x256x64xf16>
!new = tensor<1x2x256x64xf16>
!table = tensor<1x1x256x32xf16>
func.func @card(%q: !q, %k: !new, %v: !new, %cos: !table) -> !rows attributes {fusion.device = "card"} {
  %a = fusion.group "rope_attention" (%q0 = %q, %k0 = %k, %v0 = %v, %c = %cos) : (!q, !new, !new, !table) -> !rows kernel #fusion.config<"attention", {}> {
    %0 = fusion.rope %q0, %c, %c : (!q, !table, !table) -> !q
    %1 = fusion.rope %k0, %c, %c : (!new, !table, !table) -> !new
    %2 = fusion.attention %0, %1, %v0 {scale = 0.125 : f32, causal} : (!q, !new, !new) -> !q
    %3 = fusion.transpose %2 perm = [0, 2, 1, 3] : (!q) -> !rows
    fusion.yield %3 : !rows
  }
  return %a : !rows
}

// Other targets rotate in the kernel.
// CHECK-LABEL: func.func @host
// CHECK-NOT: fusion.group "pointwise"
// CHECK: return
func.func @host(%q: !q, %k: !new, %v: !new, %cos: !table) -> !q {
  %a = fusion.group "rope_attention" (%q0 = %q, %k0 = %k, %v0 = %v, %c = %cos) : (!q, !new, !new, !table) -> !q kernel #fusion.config<"attention", {}> {
    %0 = fusion.rope %q0, %c, %c : (!q, !table, !table) -> !q
    %1 = fusion.rope %k0, %c, %c : (!new, !table, !table) -> !new
    %2 = fusion.attention %0, %1, %v0 {scale = 0.125 : f32, causal} : (!q, !new, !new) -> !q
    fusion.yield %2 : !q
  }
  return %a : !q
}

// In fp32 no fast template takes the attention: nothing is stored.
// CHECK-LABEL: func.func @single
// CHECK-NOT: fusion.group "pointwise"
// CHECK: return
!f = tensor<1x2x256x64xf32>
!t = tensor<1x1x256x32xf32>
func.func @single(%q: !f, %k: !f, %v: !f, %cos: !t) -> !f attributes {fusion.device = "card"} {
  %a = fusion.group "rope_attention" (%q0 = %q, %k0 = %k, %v0 = %v, %c = %cos) : (!f, !f, !f, !t) -> !f kernel #fusion.config<"attention", {}> {
    %0 = fusion.rope %q0, %c, %c : (!f, !t, !t) -> !f
    %1 = fusion.rope %k0, %c, %c : (!f, !t, !t) -> !f
    %2 = fusion.attention %0, %1, %v0 {scale = 0.125 : f32, causal} : (!f, !f, !f) -> !f
    fusion.yield %2 : !f
  }
  return %a : !f
}
