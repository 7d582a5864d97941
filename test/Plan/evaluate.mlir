// RUN: fusion-opt %s --fusion-plan-pipeline | FileCheck %s

// A group over constants only becomes a constant that Link evaluates; two
// equal ones are one. A group that makes much more than it reads stays a
// launch, and so does one whose result is an output.

// CHECK: plan.constant @w "w" : tensor<8x4xf32>
// CHECK: plan.constant @[[E:.*]] "evaluated.transpose_0" : tensor<4x8xf32> evaluates @transpose_0 result 0 of [@w]
// CHECK-NOT: evaluates
// CHECK: fusion.kernel @transpose_0 {{.*}} attributes {fusion.compile_time}
// CHECK-NOT: compile_time
// CHECK: plan.program @main
// CHECK: plan.launch @expand_0 (%{{.*}} {evict_first, invariant}) to
// CHECK: %[[C:.*]] = plan.weight @[[E]]
// CHECK-NEXT: plan.launch @add_0 (%{{.*}} {invariant}, %[[C]] {invariant}, %[[C]] {invariant}) to
func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<9x8x4xf32>) attributes {fusion.bucket = {rows = "1", min = 1 : i64, max = 1 : i64, fixed = {}}} {
  %w = fusion.weight "w" at <"m.data", 0, 128> : tensor<8x4xf32>
  %a = fusion.group "transpose" (%0 = %w) : (tensor<8x4xf32>) -> tensor<4x8xf32> kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.transpose %0 perm = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
    fusion.yield %1 : tensor<4x8xf32>
  }
  %b = fusion.group "transpose" (%0 = %w) : (tensor<8x4xf32>) -> tensor<4x8xf32> kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.transpose %0 perm = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
    fusion.yield %1 : tensor<4x8xf32>
  }
  %c = fusion.group "expand" (%0 = %w) : (tensor<8x4xf32>) -> tensor<9x8x4xf32> kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.expand %0 : (tensor<8x4xf32>) -> tensor<9x8x4xf32>
    fusion.yield %1 : tensor<9x8x4xf32>
  }
  %d = fusion.group "add" (%0 = %x, %1 = %a, %2 = %b) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> kernel #fusion.config<"pointwise", {}> {
    %3 = fusion.add %0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = fusion.add %3, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    fusion.yield %4 : tensor<4x8xf32>
  }
  return %d, %c : tensor<4x8xf32>, tensor<9x8x4xf32>
}
