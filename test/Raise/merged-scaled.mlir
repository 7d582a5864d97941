// RUN: fusion-opt %s --fusion-raise | FileCheck %s

// Keys over merged batch axes, turned and divided by a number in front of the product, and a bias over merged axes:
// relative attention as DeBERTa spells it.
// CHECK-LABEL: func.func @scaled
// CHECK: fusion.attention
// CHECK-NOT: fusion.softmax
// CHECK: return
!b4 = tensor<?x2x?x8xf32, #fusion.shape<[b, 2, s, 8]>>
!b3 = tensor<?x?x8xf32, #fusion.shape<["2*b", s, 8]>>
!t3 = tensor<?x8x?xf32, #fusion.shape<["2*b", 8, s]>>
!s3 = tensor<?x?x?xf32, #fusion.shape<["2*b", s, s]>>
!s4 = tensor<?x2x?x?xf32, #fusion.shape<[b, 2, s, s]>>
!m4 = tensor<?x1x?x?xi1, #fusion.shape<[b, 1, s, s]>>
func.func @scaled(%q: !b4, %k: !b4, %v: !b4, %bias: !s3, %mask: !m4, %d: tensor<f32>) -> !b4 {
  %min = fusion.constant dense<-3.40282347E+38> : tensor<f32>
  %q3 = fusion.reshape %q : (!b4) -> !b3
  %k3 = fusion.reshape %k : (!b4) -> !b3
  %t = fusion.transpose %k3 perm = [0, 2, 1] : (!b3) -> !t3
  %c = fusion.div %t, %d : (!t3, tensor<f32>) -> !t3
  %s = fusion.matmul %q3, %c : (!b3, !t3) -> !s3
  %a = fusion.add %s, %bias : (!s3, !s3) -> !s3
  %s4 = fusion.reshape %a : (!s3) -> !s4
  %m = fusion.where %mask, %s4, %min : (!m4, !s4, tensor<f32>) -> !s4
  %p = fusion.softmax %m axis = 3 : (!s4) -> !s4
  %r = fusion.matmul %p, %v : (!s4, !b4) -> !b4
  return %r : !b4
}
