// RUN: fusion-opt %s --fusion-fuse --split-input-file | FileCheck %s

// Level 2: both products of one tensor and the gate are one kernel.
// CHECK-LABEL: @two_products
// CHECK: fusion.group "swiglu"
// CHECK-SAME: kernel #fusion.config<"matmul", {}>
// CHECK-NOT: fusion.group
func.func @two_products(%x: tensor<4x64xf32>, %g: tensor<64x96xf32>, %u: tensor<64x96xf32>) -> tensor<4x96xf32> {
  %0 = fusion.matmul %x, %g : (tensor<4x64xf32>, tensor<64x96xf32>) -> tensor<4x96xf32>
  %1 = fusion.matmul %x, %u : (tensor<4x64xf32>, tensor<64x96xf32>) -> tensor<4x96xf32>
  %2 = fusion.silu %0 : (tensor<4x96xf32>) -> tensor<4x96xf32>
  %3 = fusion.mul %2, %1 : (tensor<4x96xf32>, tensor<4x96xf32>) -> tensor<4x96xf32>
  return %3 : tensor<4x96xf32>
}

// -----

// Products of different tensors: the gate follows one of them.
// CHECK-LABEL: @different_inputs
// CHECK: fusion.group "matmul"
// CHECK: fusion.matmul
// CHECK-NEXT: fusion.yield
// CHECK: fusion.group "swiglu"
// CHECK: fusion.matmul
// CHECK-NOT: fusion.matmul
func.func @different_inputs(%x: tensor<4x64xf32>, %y: tensor<4x64xf32>, %g: tensor<64x96xf32>, %u: tensor<64x96xf32>) -> tensor<4x96xf32> {
  %0 = fusion.matmul %x, %g : (tensor<4x64xf32>, tensor<64x96xf32>) -> tensor<4x96xf32>
  %1 = fusion.matmul %y, %u : (tensor<4x64xf32>, tensor<64x96xf32>) -> tensor<4x96xf32>
  %2 = fusion.silu %0 : (tensor<4x96xf32>) -> tensor<4x96xf32>
  %3 = fusion.mul %2, %1 : (tensor<4x96xf32>, tensor<4x96xf32>) -> tensor<4x96xf32>
  return %3 : tensor<4x96xf32>
}

// -----

// One packed product: level 1 reads its halves.
// CHECK-LABEL: @packed
// CHECK: fusion.group "matmul"
// CHECK: fusion.group "swiglu"
// CHECK-SAME: kernel #fusion.config<"pointwise", {}>
// CHECK: fusion.slice
// CHECK: fusion.slice
// CHECK: fusion.silu
// CHECK: fusion.mul
func.func @packed(%x: tensor<4x64xf32>, %w: tensor<64x192xf32>) -> tensor<4x96xf32> {
  %0 = fusion.matmul %x, %w : (tensor<4x64xf32>, tensor<64x192xf32>) -> tensor<4x192xf32>
  %1 = fusion.slice %0 starts = ["0", "0"] steps = [1, 1] : (tensor<4x192xf32>) -> tensor<4x96xf32>
  %2 = fusion.slice %0 starts = ["0", "96"] steps = [1, 1] : (tensor<4x192xf32>) -> tensor<4x96xf32>
  %3 = fusion.silu %1 : (tensor<4x96xf32>) -> tensor<4x96xf32>
  %4 = fusion.mul %3, %2 : (tensor<4x96xf32>, tensor<4x96xf32>) -> tensor<4x96xf32>
  return %4 : tensor<4x96xf32>
}
