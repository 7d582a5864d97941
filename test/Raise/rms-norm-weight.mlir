// RUN: fusion-opt %s --split-input-file --fusion-raise-norms | FileCheck %s

// A factor that varies along the rows is no weight.
// CHECK-LABEL: func.func @rows
// CHECK: fusion.rms_norm %arg0 {
// CHECK: fusion.mul
func.func @rows(%x: tensor<4x64xf32>, %w: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %0 = fusion.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.mul %0, %w : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  return %1 : tensor<4x64xf32>
}

// -----

// A factor that widens the result is no weight.
// CHECK-LABEL: func.func @widens
// CHECK: fusion.rms_norm %arg0 {
// CHECK: fusion.mul
func.func @widens(%x: tensor<1x64xf32>) -> tensor<4x64xf32> {
  %w = fusion.constant dense<2.0> : tensor<4x64xf32>
  %0 = fusion.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %1 = fusion.mul %0, %w : (tensor<1x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  return %1 : tensor<4x64xf32>
}

// -----

// Data of a single token has the shape of a weight, and is none.
// CHECK-LABEL: func.func @token
// CHECK: fusion.rms_norm %arg0 {
// CHECK: fusion.mul
func.func @token(%x: tensor<1x1x64xf32>, %g: tensor<1x1x64xf32>) -> tensor<1x1x64xf32> {
  %0 = fusion.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<1x1x64xf32>) -> tensor<1x1x64xf32>
  %1 = fusion.mul %0, %g : (tensor<1x1x64xf32>, tensor<1x1x64xf32>) -> tensor<1x1x64xf32>
  return %1 : tensor<1x1x64xf32>
}

// -----

// A constant [1, 1, n] is one.
// CHECK-LABEL: func.func @constant
// CHECK: fusion.rms_norm %arg0, %{{.*}} {
// CHECK-NOT: fusion.mul
func.func @constant(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %w = fusion.constant dense<[[[1.0, 2.0, 3.0, 4.0]]]> : tensor<1x1x4xf32>
  %0 = fusion.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %1 = fusion.mul %0, %w : (tensor<2x3x4xf32>, tensor<1x1x4xf32>) -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}

// -----

// The normalised value is an output as well: it is computed once.
// CHECK-LABEL: func.func @shared
// CHECK: %[[N:.*]] = fusion.rms_norm %arg0 {
// CHECK: fusion.mul %[[N]], %arg1
// CHECK-NOT: fusion.rms_norm
func.func @shared(%x: tensor<4x64xf32>, %w: tensor<64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %0 = fusion.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.mul %0, %w : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  return %0, %1 : tensor<4x64xf32>, tensor<4x64xf32>
}

// -----

// Two weights on one normalised value: two norms.
// CHECK-LABEL: func.func @two
// CHECK-DAG: fusion.rms_norm %arg0, %arg1
// CHECK-DAG: fusion.rms_norm %arg0, %arg2
// CHECK-NOT: fusion.mul
func.func @two(%x: tensor<4x64xf32>, %w: tensor<64xf32>, %u: tensor<64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %0 = fusion.rms_norm %x {epsilon = 1.0e-5 : f32} : (tensor<4x64xf32>) -> tensor<4x64xf32>
  %1 = fusion.mul %0, %w : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  %2 = fusion.mul %0, %u : (tensor<4x64xf32>, tensor<64xf32>) -> tensor<4x64xf32>
  return %1, %2 : tensor<4x64xf32>, tensor<4x64xf32>
}
