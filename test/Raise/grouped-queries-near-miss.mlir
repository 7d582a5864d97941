// RUN: fusion-opt %s --split-input-file --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s --implicit-check-not=fusion.attention

// CHECK: [Missed] attention {{.*}} expected="a product with the value", found=fusion.reshape{{.*}} stopped=fusion.softmax

!q = tensor<2x6x8xf32>
!k = tensor<2x5x8xf32>

// Rows split, but no softmax: a product as it was.
// CHECK-LABEL: func.func @no_softmax
// CHECK: fusion.matmul %arg0, %arg1 {transpose_rhs} : (tensor<2x6x8xf32>
// CHECK: fusion.reshape
func.func @no_softmax(%q: !q, %k: !k) -> tensor<2x2x3x5xf32> {
  %0 = fusion.matmul %q, %k {transpose_rhs} : (!q, !k) -> tensor<2x6x5xf32>
  %1 = fusion.reshape %0 : (tensor<2x6x5xf32>) -> tensor<2x2x3x5xf32>
  return %1 : tensor<2x2x3x5xf32>
}

// -----

// Scores are split into rows of other heads than the probabilities are merged to: said above.
func.func @other_heads(%q: tensor<2x6x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x8xf32>) -> tensor<2x6x8xf32> {
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<2x6x8xf32>, tensor<2x6x8xf32>) -> tensor<2x6x6xf32>
  %1 = fusion.reshape %0 : (tensor<2x6x6xf32>) -> tensor<2x12x3xf32>
  %2 = fusion.softmax %1 axis = 2 : (tensor<2x12x3xf32>) -> tensor<2x12x3xf32>
  %3 = fusion.reshape %2 : (tensor<2x12x3xf32>) -> tensor<2x6x6xf32>
  %4 = fusion.matmul %3, %v : (tensor<2x6x6xf32>, tensor<2x6x8xf32>) -> tensor<2x6x8xf32>
  return %4 : tensor<2x6x8xf32>
}
