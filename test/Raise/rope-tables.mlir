// RUN: fusion-opt %s --fusion-canonicalize-spellings --fusion-raise-rotations | FileCheck %s

// CHECK-LABEL: func.func @halves
// CHECK-NOT: fusion.concat
// CHECK: %[[C:.*]] = fusion.cos %arg1 : (tensor<3x4xf32>)
// CHECK: %[[S:.*]] = fusion.sin %arg1 : (tensor<3x4xf32>)
// CHECK: fusion.rope %arg0, %[[C]], %[[S]]
func.func @halves(%x: tensor<3x8xf32>, %a: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %one = fusion.constant dense<1.0> : tensor<f32>
  %0 = fusion.concat %a, %a axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  %1 = fusion.cos %0 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = fusion.sin %0 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %c = fusion.mul %1, %one : (tensor<3x8xf32>, tensor<f32>) -> tensor<3x8xf32>
  %3 = fusion.rope %x, %c, %2 : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %3 : tensor<3x8xf32>
}

// Each angle twice in a row is the table of an interleaved rotation.
// CHECK-LABEL: func.func @alternating
// CHECK: %[[C:.*]] = fusion.cos %arg1 : (tensor<3x4xf32>)
// CHECK: fusion.rope %arg0, %[[C]], %{{.*}} {interleaved}
func.func @alternating(%x: tensor<3x8xf32>, %a: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %0 = fusion.reshape %a : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
  %1 = fusion.expand %0 : (tensor<3x4x1xf32>) -> tensor<3x4x2xf32>
  %2 = fusion.reshape %1 : (tensor<3x4x2xf32>) -> tensor<3x8xf32>
  %c = fusion.cos %2 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %s = fusion.sin %2 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = fusion.rope %x, %c, %s {interleaved} : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %3 : tensor<3x8xf32>
}

// Halves in a table that is read as alternating stay as they are.
// CHECK-LABEL: func.func @mixed
// CHECK: fusion.concat
// CHECK: fusion.rope {{.*}} {interleaved} : (tensor<3x8xf32>, tensor<3x8xf32>
func.func @mixed(%x: tensor<3x8xf32>, %a: tensor<3x4xf32>) -> tensor<3x8xf32> {
  %0 = fusion.concat %a, %a axis = 1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
  %1 = fusion.cos %0 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = fusion.sin %0 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = fusion.rope %x, %1, %2 {interleaved} : (tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %3 : tensor<3x8xf32>
}
