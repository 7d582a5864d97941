// RUN: fusion-opt %s --split-input-file --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s

// exp(x - max(x)) over its sum.
// CHECK-LABEL: func.func @shifted
// CHECK-NEXT: %[[P:.*]] = fusion.softmax %arg0 axis = 2
// CHECK-NEXT: return %[[P]]
func.func @shifted(%x: tensor<2x4x6xf32>) -> tensor<2x4x6xf32> {
  %m = fusion.reduce_max %x axes = [2] {keepdims} : (tensor<2x4x6xf32>) -> tensor<2x4x1xf32>
  %d = fusion.sub %x, %m : (tensor<2x4x6xf32>, tensor<2x4x1xf32>) -> tensor<2x4x6xf32>
  %e = fusion.exp %d : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %s = fusion.reduce_sum %e axes = [2] {keepdims} : (tensor<2x4x6xf32>) -> tensor<2x4x1xf32>
  %y = fusion.div %e, %s : (tensor<2x4x6xf32>, tensor<2x4x1xf32>) -> tensor<2x4x6xf32>
  return %y : tensor<2x4x6xf32>
}

// -----

// Without the maximum, over another axis, by the reciprocal of the sum, which ones make as large as the rest.
// CHECK-LABEL: func.func @plain
// CHECK: fusion.softmax %arg0 axis = 0
func.func @plain(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %one = fusion.constant dense<1.0> : tensor<4x6xf32>
  %e = fusion.exp %x : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %s = fusion.reduce_sum %e axes = [0] {keepdims} : (tensor<4x6xf32>) -> tensor<1x6xf32>
  %w = fusion.mul %s, %one : (tensor<1x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %r = fusion.reciprocal %w : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %y = fusion.mul %r, %e : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// exp(x - log(sum(exp(x)))), the logarithm taken of smaller numbers.
// CHECK-LABEL: func.func @by_logarithm
// CHECK-NEXT: fusion.softmax %arg0 axis = 1
// CHECK-NEXT: return
func.func @by_logarithm(%x: tensor<4x6xf32>, %m: tensor<4x1xf32>) -> tensor<4x6xf32> {
  %d = fusion.sub %x, %m : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  %e = fusion.exp %d : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %s = fusion.reduce_sum %e axes = [1] {keepdims} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  %l = fusion.log %s : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %t = fusion.add %l, %m : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %u = fusion.sub %x, %t : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  %y = fusion.exp %u : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// Exponentials that are left out of the sum have no weight.
// CHECK-LABEL: func.func @selected
// CHECK: %[[S:.*]] = fusion.where %arg1, %arg0, %{{.*}}
// CHECK: fusion.softmax %[[S]] axis = 1
func.func @selected(%x: tensor<4x6xf32>, %c: tensor<4x6xi1>) -> tensor<4x6xf32> {
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %m = fusion.reduce_max %x axes = [1] {keepdims} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  %d = fusion.sub %x, %m : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  %e = fusion.exp %d : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %k = fusion.where %c, %e, %zero : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %s = fusion.reduce_sum %k axes = [1] {keepdims} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  %y = fusion.div %k, %s : (tensor<4x6xf32>, tensor<4x1xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// The sum divides what the exponentials weigh, as a quotient or by its reciprocal.
// CHECK-LABEL: func.func @deferred
// CHECK: %[[P:.*]] = fusion.softmax %arg0 axis = 2
// CHECK: fusion.matmul %[[P]], %arg1
// CHECK: fusion.matmul %[[P]], %arg2
func.func @deferred(%x: tensor<2x4x6xf32>, %v: tensor<2x6x3xf32>, %w: tensor<2x6x3xf32>) -> (tensor<2x4x3xf32>, tensor<2x4x3xf32>) {
  %m = fusion.reduce_max %x axes = [2] {keepdims} : (tensor<2x4x6xf32>) -> tensor<2x4x1xf32>
  %d = fusion.sub %x, %m : (tensor<2x4x6xf32>, tensor<2x4x1xf32>) -> tensor<2x4x6xf32>
  %e = fusion.exp %d : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  %s = fusion.reduce_sum %e axes = [2] {keepdims} : (tensor<2x4x6xf32>) -> tensor<2x4x1xf32>
  %p = fusion.matmul %e, %v : (tensor<2x4x6xf32>, tensor<2x6x3xf32>) -> tensor<2x4x3xf32>
  %y = fusion.div %p, %s : (tensor<2x4x3xf32>, tensor<2x4x1xf32>) -> tensor<2x4x3xf32>
  %i = fusion.reciprocal %s : (tensor<2x4x1xf32>) -> tensor<2x4x1xf32>
  %q = fusion.matmul %e, %w : (tensor<2x4x6xf32>, tensor<2x6x3xf32>) -> tensor<2x4x3xf32>
  %z = fusion.mul %i, %q : (tensor<2x4x1xf32>, tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  return %y, %z : tensor<2x4x3xf32>, tensor<2x4x3xf32>
}
