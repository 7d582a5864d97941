// RUN: fusion-opt %s --split-input-file --fusion-last-logits | FileCheck %s

!h = tensor<1x?x8xf32, #fusion.shape<[1, seq, 8]>>
!l = tensor<1x?x32xf32, #fusion.shape<[1, seq, 32]>>

// The cut moves above the soft cap and the product, not above the norm.
// CHECK-LABEL: func.func @main
// CHECK: %[[N:.*]] = fusion.rms_norm {{.*}}seq, 8
// CHECK: %[[R:.*]] = fusion.slice %[[N]] starts = ["0", "seq - 1", "0"] steps = [1, 1, 1] {{.*}} -> tensor<1x1x8xf32>
// CHECK: %[[P:.*]] = fusion.matmul %[[R]], %arg1 {{.*}} -> tensor<1x1x32xf32>
// CHECK: %[[T:.*]] = fusion.tanh %[[P]]
// CHECK: %[[M:.*]] = fusion.mul %[[T]], %arg2 {{.*}} -> tensor<1x1x32xf32>
// CHECK: return %[[N]], %[[M]] : {{.*}}, tensor<1x1x32xf32>
func.func @main(%x: !h, %w: tensor<8x32xf32>, %c: tensor<32xf32>) -> (!h, !l {fusion.role = "logits"}) {
  %n = fusion.rms_norm %x {epsilon = 1.0e-5 : f32} : (!h) -> !h
  %p = fusion.matmul %n, %w : (!h, tensor<8x32xf32>) -> !l
  %t = fusion.tanh %p : (!l) -> !l
  %m = fusion.mul %t, %c : (!l, tensor<32xf32>) -> !l
  return %n, %m : !h, !l
}

// -----

!l = tensor<1x?x32xf32, #fusion.shape<[1, seq, 32]>>

// The product has another user: all its rows stay.
// CHECK-LABEL: func.func @main
// CHECK: %[[P:.*]] = fusion.exp %arg0
// CHECK: %[[R:.*]] = fusion.slice %[[P]] {{.*}} -> tensor<1x1x32xf32>
// CHECK: return %[[P]], %[[R]]
func.func @main(%x: !l) -> (!l, !l {fusion.role = "logits"}) {
  %p = fusion.exp %x : (!l) -> !l
  return %p, %p : !l, !l
}
