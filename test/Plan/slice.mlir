// RUN: fusion-opt %s --fusion-plan-pipeline --split-input-file --verify-diagnostics | FileCheck %s

// A contiguous slice is a view into its buffer.
// CHECK: %[[B:.*]] = plan.alloc "32*n"
// CHECK: %[[V:.*]] = plan.view %[[B]] at "32*n - 32"
// CHECK: plan.launch @silu_1 (%[[V]]) to
!t = tensor<?x8xf32, #fusion.shape<[n, 8]>>
func.func @main(%x: !t) -> tensor<1x8xf32> {
  %a = fusion.group "silu" (%0 = %x) : (!t) -> !t kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.silu %0 : (!t) -> !t
    fusion.yield %1 : !t
  }
  %s = fusion.slice %a starts = ["n - 1", "0"] steps = [1, 1] : (!t) -> tensor<1x8xf32>
  %b = fusion.group "silu" (%0 = %s) : (tensor<1x8xf32>) -> tensor<1x8xf32> kernel #fusion.config<"pointwise", {}> {
    %1 = fusion.silu %0 : (tensor<1x8xf32>) -> tensor<1x8xf32>
    fusion.yield %1 : tensor<1x8xf32>
  }
  return %b : tensor<1x8xf32>
}

// -----

// Columns do not lie together.
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x4xf32> {
  // expected-error @+1 {{is not contiguous; expected it in a group}}
  %s = fusion.slice %x starts = ["0", "4"] steps = [1, 1] : (tensor<2x8xf32>) -> tensor<2x4xf32>
  return %s : tensor<2x4xf32>
}
