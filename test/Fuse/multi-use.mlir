// RUN: fusion-opt %s --fusion-fuse --split-input-file | FileCheck %s

// The sum is needed behind the norm: it leaves the group as a second output.
// CHECK-LABEL: @sum_is_used_twice
// CHECK: %[[G:.*]]:2 = fusion.group "add_rms_norm"
// CHECK: return %[[G]]#1, %[[G]]#0
func.func @sum_is_used_twice(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>, %w: tensor<64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %0 = fusion.add %x, %y : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.rms_norm %0, %w {epsilon = 1.0e-5 : f32} : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  return %1, %0 : tensor<4x64xf32>, tensor<4x64xf32>
}

// -----

// Two norms of one sum are one kernel and two sites.
// CHECK-LABEL: @two_norms
// CHECK: fusion.group "add_rms_norm"
// CHECK-SAME: fusion.sites = ["add_rms_norm:{{[^"]*}}", "add_rms_norm:{{[^"]*}}"]
// CHECK-NOT: fusion.group
func.func @two_norms(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>, %w: tensor<64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %0 = fusion.add %x, %y : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.rms_norm %0, %w {epsilon = 1.0e-5 : f32} : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  %2 = fusion.rms_norm %0 {epsilon = 1.0e-6 : f32} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  return %1, %2 : tensor<4x64xf32>, tensor<4x64xf32>
}

// -----

// The product is a graph output, so it cannot vanish into an epilogue.
// CHECK-LABEL: @product_is_an_output
// CHECK: fusion.group "matmul"
// CHECK-NOT: fusion.relu
// CHECK: fusion.group "pointwise"
// CHECK: fusion.relu
func.func @product_is_an_output(%x: tensor<4x64xf32>, %w: tensor<64x32xf32>) -> (tensor<4x32xf32>, tensor<4x32xf32>) {
  %0 = fusion.matmul %x, %w : (tensor<4x64xf32>, tensor<64x32xf32>) -> tensor<4x32xf32>
  %1 = fusion.relu %0 : (tensor<4x32xf32>) -> tensor<4x32xf32>
  return %1, %0 : tensor<4x32xf32>, tensor<4x32xf32>
}
