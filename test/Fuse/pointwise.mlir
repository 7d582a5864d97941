// RUN: fusion-opt %s --fusion-fuse --split-input-file | FileCheck %s

// A chain with a view inside is one kernel.
// CHECK-LABEL: @chain
// CHECK: fusion.group "pointwise"
// CHECK: fusion.exp
// CHECK: fusion.transpose
// CHECK: fusion.add
// CHECK-NOT: fusion.group
func.func @chain(%x: tensor<64x32xf32>, %y: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %0 = fusion.exp %x : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = fusion.transpose %0 perm = [1, 0] : (tensor<64x32xf32>) -> tensor<32x64xf32>
  %2 = fusion.add %1, %y : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<32x64xf32>
  return %2 : tensor<32x64xf32>
}

// -----

// Two outputs over one iteration space.
// CHECK-LABEL: @two_outputs
// CHECK: fusion.group "pointwise"
// CHECK: fusion.cos
// CHECK: fusion.sin
// CHECK: fusion.yield %{{.*}}, %{{.*}} :
// CHECK-NOT: fusion.group
func.func @two_outputs(%x: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<64x32xf32>) {
  %0 = fusion.cos %x : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %1 = fusion.sin %x : (tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0, %1 : tensor<64x32xf32>, tensor<64x32xf32>
}

// -----

// A row of exponentials is not made again for each of 4096 rows.
// CHECK-LABEL: @recomputation
// CHECK: fusion.group "pointwise"
// CHECK: fusion.exp
// CHECK-NEXT: fusion.yield
// CHECK: fusion.group "pointwise"
// CHECK: fusion.add
func.func @recomputation(%x: tensor<1x4096xf32>, %y: tensor<4096x4096xf32>) -> tensor<4096x4096xf32> {
  %0 = fusion.exp %x : (tensor<1x4096xf32>) -> tensor<1x4096xf32>
  %1 = fusion.add %0, %y : (tensor<1x4096xf32>, tensor<4096x4096xf32>) -> tensor<4096x4096xf32>
  return %1 : tensor<4096x4096xf32>
}

// -----

// Outputs of different shapes need different kernels.
// CHECK-LABEL: @two_spaces
// CHECK: fusion.group "pointwise"
// CHECK: fusion.group "pointwise"
func.func @two_spaces(%x: tensor<64x1xf32>, %y: tensor<64x32xf32>) -> (tensor<64x1xf32>, tensor<64x32xf32>) {
  %0 = fusion.exp %x : (tensor<64x1xf32>) -> tensor<64x1xf32>
  %1 = fusion.mul %0, %y : (tensor<64x1xf32>, tensor<64x32xf32>) -> tensor<64x32xf32>
  return %0, %1 : tensor<64x1xf32>, tensor<64x32xf32>
}

// -----

// The reshapes at the border cost nothing outside.
// CHECK-LABEL: @border
// CHECK: fusion.reshape
// CHECK: fusion.group "pointwise"
// CHECK-NOT: fusion.reshape
// CHECK: fusion.yield
// CHECK: fusion.reshape
func.func @border(%x: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %0 = fusion.reshape %x : (tensor<64x32xf32>) -> tensor<32x64xf32>
  %1 = fusion.exp %0 : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %2 = fusion.reshape %1 : (tensor<32x64xf32>) -> tensor<64x32xf32>
  return %2 : tensor<64x32xf32>
}
