// RUN: fusion-opt %s --split-input-file --fusion-raise --remarks-filter=raise 2>&1 | FileCheck %s

// CHECK: [Missed] rms_norm {{.*}} expected="a mean over axis 2 only", found="axis 1 of 1"{{.*}} reason=AXIS_NOT_LAST

!x = tensor<2x?x8xf32, #fusion.shape<[2, s, 8]>>
!first = tensor<2x8x?xf32, #fusion.shape<[2, 8, s]>>
!row = tensor<2x1x?xf32, #fusion.shape<[2, 1, s]>>

// CHECK-LABEL: func.func @rms
// CHECK: %[[W:.*]] = fusion.reshape %arg1 : (tensor<8x1xf32>) -> tensor<8xf32>
// CHECK: %[[N:.*]] = fusion.rms_norm %arg0, %[[W]]
// CHECK: return %[[N]]
func.func @rms(%x: !x, %w: tensor<8x1xf32>) -> !x {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %t = fusion.transpose %x perm = [0, 2, 1] : (!x) -> !first
  %0 = fusion.square %t : (!first) -> !first
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (!first) -> !row
  %2 = fusion.add %1, %eps : (!row, tensor<f32>) -> !row
  %3 = fusion.rsqrt %2 : (!row) -> !row
  %4 = fusion.mul %t, %3 : (!first, !row) -> !first
  %5 = fusion.mul %4, %w : (!first, tensor<8x1xf32>) -> !first
  %6 = fusion.transpose %5 perm = [0, 2, 1] : (!first) -> !x
  return %6 : !x
}

// -----

!x = tensor<2x?x8xf32, #fusion.shape<[2, s, 8]>>
!first = tensor<2x8x?xf32, #fusion.shape<[2, 8, s]>>
!row = tensor<2x1x?xf32, #fusion.shape<[2, 1, s]>>

// CHECK-LABEL: func.func @layer
// CHECK: %[[L:.*]] = fusion.layer_norm %arg0, %{{.*}}, %{{.*}} {
// CHECK-NEXT: return %[[L]]
func.func @layer(%x: !x, %w: tensor<8x1xf32>) -> !x {
  %b = fusion.constant dense<[[1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0], [8.0]]> : tensor<8x1xf32>
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %t = fusion.transpose %x perm = [0, 2, 1] : (!x) -> !first
  %mean = fusion.reduce_mean %t axes = [1] {keepdims} : (!first) -> !row
  %c = fusion.sub %t, %mean : (!first, !row) -> !first
  %0 = fusion.square %c : (!first) -> !first
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (!first) -> !row
  %2 = fusion.add %1, %eps : (!row, tensor<f32>) -> !row
  %3 = fusion.sqrt %2 : (!row) -> !row
  %4 = fusion.div %c, %3 : (!first, !row) -> !first
  %5 = fusion.mul %4, %w : (!first, tensor<8x1xf32>) -> !first
  %6 = fusion.add %5, %b : (!first, tensor<8x1xf32>) -> !first
  %7 = fusion.transpose %6 perm = [0, 2, 1] : (!first) -> !x
  return %7 : !x
}

// -----

!first = tensor<2x8x?xf32, #fusion.shape<[2, 8, s]>>
!row = tensor<2x1x?xf32, #fusion.shape<[2, 1, s]>>

// Rows that no transpose put first are said, above.
// CHECK-LABEL: func.func @as_given
// CHECK-NOT: fusion.rms_norm
func.func @as_given(%t: !first) -> !first {
  %eps = fusion.constant dense<1.0e-6> : tensor<f32>
  %0 = fusion.square %t : (!first) -> !first
  %1 = fusion.reduce_mean %0 axes = [1] {keepdims} : (!first) -> !row
  %2 = fusion.add %1, %eps : (!row, tensor<f32>) -> !row
  %3 = fusion.rsqrt %2 : (!row) -> !row
  %4 = fusion.mul %t, %3 : (!first, !row) -> !first
  return %4 : !first
}
