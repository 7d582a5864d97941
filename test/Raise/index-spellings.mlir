// RUN: fusion-opt %s --split-input-file --fusion-canonicalize-spellings | FileCheck %s

// CHECK-LABEL: func.func @steps
// CHECK: fusion.slice %arg0 starts = ["0", "1"] steps = [1, 2]
func.func @steps(%x: tensor<2x6xf32>) -> tensor<2x3xf32> {
  %i = fusion.constant dense<[1, 3, 5]> : tensor<3xi64>
  %0 = fusion.gather %x, %i axis = 1 : (tensor<2x6xf32>, tensor<3xi64>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func.func @repeats
// CHECK: %[[E:.*]] = fusion.expand %{{.*}} -> tensor<2x3x2x4xf32>
// CHECK: fusion.reshape %[[E]] : (tensor<2x3x2x4xf32>) -> tensor<2x6x4xf32>
func.func @repeats(%x: tensor<2x3x4xf32>) -> tensor<2x6x4xf32> {
  %i = fusion.constant dense<[0, 0, 1, 1, 2, 2]> : tensor<6xi64>
  %0 = fusion.gather %x, %i axis = 1 : (tensor<2x3x4xf32>, tensor<6xi64>) -> tensor<2x6x4xf32>
  return %0 : tensor<2x6x4xf32>
}

// -----

// The heads one after the other, each twice.
// CHECK-LABEL: func.func @pieces
// CHECK-NOT: fusion.concat
// CHECK: fusion.expand %{{.*}} -> tensor<2x2x2x4xf32>
func.func @pieces(%x: tensor<2x2x4xf32>) -> tensor<2x4x4xf32> {
  %a = fusion.slice %x starts = ["0", "0", "0"] steps = [1, 1, 1] : (tensor<2x2x4xf32>) -> tensor<2x1x4xf32>
  %b = fusion.slice %x starts = ["0", "1", "0"] steps = [1, 1, 1] : (tensor<2x2x4xf32>) -> tensor<2x1x4xf32>
  %0 = fusion.concat %a, %a, %b, %b axis = 1 : (tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>, tensor<2x1x4xf32>) -> tensor<2x4x4xf32>
  return %0 : tensor<2x4x4xf32>
}

// -----

// The whole twice is no repeat of each.
// CHECK-LABEL: func.func @whole_twice
// CHECK: fusion.gather
func.func @whole_twice(%x: tensor<2x3x4xf32>) -> tensor<2x6x4xf32> {
  %i = fusion.constant dense<[0, 1, 2, 0, 1, 2]> : tensor<6xi64>
  %0 = fusion.gather %x, %i axis = 1 : (tensor<2x3x4xf32>, tensor<6xi64>) -> tensor<2x6x4xf32>
  return %0 : tensor<2x6x4xf32>
}

// -----

// Two elements in a column: no permutation.
// CHECK-LABEL: func.func @no_permutation
// CHECK: fusion.matmul
func.func @no_permutation(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %m = fusion.constant dense<[[1.0, 0.0], [1.0, 0.0]]> : tensor<2x2xf32>
  %0 = fusion.matmul %x, %m : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

// Pieces of a value in another order stay a concatenation.
// CHECK-LABEL: func.func @no_neighbours
// CHECK: fusion.concat
func.func @no_neighbours(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = fusion.slice %x starts = ["0", "0"] steps = [1, 1] : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %b = fusion.slice %x starts = ["2", "0"] steps = [1, 1] : (tensor<4x4xf32>) -> tensor<2x4xf32>
  %0 = fusion.concat %b, %a axis = 0 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// CHECK-LABEL: func.func @reversed_pair
// CHECK-DAG: %[[A:.*]] = fusion.slice %arg0 starts = ["0", "1"] steps = [1, 1] : (tensor<3x2xf32>) -> tensor<3x1xf32>
// CHECK-DAG: %[[B:.*]] = fusion.slice %arg0 starts = ["0", "0"] steps = [1, 1] : (tensor<3x2xf32>) -> tensor<3x1xf32>
// CHECK: fusion.concat %[[A]], %[[B]] axis = 1
func.func @reversed_pair(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %0 = fusion.slice %x starts = ["0", "1"] steps = [1, -1] : (tensor<3x2xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

// Of more elements a reversal stays a slice.
// CHECK-LABEL: func.func @reversed
// CHECK: fusion.slice
// CHECK-NOT: fusion.concat
func.func @reversed(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = fusion.slice %x starts = ["0", "3"] steps = [1, -1] : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
