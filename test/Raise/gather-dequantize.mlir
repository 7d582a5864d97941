// RUN: fusion-opt %s --fusion-canonicalize-spellings --split-input-file | FileCheck %s

// Only the rows that an embedding reads are decoded; the matmul keeps its own
// dequantised table.

// CHECK-LABEL: func.func @blocks
// CHECK: %[[Q:.*]] = fusion.gather %arg0, %arg3 axis = 0 : (tensor<100x64xi8>, tensor<1x4xi64>) -> tensor<1x4x64xi8>
// CHECK: %[[S:.*]] = fusion.gather %arg1, %arg3 axis = 0 : (tensor<100x2xf32>, tensor<1x4xi64>) -> tensor<1x4x2xf32>
// CHECK: %[[Z:.*]] = fusion.gather %arg2, %arg3 axis = 0
// CHECK: %[[D:.*]] = fusion.dequantize %[[Q]], %[[S]] zero_point %[[Z]] {axis = 2 : i64, block_size = 32 : i64} : {{.*}} -> tensor<1x4x64xf32>
// CHECK: return %[[D]]
func.func @blocks(%q: tensor<100x64xi8>, %s: tensor<100x2xf32>, %z: tensor<100x2xi8>, %i: tensor<1x4xi64>) -> tensor<1x4x64xf32> {
  %0 = fusion.dequantize %q, %s zero_point %z {axis = 1 : i64, block_size = 32 : i64} : (tensor<100x64xi8>, tensor<100x2xf32>, tensor<100x2xi8>) -> tensor<100x64xf32>
  %1 = fusion.gather %0, %i axis = 0 : (tensor<100x64xf32>, tensor<1x4xi64>) -> tensor<1x4x64xf32>
  return %1 : tensor<1x4x64xf32>
}

// -----

// A scale a row becomes a block a row.
// CHECK-LABEL: func.func @rows
// CHECK: %[[C:.*]] = fusion.reshape %arg1 : (tensor<100xf32>) -> tensor<100x1xf32>
// CHECK: %[[S:.*]] = fusion.gather %[[C]], %arg2 axis = 0
// CHECK: fusion.dequantize %{{.*}}, %[[S]] {axis = 2 : i64, block_size = 64 : i64}
func.func @rows(%q: tensor<100x64xi8>, %s: tensor<100xf32>, %i: tensor<1x4xi64>) -> tensor<1x4x64xf32> {
  %0 = fusion.dequantize %q, %s {axis = 0 : i64} : (tensor<100x64xi8>, tensor<100xf32>) -> tensor<100x64xf32>
  %1 = fusion.gather %0, %i axis = 0 : (tensor<100x64xf32>, tensor<1x4xi64>) -> tensor<1x4x64xf32>
  return %1 : tensor<1x4x64xf32>
}

// -----

// One scale serves every row.
// CHECK-LABEL: func.func @tensor
// CHECK: %[[Q:.*]] = fusion.gather %arg0, %arg2 axis = 0
// CHECK: fusion.dequantize %[[Q]], %arg1 :
func.func @tensor(%q: tensor<100x64xi8>, %s: tensor<f32>, %i: tensor<1x4xi64>) -> tensor<1x4x64xf32> {
  %0 = fusion.dequantize %q, %s : (tensor<100x64xi8>, tensor<f32>) -> tensor<100x64xf32>
  %1 = fusion.gather %0, %i axis = 0 : (tensor<100x64xf32>, tensor<1x4xi64>) -> tensor<1x4x64xf32>
  return %1 : tensor<1x4x64xf32>
}

// -----

// Blocks along the gathered axis would be torn apart.
// CHECK-LABEL: func.func @torn
// CHECK: %[[D:.*]] = fusion.dequantize %arg0, %arg1
// CHECK: fusion.gather %[[D]]
func.func @torn(%q: tensor<128x64xi8>, %s: tensor<4x64xf32>, %i: tensor<1x4xi64>) -> tensor<1x4x64xf32> {
  %0 = fusion.dequantize %q, %s {axis = 0 : i64, block_size = 32 : i64} : (tensor<128x64xi8>, tensor<4x64xf32>) -> tensor<128x64xf32>
  %1 = fusion.gather %0, %i axis = 0 : (tensor<128x64xf32>, tensor<1x4xi64>) -> tensor<1x4x64xf32>
  return %1 : tensor<1x4x64xf32>
}
