// RUN: fusion-opt %s --split-input-file --fusion-raise="prove-masks=false" | FileCheck %s

!heads = tensor<1x2x3x8xf32>
!scores = tensor<1x2x3x3xf32>

// A bias that stays far above what hides: the selection goes into it, as a number beside which no score counts.
// CHECK-LABEL: func.func @alibi
// CHECK: %[[LOW:.*]] = fusion.constant dense<-3.40282347E+38>
// CHECK: %[[BIAS:.*]] = fusion.where %{{.*}}, %{{.*}}, %[[LOW]]
// CHECK: fusion.attention %arg0, %arg1, %arg2 bias %[[BIAS]] {{.*}}masked_rows = "uniform"
func.func @alibi(%q: !heads, %k: !heads, %v: !heads, %seen: tensor<3x3xi1>) -> !heads {
  %low = fusion.constant dense<-1.0e9> : tensor<f32>
  %slopes = fusion.constant dense<[[[0.5]], [[0.25]]]> : tensor<2x1x1xf32>
  %places = fusion.iota "0" step "1" : tensor<3xi64>
  %places.f = fusion.cast %places : (tensor<3xi64>) -> tensor<3xf32>
  %row = fusion.reshape %places.f : (tensor<3xf32>) -> tensor<3x1xf32>
  %distance = fusion.sub %places.f, %row : (tensor<3xf32>, tensor<3x1xf32>) -> tensor<3x3xf32>
  %bias = fusion.mul %slopes, %distance : (tensor<2x1x1xf32>, tensor<3x3xf32>) -> tensor<2x3x3xf32>
  %0 = fusion.matmul %q, %k {transpose_rhs} : (!heads, !heads) -> !scores
  %1 = fusion.add %0, %bias : (!scores, tensor<2x3x3xf32>) -> !scores
  %2 = fusion.where %seen, %1, %low : (tensor<3x3xi1>, !scores, tensor<f32>) -> !scores
  %3 = fusion.softmax %2 axis = 3 : (!scores) -> !scores
  %4 = fusion.matmul %3, %v : (!scores, !heads) -> !heads
  return %4 : !heads
}

// -----

!heads = tensor<1x2x3x8xf32>
!scores = tensor<1x2x3x3xf32>

// A mask of ones that multiplies, and takes 1e4 off the others.
// CHECK-LABEL: func.func @factor
// CHECK: %[[SEEN:.*]] = fusion.cast %{{.*}} -> tensor<3x3xi1>
// CHECK: fusion.attention %arg0, %arg1, %arg2 bias %{{.*}} {{.*}}masked_rows = "uniform"
// CHECK-NOT: fusion.softmax
func.func @factor(%q: !heads, %k: !heads, %v: !heads) -> !heads {
  %b = fusion.constant dense<[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]> : tensor<3x3xf32>
  %one = fusion.constant dense<1.0> : tensor<f32>
  %far = fusion.constant dense<1.0e4> : tensor<f32>
  %0 = fusion.matmul %q, %k {transpose_rhs} : (!heads, !heads) -> !scores
  %1 = fusion.mul %0, %b : (!scores, tensor<3x3xf32>) -> !scores
  %2 = fusion.sub %one, %b : (tensor<f32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %3 = fusion.mul %2, %far : (tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %4 = fusion.sub %1, %3 : (!scores, tensor<3x3xf32>) -> !scores
  %5 = fusion.softmax %4 axis = 3 : (!scores) -> !scores
  %6 = fusion.matmul %5, %v : (!scores, !heads) -> !heads
  return %6 : !heads
}

// -----

!heads = tensor<1x2x3x8xf32>
!scores = tensor<1x2x3x3xf32>

// Infinities are replaced as well as what is no number.
// CHECK-LABEL: func.func @numbers_alone
// CHECK: fusion.attention %arg0, %arg1, %arg2 {scale
// CHECK-NOT: fusion.softmax
func.func @numbers_alone(%q: !heads, %k: !heads, %v: !heads) -> !heads {
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %most = fusion.constant dense<3.40282347E+38> : tensor<f32>
  %0 = fusion.matmul %q, %k {transpose_rhs} : (!heads, !heads) -> !scores
  %1 = fusion.softmax %0 axis = 3 : (!scores) -> !scores
  %2 = fusion.is_nan %1 : (!scores) -> tensor<1x2x3x3xi1>
  %3 = fusion.where %2, %zero, %1 : (tensor<1x2x3x3xi1>, tensor<f32>, !scores) -> !scores
  %4 = fusion.is_inf %3 : (!scores) -> tensor<1x2x3x3xi1>
  %5 = fusion.greater %3, %zero : (!scores, tensor<f32>) -> tensor<1x2x3x3xi1>
  %6 = fusion.and %4, %5 : (tensor<1x2x3x3xi1>, tensor<1x2x3x3xi1>) -> tensor<1x2x3x3xi1>
  %7 = fusion.where %6, %most, %3 : (tensor<1x2x3x3xi1>, tensor<f32>, !scores) -> !scores
  %8 = fusion.matmul %7, %v : (!scores, !heads) -> !heads
  return %8 : !heads
}
