// RUN: fusion-opt %s --fusion-plan-pipeline | FileCheck %s

// On a card the kernels of a program of one row wait for their predecessor by
// themselves, and know what no kernel writes: weights and inputs, not states
// and not what other groups make. The first launch has a normal edge.

!one = tensor<1x8xf32>
!t = tensor<?x8xf32, #fusion.shape<[seq, 8]>>
!w = tensor<8x8xf32>

// CHECK: fusion.kernel @matmul_0 config #fusion.config<"matmul", {programmatic, step_invariant = array<i64: 0, 1>}>
// CHECK-SAME: fusion.devices = ["card"]
// CHECK: fusion.kernel @matmul_1 config #fusion.config<"matmul", {programmatic, step_invariant = array<i64: 1>}>
// CHECK: fusion.kernel @matmul_2 config #fusion.config<"matmul", {}>
// CHECK: plan.program @decode rows "seq" in 1 to 1 fixed {seq = 1 : i64} device "card"
// CHECK: plan.launch @matmul_0
// CHECK-NOT: programmatic
// CHECK: plan.launch @matmul_1 {{.*}} chain programmatic
// CHECK: plan.program @prefill rows "seq" in 2 to 9223372036854775807 device "card"
// CHECK-NOT: programmatic
func.func @decode(%x: !one) -> !one attributes {fusion.device = "card", fusion.bucket = {rows = "seq", min = 1 : i64, max = 1 : i64, fixed = {seq = 1 : i64}}} {
  %u = fusion.weight "u" at <"m.data", 0, 256> : !w
  %a = fusion.group "matmul" (%0 = %x, %1 = %u) : (!one, !w) -> !one kernel #fusion.config<"matmul", {}> {
    %2 = fusion.matmul %0, %1 : (!one, !w) -> !one
    fusion.yield %2 : !one
  }
  %b = fusion.group "matmul" (%0 = %a, %1 = %u) : (!one, !w) -> !one kernel #fusion.config<"matmul", {}> {
    %2 = fusion.matmul %0, %1 : (!one, !w) -> !one
    fusion.yield %2 : !one
  }
  return %b : !one
}
func.func @prefill(%x: !t) -> !t attributes {fusion.device = "card", fusion.bucket = {rows = "seq", min = 2 : i64, max = 9223372036854775807 : i64, fixed = {}}} {
  %u = fusion.weight "u" at <"m.data", 0, 256> : !w
  %a = fusion.group "matmul" (%0 = %x, %1 = %u) : (!t, !w) -> !t kernel #fusion.config<"matmul", {}> {
    %2 = fusion.matmul %0, %1 : (!t, !w) -> !t
    fusion.yield %2 : !t
  }
  return %a : !t
}
