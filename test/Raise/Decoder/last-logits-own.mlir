// RUN: fusion-opt %s --split-input-file --verify-diagnostics --fusion-last-logits=own-lengths | FileCheck %s

!ids = tensor<3x?xi64, #fusion.shape<[3, seq]>>
!h = tensor<3x?x8xf32, #fusion.shape<[3, seq, 8]>>
!l = tensor<3x?x32xf32, #fusion.shape<[3, seq, 32]>>

// Each sequence's own last row; a sequence without tokens has row 0.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[C:arg[0-9]+]]: tensor<3xi32> {fusion.name = "token_counts", fusion.role = "token_counts"}
// CHECK: %[[ONE:.*]] = fusion.shape_value ["1"] : tensor<i32>
// CHECK: %[[S:.*]] = fusion.sub %[[C]], %[[ONE]]
// CHECK: %[[ZERO:.*]] = fusion.shape_value ["0"] : tensor<i32>
// CHECK: %[[M:.*]] = fusion.max %[[S]], %[[ZERO]]
// CHECK: %[[R:.*]] = fusion.reshape %[[M]] : (tensor<3xi32>) -> tensor<3x1x1xi32>
// CHECK: %[[G:.*]] = fusion.gather_nd %arg1, %[[R]] {batch_dims = 1 : i64} {{.*}} -> tensor<3x1x8xf32>
// CHECK: %[[P:.*]] = fusion.matmul %[[G]], %arg2 {{.*}} -> tensor<3x1x32xf32>
// CHECK: return %[[P]]
func.func @main(%ids: !ids {fusion.role = "token_ids"}, %x: !h, %w: tensor<8x32xf32>) -> (!l {fusion.role = "logits"}) {
  %p = fusion.matmul %x, %w : (!h, tensor<8x32xf32>) -> !l
  return %p : !l
}

// -----

!ids = tensor<?x?xi64, #fusion.shape<[batch, seq]>>
!l = tensor<?x?x32xf32, #fusion.shape<[batch, seq, 32]>>

// expected-error @+1 {{--kv-lengths=own: expected token ids [batch, tokens] of a known batch; fix it with --dim batch=N}}
func.func @main(%ids: !ids {fusion.role = "token_ids"}, %x: !l) -> (!l {fusion.role = "logits"}) {
  return %x : !l
}

// -----

!ids = tensor<3x?xi64, #fusion.shape<[3, seq]>>
!l = tensor<?x3x32xf32, #fusion.shape<[seq, 3, 32]>>

// expected-error @+1 {{--kv-lengths=own: expected logits [3, tokens, vocabulary], found type}}
func.func @main(%ids: !ids {fusion.role = "token_ids"}, %x: !l) -> (!l {fusion.role = "logits"}) {
  return %x : !l
}
