// RUN: fusion-opt %s --fusion-generate-hopper | FileCheck %s

// Each sequence's rows go behind its own; a length that leaves no room is
// reported and nothing is written outside.

!cache = tensor<2x2x?x8xf32, #fusion.shape<[2, 2, d0, 8], storage = [2, 2, 64, 8]>>
!next = tensor<2x2x?x8xf32, #fusion.shape<[2, 2, "d0 + 1", 8], storage = [2, 2, 64, 8]>>

// CHECK-LABEL: llvm.func @append
// CHECK: llvm.load {{.*}} vector<4xf32>
// CHECK: llvm.load {{.*}} -> i32
// CHECK: llvm.store {{.*}} : i32
// CHECK: llvm.store {{.*}} : vector<4xf32>
fusion.kernel @append config #fusion.config<"append", {}> sizes 1
    (%past: !cache, %x: tensor<2x2x1x8xf32>, %lengths: tensor<2xi32>) {
  %y = fusion.kv_append %past, %x lengths %lengths axis = 2 : (!cache, tensor<2x2x1x8xf32>, tensor<2xi32>) -> !next
  fusion.yield %y : !next
}

// The general kernel: the tensor core forms take one length alone.
// CHECK-LABEL: llvm.func @attention
// CHECK-NOT: mma
// CHECK: math.exp2
fusion.kernel @attention config #fusion.config<"attention", {}> sizes 1
    (%q: tensor<2x8x1x64xf16>, %k: tensor<2x2x?x64xf16, #fusion.shape<[2, 2, d0, 64]>>, %lengths: tensor<2xi32>) {
  %y = fusion.attention %q, %k, %k offsets %lengths {scale = 1.25e-1 : f32, causal} : (tensor<2x8x1x64xf16>, tensor<2x2x?x64xf16, #fusion.shape<[2, 2, d0, 64]>>, tensor<2x2x?x64xf16, #fusion.shape<[2, 2, d0, 64]>>, tensor<2xi32>) -> tensor<2x8x1x64xf16>
  fusion.yield %y : tensor<2x8x1x64xf16>
}
