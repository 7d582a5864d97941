// RUN: fusion-opt %s --fusion-plan-pipeline | FileCheck %s

// Results are written where they are returned, behind reshapes as well, also
// when another launch reads them. A second output of one value, an input and a
// weight as output are copied.

!t = tensor<?x8xf32, #fusion.shape<[n, 8]>>
!flat = tensor<?xf32, #fusion.shape<["8*n"]>>

// CHECK: plan.constant @w "w" : tensor<4xf32> = #
// CHECK: fusion.kernel @copy_0 {{.*}} sizes 1 (%[[A:.*]]: tensor<?xf32, #fusion.shape<[d0]>>)
// CHECK-NEXT: fusion.yield %[[A]]
// CHECK: plan.program @main
// CHECK-DAG: %[[X:.*]] = plan.input 0
// CHECK-DAG: %[[O0:.*]] = plan.output 0
// CHECK-DAG: %[[O1:.*]] = plan.output 1
// CHECK-DAG: %[[O2:.*]] = plan.output 2
// CHECK-DAG: %[[O3:.*]] = plan.output 3
// CHECK-DAG: %[[O4:.*]] = plan.output 4
// CHECK-NOT: plan.alloc
// CHECK: plan.launch @pointwise_0 (%[[X]] {invariant}) to (%[[O0]])
// CHECK-NEXT: plan.launch @pointwise_0 (%[[O0]]) to (%[[O1]])
// CHECK: plan.launch @copy_0 (%[[O0]]) to (%[[O2]]) sizes ["8*n"]
// CHECK: plan.launch @copy_0 (%[[X]] {invariant}) to (%[[O3]]) sizes ["8*n"]
// CHECK: plan.launch @copy_0 (%{{.*}} {invariant}) to (%[[O4]]) sizes ["4"]
func.func @main(%x: !t) -> (!flat, !t, !t, !t, tensor<4xf32>) {
  %w = fusion.weight "w" at <"m.data", 0, 16> : tensor<4xf32>
  %y = fusion.group "pointwise" (%a = %x) : (!t) -> !t kernel #fusion.config<"pointwise", {}> {
    %0 = fusion.silu %a : (!t) -> !t
    fusion.yield %0 : !t
  }
  %f = fusion.reshape %y : (!t) -> !flat
  %b = fusion.reshape %f : (!flat) -> !t
  %z = fusion.group "pointwise" (%a = %b) : (!t) -> !t kernel #fusion.config<"pointwise", {}> {
    %0 = fusion.silu %a : (!t) -> !t
    fusion.yield %0 : !t
  }
  return %f, %z, %y, %x, %w : !flat, !t, !t, !t, tensor<4xf32>
}
