// RUN: fusion-opt %s --split-input-file --fusion-raise="prove-masks=false" | FileCheck %s

!q = tensor<?x4x?x8xf32, #fusion.shape<[b, 4, s, 8]>>
!kv = tensor<?x2x?x8xf32, #fusion.shape<[b, 2, t, 8]>>
!kv1 = tensor<?x2x1x?x8xf32, #fusion.shape<[b, 2, 1, t, 8]>>
!kv2 = tensor<?x2x2x?x8xf32, #fusion.shape<[b, 2, 2, t, 8]>>
!k = tensor<?x4x?x8xf32, #fusion.shape<[b, 4, t, 8]>>
!k3 = tensor<?x?x8xf32, #fusion.shape<["4*b", t, 8]>>
!k3t = tensor<?x8x?xf32, #fusion.shape<["4*b", 8, t]>>
!kt = tensor<?x4x8x?xf32, #fusion.shape<[b, 4, 8, t]>>
!p = tensor<?x4x?x?xf32, #fusion.shape<[b, 4, s, t]>>
!n = tensor<?x4x?x?xi1, #fusion.shape<[b, 4, s, t]>>
!m = tensor<?x1x?x?xf32, #fusion.shape<[b, 1, s, t]>>

// As torch's sdpa: the root of the scale on both sides, k turned by way of
// three axes, grouped heads repeated, a guard against NaN.
// CHECK-LABEL: func.func @sdpa
// CHECK-NEXT: fusion.attention %arg0, %arg1, %arg2 bias %arg3
// CHECK-SAME: {scale = 2.500000e-01 : f32
// CHECK-NEXT: return
func.func @sdpa(%q: !q, %k0: !kv, %v0: !kv, %mask: !m) -> !q {
  %root = fusion.constant dense<0.5> : tensor<f32>
  %zero = fusion.constant dense<0.0> : tensor<f32>
  %k1 = fusion.reshape %k0 : (!kv) -> !kv1
  %k2 = fusion.expand %k1 : (!kv1) -> !kv2
  %k = fusion.reshape %k2 : (!kv2) -> !k
  %v1 = fusion.reshape %v0 : (!kv) -> !kv1
  %v2 = fusion.expand %v1 : (!kv1) -> !kv2
  %v = fusion.reshape %v2 : (!kv2) -> !k
  %k3 = fusion.reshape %k : (!k) -> !k3
  %k4 = fusion.transpose %k3 perm = [0, 2, 1] : (!k3) -> !k3t
  %kt = fusion.reshape %k4 : (!k3t) -> !kt
  %qs = fusion.mul %q, %root : (!q, tensor<f32>) -> !q
  %ks = fusion.mul %kt, %root : (!kt, tensor<f32>) -> !kt
  %0 = fusion.matmul %qs, %ks : (!q, !kt) -> !p
  %1 = fusion.add %0, %mask : (!p, !m) -> !p
  %2 = fusion.softmax %1 axis = 3 : (!p) -> !p
  %3 = fusion.is_nan %2 : (!p) -> !n
  %4 = fusion.where %3, %zero, %2 : (!n, tensor<f32>, !p) -> !p
  %5 = fusion.matmul %4, %v : (!p, !k) -> !q
  return %5 : !q
}

// -----

// Eager, bf16 with softmax in fp32, a soft cap between scale and mask.
// CHECK-LABEL: func.func @eager
// CHECK: fusion.attention %arg0, %arg1, %arg2 bias %arg3 {
// CHECK-SAME: masked_rows = "nan", scale = 1.250000e-01 : f32, softcap = 5.000000e+01 : f32
func.func @eager(%q: tensor<1x2x3x4xbf16>, %k: tensor<1x2x5x4xbf16>, %v: tensor<1x2x5x4xbf16>, %mask: tensor<1x1x3x5xbf16>) -> tensor<1x2x3x4xbf16> {
  %scale = fusion.constant dense<0.125> : tensor<bf16>
  %cap = fusion.constant dense<50.0> : tensor<bf16>
  %kt = fusion.transpose %k perm = [0, 1, 3, 2] : (tensor<1x2x5x4xbf16>) -> tensor<1x2x4x5xbf16>
  %0 = fusion.matmul %q, %kt : (tensor<1x2x3x4xbf16>, tensor<1x2x4x5xbf16>) -> tensor<1x2x3x5xbf16>
  %1 = fusion.mul %0, %scale : (tensor<1x2x3x5xbf16>, tensor<bf16>) -> tensor<1x2x3x5xbf16>
  %2 = fusion.div %1, %cap : (tensor<1x2x3x5xbf16>, tensor<bf16>) -> tensor<1x2x3x5xbf16>
  %3 = fusion.tanh %2 : (tensor<1x2x3x5xbf16>) -> tensor<1x2x3x5xbf16>
  %4 = fusion.mul %3, %cap : (tensor<1x2x3x5xbf16>, tensor<bf16>) -> tensor<1x2x3x5xbf16>
  %5 = fusion.add %4, %mask : (tensor<1x2x3x5xbf16>, tensor<1x1x3x5xbf16>) -> tensor<1x2x3x5xbf16>
  %6 = fusion.cast %5 : (tensor<1x2x3x5xbf16>) -> tensor<1x2x3x5xf32>
  %7 = fusion.softmax %6 axis = 3 : (tensor<1x2x3x5xf32>) -> tensor<1x2x3x5xf32>
  %8 = fusion.cast %7 : (tensor<1x2x3x5xf32>) -> tensor<1x2x3x5xbf16>
  %9 = fusion.matmul %8, %v : (tensor<1x2x3x5xbf16>, tensor<1x2x5x4xbf16>) -> tensor<1x2x3x4xbf16>
  return %9 : tensor<1x2x3x4xbf16>
}

