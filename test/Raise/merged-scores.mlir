// RUN: fusion-opt %s --fusion-canonicalize-spellings | FileCheck %s

// Scores over [batch * heads] with a bias of each head and a mask.
// CHECK-LABEL: func.func @bias
// CHECK-SAME: (%[[Q:[^:]*]]: tensor<2x3x5x8xf32>, %[[K:[^:]*]]: tensor<2x3x7x8xf32>, %[[BIAS:[^:]*]]: tensor<6x1x7xf32>
// CHECK-DAG: %[[S:.*]] = fusion.matmul %[[Q]], %[[K]] {transpose_rhs} : {{.*}} -> tensor<2x3x5x7xf32>
// CHECK-DAG: %[[B:.*]] = fusion.reshape %[[BIAS]] : (tensor<6x1x7xf32>) -> tensor<2x3x1x7xf32>
// CHECK: %[[A:.*]] = fusion.add %{{.*}}, %{{.*}} : {{.*}} -> tensor<2x3x5x7xf32>
// CHECK: fusion.softmax %[[A]] axis = 3
func.func @bias(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x7x8xf32>, %bias: tensor<6x1x7xf32>) -> tensor<2x3x5x7xf32> {
  %0 = fusion.reshape %q : (tensor<2x3x5x8xf32>) -> tensor<6x5x8xf32>
  %1 = fusion.reshape %k : (tensor<2x3x7x8xf32>) -> tensor<6x7x8xf32>
  %2 = fusion.matmul %0, %1 {transpose_rhs} : (tensor<6x5x8xf32>, tensor<6x7x8xf32>) -> tensor<6x5x7xf32>
  %3 = fusion.add %bias, %2 : (tensor<6x1x7xf32>, tensor<6x5x7xf32>) -> tensor<6x5x7xf32>
  %4 = fusion.softmax %3 axis = 2 : (tensor<6x5x7xf32>) -> tensor<6x5x7xf32>
  %5 = fusion.reshape %4 : (tensor<6x5x7xf32>) -> tensor<2x3x5x7xf32>
  return %5 : tensor<2x3x5x7xf32>
}
