// REQUIRES: fusion-reduce
// RUN: fusion-reduce %s --reduction-tree="traversal-mode=0 test=%S/Inputs/keeps-norm.sh" -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir --implicit-check-not=func.func
// RUN: fusion-opt %t.mlir -o /dev/null

// What is not needed for a norm to be there goes away; what is left still parses.
// CHECK: func.func @norm
// CHECK: fusion.rms_norm
func.func @before(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = fusion.silu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @norm(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = fusion.rms_norm %x, %w {epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @behind(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = fusion.add %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = fusion.neg %0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
