// RUN: fusion-opt %s --split-input-file --fusion-raise | FileCheck %s

// Masked scores that are raised to the least number: the mask alone is, since no score that is seen comes near.
// CHECK-LABEL: func.func @floor
// CHECK-DAG: %[[C:.*]] = fusion.constant dense<-3.40282347E+38>
// CHECK: %[[B:.*]] = fusion.max %arg2, %[[C]]
// CHECK: fusion.attention %arg0, %arg1, %arg1 bias %[[B]] {
func.func @floor(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x4x8xf32>, %mask: tensor<1x1x3x4xf32>) -> tensor<1x2x3x8xf32> {
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %s = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x3x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x4xf32>
  %m = fusion.add %s, %mask : (tensor<1x2x3x4xf32>, tensor<1x1x3x4xf32>) -> tensor<1x2x3x4xf32>
  %f = fusion.max %m, %min : (tensor<1x2x3x4xf32>, tensor<f32>) -> tensor<1x2x3x4xf32>
  %p = fusion.softmax %f axis = 3 : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %r = fusion.matmul %p, %k : (tensor<1x2x3x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32>
  return %r : tensor<1x2x3x8xf32>
}

// -----

// Rows that see nothing hold the least number everywhere: the mean of the values, not NaN.
// CHECK-LABEL: func.func @selected
// CHECK: fusion.attention %arg0, %arg1, %arg1 bias %arg2 {masked_rows = "uniform"
func.func @selected(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x4x8xf32>, %mask: tensor<1x1x3x4xi1>) -> tensor<1x2x3x8xf32> {
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %inf = fusion.constant dense<0xFF800000> : tensor<f32>
  %s = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x3x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x4xf32>
  %m = fusion.where %mask, %s, %inf : (tensor<1x1x3x4xi1>, tensor<1x2x3x4xf32>, tensor<f32>) -> tensor<1x2x3x4xf32>
  %f = fusion.max %m, %min : (tensor<1x2x3x4xf32>, tensor<f32>) -> tensor<1x2x3x4xf32>
  %p = fusion.softmax %f axis = 3 : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %r = fusion.matmul %p, %k : (tensor<1x2x3x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32>
  return %r : tensor<1x2x3x8xf32>
}

// -----

// Scores below -100 exist.
// CHECK-LABEL: func.func @too_high
// CHECK-NOT: fusion.attention
// CHECK: return
func.func @too_high(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x4x8xf32>, %mask: tensor<1x1x3x4xf32>) -> tensor<1x2x3x8xf32> {
  %min = fusion.constant dense<-100.0> : tensor<f32>
  %s = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x3x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x4xf32>
  %m = fusion.add %s, %mask : (tensor<1x2x3x4xf32>, tensor<1x1x3x4xf32>) -> tensor<1x2x3x4xf32>
  %f = fusion.max %m, %min : (tensor<1x2x3x4xf32>, tensor<f32>) -> tensor<1x2x3x4xf32>
  %p = fusion.softmax %f axis = 3 : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %r = fusion.matmul %p, %k : (tensor<1x2x3x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32>
  return %r : tensor<1x2x3x8xf32>
}

// -----

// The floor is under the scores, the mask is added to it: -inf stays.
// CHECK-LABEL: func.func @inside
// CHECK-NOT: fusion.attention
// CHECK: return
func.func @inside(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x4x8xf32>, %mask: tensor<1x1x3x4xf32>) -> tensor<1x2x3x8xf32> {
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %s = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x3x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x4xf32>
  %f = fusion.max %s, %min : (tensor<1x2x3x4xf32>, tensor<f32>) -> tensor<1x2x3x4xf32>
  %m = fusion.add %f, %mask : (tensor<1x2x3x4xf32>, tensor<1x1x3x4xf32>) -> tensor<1x2x3x4xf32>
  %p = fusion.softmax %m axis = 3 : (tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %r = fusion.matmul %p, %k : (tensor<1x2x3x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x3x8xf32>
  return %r : tensor<1x2x3x8xf32>
}

// -----

// fp16's least number is near enough for scores to count beside it.
// CHECK-LABEL: func.func @half
// CHECK-NOT: fusion.attention
// CHECK: return
func.func @half(%q: tensor<1x2x3x8xf16>, %k: tensor<1x2x4x8xf16>, %mask: tensor<1x1x3x4xf16>) -> tensor<1x2x3x8xf16> {
  %min = fusion.constant dense<-6.5504E+4> : tensor<f16>
  %s = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x3x8xf16>, tensor<1x2x4x8xf16>) -> tensor<1x2x3x4xf16>
  %m = fusion.add %s, %mask : (tensor<1x2x3x4xf16>, tensor<1x1x3x4xf16>) -> tensor<1x2x3x4xf16>
  %f = fusion.max %m, %min : (tensor<1x2x3x4xf16>, tensor<f16>) -> tensor<1x2x3x4xf16>
  %p = fusion.softmax %f axis = 3 : (tensor<1x2x3x4xf16>) -> tensor<1x2x3x4xf16>
  %r = fusion.matmul %p, %k : (tensor<1x2x3x4xf16>, tensor<1x2x4x8xf16>) -> tensor<1x2x3x8xf16>
  return %r : tensor<1x2x3x8xf16>
}

// -----

// Scores that are replaced, and a bias besides: rows that see nothing are even, as with a number that fp32 hides by.
// CHECK-LABEL: func.func @half_bias
// CHECK-DAG: %[[C:.*]] = fusion.constant dense<-3.40282347E+38> : tensor<f32>
// CHECK-DAG: %[[W:.*]] = fusion.cast %arg3 : (tensor<1x2x3x4xf16>) -> tensor<1x2x3x4xf32>
// CHECK: %[[B:.*]] = fusion.where %arg2, %[[W]], %[[C]]
// CHECK: fusion.attention %arg0, %arg1, %arg1 bias %[[B]] {
func.func @half_bias(%q: tensor<1x2x3x8xf16>, %k: tensor<1x2x4x8xf16>, %mask: tensor<1x1x3x4xi1>, %bias: tensor<1x2x3x4xf16>) -> tensor<1x2x3x8xf16> {
  %min = fusion.constant dense<-6.5504E+4> : tensor<f16>
  %s = fusion.matmul %q, %k {transpose_rhs} : (tensor<1x2x3x8xf16>, tensor<1x2x4x8xf16>) -> tensor<1x2x3x4xf16>
  %a = fusion.add %s, %bias : (tensor<1x2x3x4xf16>, tensor<1x2x3x4xf16>) -> tensor<1x2x3x4xf16>
  %m = fusion.where %mask, %a, %min : (tensor<1x1x3x4xi1>, tensor<1x2x3x4xf16>, tensor<f16>) -> tensor<1x2x3x4xf16>
  %p = fusion.softmax %m axis = 3 : (tensor<1x2x3x4xf16>) -> tensor<1x2x3x4xf16>
  %r = fusion.matmul %p, %k : (tensor<1x2x3x4xf16>, tensor<1x2x4x8xf16>) -> tensor<1x2x3x8xf16>
  return %r : tensor<1x2x3x8xf16>
}
