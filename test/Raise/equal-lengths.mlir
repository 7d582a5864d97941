// RUN: fusion-opt %s --split-input-file --fusion-equal-lengths | FileCheck %s

!past = tensor<2x2x?x8xf32, #fusion.shape<[2, 2, past, 8]>>
!new = tensor<2x2x?x8xf32, #fusion.shape<[2, 2, seq, 8]>>
!all = tensor<2x2x?x8xf32, #fusion.shape<[2, 2, "past + seq", 8]>>

// Lengths counted from a mask of ones, as a session's mask is: the cache's
// size for every sequence.

// CHECK-LABEL: func.func @counted
// CHECK: fusion.kv_append %arg1, %arg2 axis = 2
// CHECK: fusion.attention %{{[^ ]*}}, %[[K:[^ ]*]], %[[K]] {causal, causal_offset = "past"
func.func @counted(%q: !new, %past: !past, %new: !new) -> !new {
  %one = fusion.constant dense<1> : tensor<i64>
  %zero = fusion.constant dense<0> : tensor<i32>
  %mask = fusion.expand %one : (tensor<i64>) -> tensor<2x?xi64, #fusion.shape<[2, "past + seq"]>>
  %sum = fusion.reduce_sum %mask axes = [1] : (tensor<2x?xi64, #fusion.shape<[2, "past + seq"]>>) -> tensor<2xi64>
  %count = fusion.cast %sum : (tensor<2xi64>) -> tensor<2xi32>
  %seq = fusion.shape_value ["seq"] : tensor<i32>
  %start = fusion.sub %count, %seq : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  %lengths = fusion.max %start, %zero : (tensor<2xi32>, tensor<i32>) -> tensor<2xi32>
  %k = fusion.kv_append %past, %new lengths %lengths axis = 2 : (!past, !new, tensor<2xi32>) -> !all
  %y = fusion.attention %q, %k, %k offsets %lengths {scale = 1.0 : f32, causal} : (!new, !all, !all, tensor<2xi32>) -> !new
  return %y : !new
}

// -----

!past = tensor<2x2x?x8xf32, #fusion.shape<[2, 2, past, 8]>>
!new = tensor<2x2x?x8xf32, #fusion.shape<[2, 2, seq, 8]>>
!all = tensor<2x2x?x8xf32, #fusion.shape<[2, 2, "past + seq", 8]>>

// Data, and one less than the cache's size: both stay.

// CHECK-LABEL: func.func @data
// CHECK: fusion.kv_append %arg1, %arg2 lengths %arg3 axis = 2
// CHECK: fusion.attention {{.*}} offsets %arg3
// CHECK: fusion.kv_append %arg1, %arg2 lengths %{{.*}} axis = 2
func.func @data(%q: !new, %past: !past, %new: !new, %lengths: tensor<2xi64>) -> (!new, !all) {
  %k = fusion.kv_append %past, %new lengths %lengths axis = 2 : (!past, !new, tensor<2xi64>) -> !all
  %y = fusion.attention %q, %k, %k offsets %lengths {scale = 1.0 : f32, causal} : (!new, !all, !all, tensor<2xi64>) -> !new
  %less = fusion.shape_value ["past - 1", "past - 1"] : tensor<2xi64>
  %c = fusion.kv_append %past, %new lengths %less axis = 2 : (!past, !new, tensor<2xi64>) -> !all
  return %y, %c : !new, !all
}
