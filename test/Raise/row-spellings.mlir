// RUN: fusion-opt %s --fusion-canonicalize-spellings | FileCheck %s

// A layer over flattened rows, which the sums around it split again.
// CHECK-LABEL: func.func @layer
// CHECK-SAME: (%[[X:[^:]*]]: tensor<2x5x8xf32>
// CHECK: %[[N:.*]] = fusion.layer_norm %[[X]], {{.*}}axis = 2 : i64{{.*}} -> tensor<2x5x8xf32>
// CHECK: %[[M:.*]] = fusion.matmul %[[N]], %{{.*}} {transpose_rhs} : {{.*}} -> tensor<2x5x6xf32>
// CHECK: %[[B:.*]] = fusion.add %[[M]], %{{.*}} -> tensor<2x5x6xf32>
// CHECK: %[[R:.*]] = fusion.relu %[[B]] : {{.*}} -> tensor<2x5x6xf32>
// CHECK: %[[D:.*]] = fusion.matmul %[[R]], %{{.*}} -> tensor<2x5x8xf32>
// CHECK: %[[S:.*]] = fusion.add %[[X]], %[[D]] : {{.*}} -> tensor<2x5x8xf32>
// CHECK-NEXT: return %[[S]]
func.func @layer(%x: tensor<2x5x8xf32>, %w: tensor<8xf32>, %up: tensor<6x8xf32>, %b: tensor<6xf32>, %down: tensor<6x8xf32>) -> tensor<2x5x8xf32> {
  %0 = fusion.reshape %x : (tensor<2x5x8xf32>) -> tensor<10x8xf32>
  %1 = fusion.layer_norm %0, %w {epsilon = 1.0e-5 : f32, axis = 1 : i64} : (tensor<10x8xf32>, tensor<8xf32>) -> tensor<10x8xf32>
  %2 = fusion.matmul %1, %up {transpose_rhs} : (tensor<10x8xf32>, tensor<6x8xf32>) -> tensor<10x6xf32>
  %3 = fusion.add %2, %b : (tensor<10x6xf32>, tensor<6xf32>) -> tensor<10x6xf32>
  %4 = fusion.relu %3 : (tensor<10x6xf32>) -> tensor<10x6xf32>
  %5 = fusion.matmul %4, %down : (tensor<10x6xf32>, tensor<6x8xf32>) -> tensor<10x8xf32>
  %6 = fusion.add %0, %5 : (tensor<10x8xf32>, tensor<10x8xf32>) -> tensor<10x8xf32>
  %7 = fusion.reshape %6 : (tensor<10x8xf32>) -> tensor<2x5x8xf32>
  return %7 : tensor<2x5x8xf32>
}

// Rows of different origin stay flat.
// CHECK-LABEL: func.func @other_rows
// CHECK: fusion.add %{{.*}} -> tensor<10x8xf32>
func.func @other_rows(%x: tensor<2x5x8xf32>, %y: tensor<5x2x8xf32>) -> tensor<10x8xf32> {
  %0 = fusion.reshape %x : (tensor<2x5x8xf32>) -> tensor<10x8xf32>
  %1 = fusion.reshape %y : (tensor<5x2x8xf32>) -> tensor<10x8xf32>
  %2 = fusion.add %0, %1 : (tensor<10x8xf32>, tensor<10x8xf32>) -> tensor<10x8xf32>
  return %2 : tensor<10x8xf32>
}

// A value for each flattened row is no vector along the last axis.
// CHECK-LABEL: func.func @row_factor
// CHECK: fusion.mul %{{.*}} -> tensor<10x8xf32>
func.func @row_factor(%x: tensor<2x5x8xf32>, %y: tensor<10x1xf32>) -> tensor<10x8xf32> {
  %0 = fusion.reshape %x : (tensor<2x5x8xf32>) -> tensor<10x8xf32>
  %1 = fusion.mul %0, %y : (tensor<10x8xf32>, tensor<10x1xf32>) -> tensor<10x8xf32>
  return %1 : tensor<10x8xf32>
}

// Reductions and softmax of rows.
// CHECK-LABEL: func.func @reductions
// CHECK: fusion.reduce_mean %{{.*}} axes = [2] {keepdims} : (tensor<2x5x8xf32>) -> tensor<2x5x1xf32>
// CHECK: fusion.softmax %{{.*}} axis = 2 : (tensor<2x5x8xf32>)
func.func @reductions(%x: tensor<2x5x8xf32>) -> (tensor<2x5x1xf32>, tensor<2x5x8xf32>) {
  %0 = fusion.reshape %x : (tensor<2x5x8xf32>) -> tensor<10x8xf32>
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (tensor<10x8xf32>) -> tensor<10x1xf32>
  %2 = fusion.softmax %0 axis = 1 : (tensor<10x8xf32>) -> tensor<10x8xf32>
  %3 = fusion.reshape %1 : (tensor<10x1xf32>) -> tensor<2x5x1xf32>
  %4 = fusion.reshape %2 : (tensor<10x8xf32>) -> tensor<2x5x8xf32>
  return %3, %4 : tensor<2x5x1xf32>, tensor<2x5x8xf32>
}
