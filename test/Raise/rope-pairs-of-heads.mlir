// RUN: fusion-opt %s --fusion-raise | FileCheck %s

// Heads and pairs are split off the columns at once, the real and imaginary parts of each pair are turned before the heads are
// moved in front.
// CHECK-LABEL: func.func @complex
// CHECK: %[[X:.*]] = fusion.reshape %arg0 : (tensor<2x5x16xf32>) -> tensor<2x5x2x8xf32>
// CHECK: fusion.rope %[[X]], %{{.*}}, %{{.*}} {interleaved}
// CHECK-NOT: fusion.mul
func.func @complex(%x: tensor<2x5x16xf32>, %c: tensor<1x5x1x4xf32>, %s: tensor<1x5x1x4xf32>) -> tensor<2x2x5x8xf32> {
  %0 = fusion.reshape %x : (tensor<2x5x16xf32>) -> tensor<2x5x2x4x2xf32>
  %1 = fusion.slice %0 starts = ["0", "0", "0", "0", "0"] steps = [1, 1, 1, 1, 1] : (tensor<2x5x2x4x2xf32>) -> tensor<2x5x2x4x1xf32>
  %2 = fusion.slice %0 starts = ["0", "0", "0", "0", "1"] steps = [1, 1, 1, 1, 1] : (tensor<2x5x2x4x2xf32>) -> tensor<2x5x2x4x1xf32>
  %r = fusion.reshape %1 : (tensor<2x5x2x4x1xf32>) -> tensor<2x5x2x4xf32>
  %i = fusion.reshape %2 : (tensor<2x5x2x4x1xf32>) -> tensor<2x5x2x4xf32>
  %3 = fusion.mul %r, %c : (tensor<2x5x2x4xf32>, tensor<1x5x1x4xf32>) -> tensor<2x5x2x4xf32>
  %4 = fusion.mul %i, %s : (tensor<2x5x2x4xf32>, tensor<1x5x1x4xf32>) -> tensor<2x5x2x4xf32>
  %5 = fusion.sub %3, %4 : (tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>) -> tensor<2x5x2x4xf32>
  %6 = fusion.mul %r, %s : (tensor<2x5x2x4xf32>, tensor<1x5x1x4xf32>) -> tensor<2x5x2x4xf32>
  %7 = fusion.mul %i, %c : (tensor<2x5x2x4xf32>, tensor<1x5x1x4xf32>) -> tensor<2x5x2x4xf32>
  %8 = fusion.add %6, %7 : (tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>) -> tensor<2x5x2x4xf32>
  %9 = fusion.reshape %5 : (tensor<2x5x2x4xf32>) -> tensor<2x5x2x4x1xf32>
  %10 = fusion.reshape %8 : (tensor<2x5x2x4xf32>) -> tensor<2x5x2x4x1xf32>
  %11 = fusion.concat %9, %10 axis = 4 : (tensor<2x5x2x4x1xf32>, tensor<2x5x2x4x1xf32>) -> tensor<2x5x2x4x2xf32>
  %12 = fusion.reshape %11 : (tensor<2x5x2x4x2xf32>) -> tensor<2x5x2x8xf32>
  %13 = fusion.transpose %12 perm = [0, 2, 1, 3] : (tensor<2x5x2x8xf32>) -> tensor<2x2x5x8xf32>
  return %13 : tensor<2x2x5x8xf32>
}
