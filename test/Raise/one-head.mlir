// RUN: fusion-opt %s --fusion-canonicalize-spellings | FileCheck %s

// Keys of one head, transposed by way of three axes.
// CHECK-LABEL: func.func @keys
// CHECK-SAME: (%[[Q:[^:]*]]: tensor<2x3x5x8xf32>, %[[K:[^:]*]]: tensor<2x1x7x8xf32>
// CHECK-NOT: fusion.reshape
// CHECK: fusion.matmul %[[Q]], %[[K]] {transpose_rhs}
func.func @keys(%q: tensor<2x3x5x8xf32>, %k: tensor<2x1x7x8xf32>) -> tensor<2x3x5x7xf32> {
  %0 = fusion.reshape %k : (tensor<2x1x7x8xf32>) -> tensor<2x7x8xf32>
  %1 = fusion.transpose %0 perm = [0, 2, 1] : (tensor<2x7x8xf32>) -> tensor<2x8x7xf32>
  %2 = fusion.reshape %1 : (tensor<2x8x7xf32>) -> tensor<2x1x8x7xf32>
  %3 = fusion.matmul %q, %2 : (tensor<2x3x5x8xf32>, tensor<2x1x8x7xf32>) -> tensor<2x3x5x7xf32>
  return %3 : tensor<2x3x5x7xf32>
}
