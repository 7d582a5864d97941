// RUN: fusion-opt %s --fusion-plan-pipeline | FileCheck %s

// A program of one row is a chain. A weight that one launch reads is streamed;
// one that two read is not. The program keeps its fixed symbol, the model has
// the general shape.

!one = tensor<1x8xf32>
!t = tensor<?x8xf32, #fusion.shape<[seq, 8]>>
!w = tensor<8x8xf32>

// CHECK: plan.symbol "seq" input 0 axis 0
// CHECK: plan.model_input "input0" : tensor<?x8xf32, #fusion.shape<[seq, 8]>>
// CHECK: plan.program @decode rows "seq" in 1 to 1 fixed {seq = 1 : i64}
// CHECK: %[[V:.*]] = plan.weight @twice
// CHECK: plan.launch @matmul_0 (%{{.*}} {invariant}, %[[V]] {invariant}) to (%[[A:.*]]) sizes [] grid {{.*}} chain at "/mm"
// CHECK: plan.launch @matmul_0 (%[[A]], %[[V]] {invariant}) to (%[[B:.*]]) sizes [] grid {{.*}} chain
// CHECK: %[[U:.*]] = plan.weight @once
// CHECK: plan.launch @matmul_0 (%[[B]], %[[U]] {evict_first, invariant}) to (%{{.*}}) sizes [] grid {{.*}} chain
// CHECK: plan.program @prefill rows "seq" in 2 to 9223372036854775807
// CHECK-NOT: {{chain|programmatic}}
// CHECK-NOT: evict_first
// CHECK: }
func.func @decode(%x: !one) -> !one attributes {fusion.bucket = {rows = "seq", min = 1 : i64, max = 1 : i64, fixed = {seq = 1 : i64}}} {
  %u = fusion.weight "once" at <"m.data", 0, 256> : !w
  %v = fusion.weight "twice" at <"m.data", 256, 256> : !w
  %a = fusion.group "matmul" (%0 = %x, %1 = %v) : (!one, !w) -> !one kernel #fusion.config<"matmul", {}> {
    %2 = fusion.matmul %0, %1 : (!one, !w) -> !one loc("/mm")
    fusion.yield %2 : !one
  }
  %b = fusion.group "matmul" (%0 = %a, %1 = %v) : (!one, !w) -> !one kernel #fusion.config<"matmul", {}> {
    %2 = fusion.matmul %0, %1 : (!one, !w) -> !one
    fusion.yield %2 : !one
  }
  %c = fusion.group "matmul" (%0 = %b, %1 = %u) : (!one, !w) -> !one kernel #fusion.config<"matmul", {}> {
    %2 = fusion.matmul %0, %1 : (!one, !w) -> !one
    fusion.yield %2 : !one
  }
  return %c : !one
}
func.func @prefill(%x: !t) -> !t attributes {fusion.bucket = {rows = "seq", min = 2 : i64, max = 9223372036854775807 : i64, fixed = {}}} {
  %u = fusion.weight "once" at <"m.data", 0, 256> : !w
  %a = fusion.group "matmul" (%0 = %x, %1 = %u) : (!t, !w) -> !t kernel #fusion.config<"matmul", {}> {
    %2 = fusion.matmul %0, %1 : (!t, !w) -> !t
    fusion.yield %2 : !t
  }
  return %a : !t
}
