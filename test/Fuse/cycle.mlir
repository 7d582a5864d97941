// RUN: fusion-opt %s --fusion-fuse=explain=summary 2>&1 | FileCheck %s

// silu(g) is also an input of the product that makes the other factor: a path
// leaves the site and comes back, so one kernel is impossible.
// CHECK: swiglu {{.*}}0   1
// CHECK: illegal, CYCLE in main: a path leaves the group and comes back
// CHECK-LABEL: @main
// CHECK: fusion.group "pointwise"
// CHECK: fusion.silu
// CHECK: fusion.group "matmul"
// CHECK: fusion.matmul
// CHECK-NEXT: fusion.mul
func.func @main(%g: tensor<4x64xf32>, %w: tensor<64x64xf32>) -> tensor<4x64xf32> {
  %0 = fusion.silu %g : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.matmul %0, %w : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %2 = fusion.mul %0, %1 : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  return %2 : tensor<4x64xf32>
}
