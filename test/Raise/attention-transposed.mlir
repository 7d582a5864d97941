// RUN: fusion-opt %s --split-input-file --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s

// (v^T softmax(k q^T * c + m^T))^T, the softmax over the rows.
// CHECK-LABEL: func.func @by_columns
// CHECK: fusion.attention %arg0, %arg1, %arg2 bias
// CHECK-NOT: fusion.softmax
func.func @by_columns(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x8xf32>, %m: tensor<6x4xf32>) -> tensor<1x2x4x8xf32> {
  %c = fusion.constant dense<0.25> : tensor<f32>
  %0 = fusion.matmul %k, %q {transpose_rhs} : (tensor<1x2x6x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x6x4xf32>
  %1 = fusion.mul %0, %c : (tensor<1x2x6x4xf32>, tensor<f32>) -> tensor<1x2x6x4xf32>
  %2 = fusion.add %1, %m : (tensor<1x2x6x4xf32>, tensor<6x4xf32>) -> tensor<1x2x6x4xf32>
  %3 = fusion.softmax %2 axis = 2 : (tensor<1x2x6x4xf32>) -> tensor<1x2x6x4xf32>
  %4 = fusion.transpose %v perm = [0, 1, 3, 2] : (tensor<1x2x6x8xf32>) -> tensor<1x2x8x6xf32>
  %5 = fusion.matmul %4, %3 : (tensor<1x2x8x6xf32>, tensor<1x2x6x4xf32>) -> tensor<1x2x8x4xf32>
  %6 = fusion.transpose %5 perm = [0, 1, 3, 2] : (tensor<1x2x8x4xf32>) -> tensor<1x2x4x8xf32>
  return %6 : tensor<1x2x4x8xf32>
}

// -----

// The mask before the scale is scaled with the scores.
// CHECK-LABEL: func.func @scaled_mask
// CHECK: %[[C:.*]] = fusion.constant dense<2.500000e-01> : tensor<f32>
// CHECK: %[[M:.*]] = fusion.mul %{{.*}}, %[[C]]
// CHECK: fusion.attention %arg0, %arg1, %arg2 bias %[[M]] {{.*}}scale = 2.500000e-01
func.func @scaled_mask(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x8xf32>, %m: tensor<4x6xf32>) -> tensor<1x2x4x8xf32> {
  %c = fusion.constant dense<0.25> : tensor<f32>
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x6xf32>
  %1 = fusion.add %0, %m : (tensor<1x2x4x6xf32>, tensor<4x6xf32>) -> tensor<1x2x4x6xf32>
  %2 = fusion.mul %1, %c : (tensor<1x2x4x6xf32>, tensor<f32>) -> tensor<1x2x4x6xf32>
  %3 = fusion.softmax %2 axis = 3 : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %4 = fusion.matmul %3, %v : (tensor<1x2x4x6xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32>
  return %4 : tensor<1x2x4x8xf32>
}

// -----

// One head of the values for all of the keys'.
// CHECK-LABEL: func.func @one_value
// CHECK: fusion.attention %arg0, %arg1, %arg2 {
func.func @one_value(%q: tensor<1x2x4x8xf32>, %k1: tensor<1x1x6x8xf32>, %v: tensor<1x1x6x8xf32>) -> tensor<1x2x4x8xf32> {
  %k = fusion.expand %k1 : (tensor<1x1x6x8xf32>) -> tensor<1x2x6x8xf32>
  %t = fusion.transpose %k perm = [0, 1, 3, 2] : (tensor<1x2x6x8xf32>) -> tensor<1x2x8x6xf32>
  %c = fusion.constant dense<0.25> : tensor<f32>
  %s = fusion.mul %t, %c : (tensor<1x2x8x6xf32>, tensor<f32>) -> tensor<1x2x8x6xf32>
  %0 = fusion.matmul %q, %s : (tensor<1x2x4x8xf32>, tensor<1x2x8x6xf32>) -> tensor<1x2x4x6xf32>
  %1 = fusion.softmax %0 axis = 3 : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %2 = fusion.matmul %1, %v : (tensor<1x2x4x6xf32>, tensor<1x1x6x8xf32>) -> tensor<1x2x4x8xf32>
  return %2 : tensor<1x2x4x8xf32>
}

// -----

// Groups of queries as an axis of their own.
// CHECK-LABEL: func.func @groups
// CHECK-DAG: %[[Q:.*]] = fusion.reshape %arg0 : (tensor<1x2x3x4x8xf32>) -> tensor<1x6x4x8xf32>
// CHECK-DAG: %[[K:.*]] = fusion.reshape %arg1 : (tensor<1x2x1x6x8xf32>) -> tensor<1x2x6x8xf32>
// CHECK-DAG: %[[V:.*]] = fusion.reshape %arg2 : (tensor<1x2x1x6x8xf32>) -> tensor<1x2x6x8xf32>
// CHECK-DAG: %[[M:.*]] = fusion.reshape %arg3 : (tensor<4x6xf32>) -> tensor<1x1x4x6xf32>
// CHECK: fusion.attention %[[Q]], %[[K]], %[[V]] bias %[[M]]
func.func @groups(%q: tensor<1x2x3x4x8xf32>, %k: tensor<1x2x1x6x8xf32>, %v: tensor<1x2x1x6x8xf32>, %m: tensor<4x6xf32>) -> tensor<1x2x3x4x8xf32> {
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x3x4x8xf32>, tensor<1x2x1x6x8xf32>) -> tensor<1x2x3x4x6xf32>
  %1 = fusion.add %0, %m : (tensor<1x2x3x4x6xf32>, tensor<4x6xf32>) -> tensor<1x2x3x4x6xf32>
  %2 = fusion.softmax %1 axis = 4 : (tensor<1x2x3x4x6xf32>) -> tensor<1x2x3x4x6xf32>
  %3 = fusion.matmul %2, %v : (tensor<1x2x3x4x6xf32>, tensor<1x2x1x6x8xf32>) -> tensor<1x2x3x4x8xf32>
  return %3 : tensor<1x2x3x4x8xf32>
}

// -----

// Scaled probabilities: the number goes behind the product.
// CHECK-LABEL: func.func @scaled_probabilities
// CHECK: %[[A:.*]] = fusion.attention %arg0, %arg1, %arg2 {
// CHECK: fusion.mul %[[A]], %{{.*}}
func.func @scaled_probabilities(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32> {
  %c = fusion.constant dense<0.5> : tensor<f32>
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x6xf32>
  %1 = fusion.softmax %0 axis = 3 : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6xf32>
  %2 = fusion.mul %1, %c : (tensor<1x2x4x6xf32>, tensor<f32>) -> tensor<1x2x4x6xf32>
  %3 = fusion.matmul %2, %v : (tensor<1x2x4x6xf32>, tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32>
  return %3 : tensor<1x2x4x8xf32>
}
