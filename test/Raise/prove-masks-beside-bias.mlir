// RUN: fusion-opt %s --split-input-file --fusion-prove-masks --canonicalize | FileCheck %s

!q = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, s, 8]>>
!bias = tensor<1x2x?x?xf32, #fusion.shape<[1, 2, s, s]>>
!square = tensor<1x1x?x?xf32, #fusion.shape<[1, 1, s, s]>>

// The selection of a bounded bias is proven; rows that see nothing are as the number says.
// CHECK-LABEL: func.func @selected
// CHECK: %[[BIAS:.*]] = fusion.mul
// CHECK: fusion.attention %arg0, %arg0, %arg0 bias %[[BIAS]] {causal, masked_rows = "uniform"
func.func @selected(%q: !q) -> !q {
  %low = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %slopes = fusion.constant dense<[[[[0.5]], [[0.25]]]]> : tensor<1x2x1x1xf32>
  %i = fusion.iota "0" step "1" : tensor<?xi64, #fusion.shape<[s]>>
  %row = fusion.reshape %i : (tensor<?xi64, #fusion.shape<[s]>>) -> tensor<1x1x?x1xi64, #fusion.shape<[1, 1, s, 1]>>
  %gap = fusion.sub %i, %row : (tensor<?xi64, #fusion.shape<[s]>>, tensor<1x1x?x1xi64, #fusion.shape<[1, 1, s, 1]>>) -> tensor<1x1x?x?xi64, #fusion.shape<[1, 1, s, s]>>
  %seen = fusion.less_equal %i, %row : (tensor<?xi64, #fusion.shape<[s]>>, tensor<1x1x?x1xi64, #fusion.shape<[1, 1, s, 1]>>) -> tensor<1x1x?x?xi1, #fusion.shape<[1, 1, s, s]>>
  %far = fusion.cast %gap : (tensor<1x1x?x?xi64, #fusion.shape<[1, 1, s, s]>>) -> !square
  %alibi = fusion.mul %far, %slopes : (!square, tensor<1x2x1x1xf32>) -> !bias
  %bias = fusion.where %seen, %alibi, %low : (tensor<1x1x?x?xi1, #fusion.shape<[1, 1, s, s]>>, !bias, tensor<f32>) -> !bias
  %0 = fusion.attention %q, %q, %q bias %bias {scale = 1.0 : f32, masked_rows = "nan"} : (!q, !q, !q, !bias) -> !q
  return %0 : !q
}

// -----

!q = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, s, 8]>>
!bias = tensor<1x2x?x?xf32, #fusion.shape<[1, 2, s, s]>>
!square = tensor<1x1x?x?xf32, #fusion.shape<[1, 1, s, s]>>

// A bias that the caller gives may hide as well: the whole stays data.
// CHECK-LABEL: func.func @of_the_caller
// CHECK: %[[BIAS:.*]] = fusion.where
// CHECK: fusion.attention %arg0, %arg0, %arg0 bias %[[BIAS]] {masked_rows = "nan"
func.func @of_the_caller(%q: !q, %given: !bias) -> !q {
  %low = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %i = fusion.iota "0" step "1" : tensor<?xi64, #fusion.shape<[s]>>
  %row = fusion.reshape %i : (tensor<?xi64, #fusion.shape<[s]>>) -> tensor<1x1x?x1xi64, #fusion.shape<[1, 1, s, 1]>>
  %seen = fusion.less_equal %i, %row : (tensor<?xi64, #fusion.shape<[s]>>, tensor<1x1x?x1xi64, #fusion.shape<[1, 1, s, 1]>>) -> tensor<1x1x?x?xi1, #fusion.shape<[1, 1, s, s]>>
  %bias = fusion.where %seen, %given, %low : (tensor<1x1x?x?xi1, #fusion.shape<[1, 1, s, s]>>, !bias, tensor<f32>) -> !bias
  %0 = fusion.attention %q, %q, %q bias %bias {scale = 1.0 : f32, masked_rows = "nan"} : (!q, !q, !q, !bias) -> !q
  return %0 : !q
}

// -----

!q = tensor<1x2x?x8xf32, #fusion.shape<[1, 2, s, 8]>>
!square = tensor<1x1x?x?xf32, #fusion.shape<[1, 1, s, s]>>

// A mask that is added to a bias.
// CHECK-LABEL: func.func @added
// CHECK: %[[BIAS:.*]] = fusion.tanh
// CHECK: fusion.attention %arg0, %arg0, %arg0 bias %[[BIAS]] {causal, masked_rows = "nan"
func.func @added(%q: !q, %given: !square) -> !q {
  %low = fusion.constant dense<0xFF800000> : tensor<f32>
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %i = fusion.iota "0" step "1" : tensor<?xi64, #fusion.shape<[s]>>
  %row = fusion.reshape %i : (tensor<?xi64, #fusion.shape<[s]>>) -> tensor<1x1x?x1xi64, #fusion.shape<[1, 1, s, 1]>>
  %seen = fusion.less_equal %i, %row : (tensor<?xi64, #fusion.shape<[s]>>, tensor<1x1x?x1xi64, #fusion.shape<[1, 1, s, 1]>>) -> tensor<1x1x?x?xi1, #fusion.shape<[1, 1, s, s]>>
  %mask = fusion.where %seen, %zero, %low : (tensor<1x1x?x?xi1, #fusion.shape<[1, 1, s, s]>>, tensor<f32>, tensor<f32>) -> !square
  %soft = fusion.tanh %given : (!square) -> !square
  %bias = fusion.add %soft, %mask : (!square, !square) -> !square
  %0 = fusion.attention %q, %q, %q bias %bias {scale = 1.0 : f32, masked_rows = "nan"} : (!q, !q, !q, !square) -> !q
  return %0 : !q
}