// -----

// Batched products over merged axes, a selecting mask with a finite minimum.
// CHECK-LABEL: func.func @batched
// CHECK: fusion.attention %arg0, %arg1, %arg2 bias %arg3 {
// CHECK-SAME: masked_rows = "uniform", scale = 5.000000e-01 : f32
// CHECK-NOT: fusion.softmax
func.func @batched(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x5x4xf32>, %v: tensor<2x2x5x4xf32>, %keep: tensor<2x1x3x5xi1>) -> tensor<2x2x3x4xf32> {
  %scale = fusion.constant dense<2.0> : tensor<f32>
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %q3 = fusion.reshape %q : (tensor<2x2x3x4xf32>) -> tensor<4x3x4xf32>
  %k3 = fusion.reshape %k : (tensor<2x2x5x4xf32>) -> tensor<4x5x4xf32>
  %v3 = fusion.reshape %v : (tensor<2x2x5x4xf32>) -> tensor<4x5x4xf32>
  %kt = fusion.transpose %k3 perm = [0, 2, 1] : (tensor<4x5x4xf32>) -> tensor<4x4x5xf32>
  %0 = fusion.matmul %q3, %kt : (tensor<4x3x4xf32>, tensor<4x4x5xf32>) -> tensor<4x3x5xf32>
  %1 = fusion.div %0, %scale : (tensor<4x3x5xf32>, tensor<f32>) -> tensor<4x3x5xf32>
  %2 = fusion.reshape %1 : (tensor<4x3x5xf32>) -> tensor<2x2x3x5xf32>
  %3 = fusion.where %keep, %2, %min : (tensor<2x1x3x5xi1>, tensor<2x2x3x5xf32>, tensor<f32>) -> tensor<2x2x3x5xf32>
  %4 = fusion.softmax %3 axis = 3 : (tensor<2x2x3x5xf32>) -> tensor<2x2x3x5xf32>
  %5 = fusion.reshape %4 : (tensor<2x2x3x5xf32>) -> tensor<4x3x5xf32>
  %6 = fusion.matmul %5, %v3 : (tensor<4x3x5xf32>, tensor<4x5x4xf32>) -> tensor<4x3x4xf32>
  %7 = fusion.reshape %6 : (tensor<4x3x4xf32>) -> tensor<2x2x3x4xf32>
  return %7 : tensor<2x2x3x4xf32>
}

// -----

// One head of three axes, k transposed as a value [b, t, h, d], no mask.
// CHECK-LABEL: func.func @three_axes
// CHECK: %[[R:.*]] = fusion.attention {{.*}} -> tensor<2x1x3x4xf32>
// CHECK: fusion.reshape %[[R]]
func.func @three_axes(%q: tensor<2x3x4xf32>, %k: tensor<2x5x4xf32>, %v: tensor<2x5x4xf32>) -> tensor<2x3x4xf32> {
  %0 = fusion.matmul %q, %k {transpose_rhs} : (tensor<2x3x4xf32>, tensor<2x5x4xf32>) -> tensor<2x3x5xf32>
  %1 = fusion.softmax %0 axis = 2 : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %2 = fusion.matmul %1, %v : (tensor<2x3x5xf32>, tensor<2x5x4xf32>) -> tensor<2x3x4xf32>
  return %2 : tensor<2x3x4xf32>
}
