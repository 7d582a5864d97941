// RUN: fusion-opt %s --fusion-raise-rotations | FileCheck %s

// Halves swapped in 16 bits, rotated in fp32, rounded once.
// CHECK-LABEL: func.func @widened
// CHECK: fusion.rope %arg0, %arg1, %arg2 : (tensor<2x3x8xbf16>, tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<2x3x8xbf16>
func.func @widened(%x: tensor<2x3x8xbf16>, %cos: tensor<3x8xf32>, %sin: tensor<3x8xf32>) -> tensor<2x3x8xbf16> {
  %0 = fusion.cast %x : (tensor<2x3x8xbf16>) -> tensor<2x3x8xf32>
  %1 = fusion.mul %0, %cos : (tensor<2x3x8xf32>, tensor<3x8xf32>) -> tensor<2x3x8xf32>
  %2 = fusion.slice %x starts = ["0", "0", "0"] steps = [1, 1, 1] : (tensor<2x3x8xbf16>) -> tensor<2x3x4xbf16>
  %3 = fusion.slice %x starts = ["0", "0", "4"] steps = [1, 1, 1] : (tensor<2x3x8xbf16>) -> tensor<2x3x4xbf16>
  %4 = fusion.neg %3 : (tensor<2x3x4xbf16>) -> tensor<2x3x4xbf16>
  %5 = fusion.concat %4, %2 axis = 2 : (tensor<2x3x4xbf16>, tensor<2x3x4xbf16>) -> tensor<2x3x8xbf16>
  %6 = fusion.cast %5 : (tensor<2x3x8xbf16>) -> tensor<2x3x8xf32>
  %7 = fusion.mul %6, %sin : (tensor<2x3x8xf32>, tensor<3x8xf32>) -> tensor<2x3x8xf32>
  %8 = fusion.add %1, %7 : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %9 = fusion.cast %8 : (tensor<2x3x8xf32>) -> tensor<2x3x8xbf16>
  return %9 : tensor<2x3x8xbf16>
}
