// RUN: fusion-opt %s --fusion-canonicalize-spellings | FileCheck %s

// CHECK-LABEL: func.func @consecutive
// CHECK-NEXT: fusion.slice %arg0 starts = ["0", "4"] steps = [1, 1] : (tensor<3x8xf32>) -> tensor<3x4xf32>
// CHECK-NEXT: return
func.func @consecutive(%x: tensor<3x8xf32>) -> tensor<3x4xf32> {
  %i = fusion.constant dense<[4, 5, -2, -1]> : tensor<4xi64>
  %0 = fusion.gather %x, %i axis = 1 : (tensor<3x8xf32>, tensor<4xi64>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @matrix
// CHECK-NEXT: %[[S:.*]] = fusion.slice %arg0 starts = ["1"] steps = [1] : (tensor<8xf32>) -> tensor<4xf32>
// CHECK-NEXT: fusion.reshape %[[S]] : (tensor<4xf32>) -> tensor<2x2xf32>
// CHECK-NEXT: return
func.func @matrix(%x: tensor<8xf32>) -> tensor<2x2xf32> {
  %i = fusion.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %0 = fusion.gather %x, %i axis = 0 : (tensor<8xf32>, tensor<2x2xi32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// CHECK-LABEL: func.func @descending
// CHECK: fusion.gather
func.func @descending(%x: tensor<3x8xf32>) -> tensor<3x2xf32> {
  %i = fusion.constant dense<[5, 4]> : tensor<2xi64>
  %0 = fusion.gather %x, %i axis = 1 : (tensor<3x8xf32>, tensor<2xi64>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @repeated
// CHECK: fusion.gather
func.func @repeated(%x: tensor<3x8xf32>) -> tensor<3x2xf32> {
  %i = fusion.constant dense<4> : tensor<2xi64>
  %0 = fusion.gather %x, %i axis = 1 : (tensor<3x8xf32>, tensor<2xi64>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// From the last element round to the first.
// CHECK-LABEL: func.func @around
// CHECK: fusion.gather
func.func @around(%x: tensor<3x8xf32>) -> tensor<3x2xf32> {
  %i = fusion.constant dense<[-1, 0]> : tensor<2xi64>
  %0 = fusion.gather %x, %i axis = 1 : (tensor<3x8xf32>, tensor<2xi64>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// Reading past the end is an error at run time.
// CHECK-LABEL: func.func @past_end
// CHECK: fusion.gather
func.func @past_end(%x: tensor<3x8xf32>) -> tensor<3x2xf32> {
  %i = fusion.constant dense<[7, 8]> : tensor<2xi64>
  %0 = fusion.gather %x, %i axis = 1 : (tensor<3x8xf32>, tensor<2xi64>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @table
// CHECK: fusion.gather
func.func @table() -> tensor<2x2xf32> {
  %t = fusion.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %i = fusion.constant dense<[0, 1]> : tensor<2xi64>
  %0 = fusion.gather %t, %i axis = 0 : (tensor<3x2xf32>, tensor<2xi64>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
