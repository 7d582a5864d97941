// RUN: fusion-opt %s --split-input-file --fusion-raise | FileCheck %s --implicit-check-not=fusion.softmax --implicit-check-not=fusion.expand

!q = tensor<2x4x?x8xf32, #fusion.shape<[2, 4, s, 8]>>
!k = tensor<2x2x?x8xf32, #fusion.shape<[2, 2, t, 8]>>
!folded = tensor<2x2x?x8xf32, #fusion.shape<[2, 2, "2*s", 8]>>
!rows = tensor<2x2x?x?xf32, #fusion.shape<[2, 2, "2*s", t]>>
!five = tensor<2x2x2x?x?xf32, #fusion.shape<[2, 2, 2, s, t]>>
!four = tensor<2x4x?x?xf32, #fusion.shape<[2, 4, s, t]>>

// 'bkgsd,bktd->bkgst': the queries of a group are rows of one product.
// CHECK-LABEL: func.func @einsum
// CHECK: %[[A:.*]] = fusion.attention %arg0, %arg1, %arg2 bias %{{.*}} {{.*}}scale = 2.500000e-01
// CHECK: return %[[A]]
func.func @einsum(%q: !q, %k: !k, %v: !k, %seen: tensor<?x?xi1, #fusion.shape<[s, t]>>) -> !q {
  %scale = fusion.constant dense<0.25> : tensor<f32>
  %low = fusion.constant dense<0xFF800000> : tensor<f32>
  %0 = fusion.reshape %q : (!q) -> !folded
  %1 = fusion.matmul %0, %k {transpose_rhs} : (!folded, !k) -> !rows
  %2 = fusion.reshape %1 : (!rows) -> !five
  %3 = fusion.mul %2, %scale : (!five, tensor<f32>) -> !five
  %4 = fusion.where %seen, %3, %low : (tensor<?x?xi1, #fusion.shape<[s, t]>>, !five, tensor<f32>) -> !five
  %5 = fusion.softmax %4 axis = 4 : (!five) -> !five
  %6 = fusion.reshape %5 : (!five) -> !rows
  %7 = fusion.matmul %6, %v : (!rows, !k) -> !folded
  %8 = fusion.reshape %7 : (!folded) -> !q
  return %8 : !q
}

// -----

!q = tensor<2x4x?x8xf32, #fusion.shape<[2, 4, s, 8]>>
!k = tensor<2x2x?x8xf32, #fusion.shape<[2, 2, t, 8]>>
!folded = tensor<2x2x?x8xf32, #fusion.shape<[2, 2, "2*s", 8]>>
!rows = tensor<2x2x?x?xf32, #fusion.shape<[2, 2, "2*s", t]>>
!four = tensor<2x4x?x?xf32, #fusion.shape<[2, 4, s, t]>>

// Groups folded into rows; the scores are masked for each head.
// CHECK-LABEL: func.func @folded
// CHECK: fusion.attention %arg0, %arg1, %arg2 bias
func.func @folded(%q: !q, %k: !k, %v: !k, %mask: tensor<4x1x?xf32, #fusion.shape<[4, 1, t]>>) -> !q {
  %scale = fusion.constant dense<0.25> : tensor<f32>
  %0 = fusion.reshape %q : (!q) -> !folded
  %1 = fusion.matmul %0, %k {transpose_rhs} : (!folded, !k) -> !rows
  %2 = fusion.mul %1, %scale : (!rows, tensor<f32>) -> !rows
  %3 = fusion.reshape %2 : (!rows) -> !four
  %4 = fusion.add %3, %mask : (!four, tensor<4x1x?xf32, #fusion.shape<[4, 1, t]>>) -> !four
  %5 = fusion.softmax %4 axis = 3 : (!four) -> !four
  %6 = fusion.reshape %5 : (!four) -> !rows
  %7 = fusion.matmul %6, %v : (!rows, !k) -> !folded
  %8 = fusion.reshape %7 : (!folded) -> !q
  return %8 : !q
}

// -----

!q = tensor<2x?x4x8xf32, #fusion.shape<[2, s, 4, 8]>>
!k = tensor<2x?x8xf32, #fusion.shape<[2, t, 8]>>
!folded = tensor<2x?x8xf32, #fusion.shape<[2, "4*s", 8]>>
!rows = tensor<2x?x?xf32, #fusion.shape<[2, "4*s", t]>>
!four = tensor<2x?x4x?xf32, #fusion.shape<[2, s, 4, t]>>
!seen = tensor<?x1x?xi1, #fusion.shape<[s, 1, t]>>

// One key for all heads, rows before heads.
// CHECK-LABEL: func.func @one_key
// CHECK-DAG: %[[Q:.*]] = fusion.transpose %arg0 perm = [0, 2, 1, 3]
// CHECK-DAG: %[[K:.*]] = fusion.reshape %arg1 {{.*}} -> tensor<2x1x?x8xf32
// CHECK: %[[A:.*]] = fusion.attention %[[Q]], %[[K]], %{{.*}} bias
// CHECK: %[[T:.*]] = fusion.transpose %[[A]] perm = [0, 2, 1, 3]
// CHECK: return %[[T]]
func.func @one_key(%q: !q, %k: !k, %v: !k, %seen: !seen) -> !q {
  %low = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %0 = fusion.reshape %q : (!q) -> !folded
  %1 = fusion.matmul %0, %k {transpose_rhs} : (!folded, !k) -> !rows
  %2 = fusion.reshape %1 : (!rows) -> !four
  %3 = fusion.where %seen, %2, %low : (!seen, !four, tensor<f32>) -> !four
  %4 = fusion.softmax %3 axis = 3 : (!four) -> !four
  %5 = fusion.reshape %4 : (!four) -> !rows
  %6 = fusion.matmul %5, %v : (!rows, !k) -> !folded
  %7 = fusion.reshape %6 : (!folded) -> !q
  return %7 : !q
}
