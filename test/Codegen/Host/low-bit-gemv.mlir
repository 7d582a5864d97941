// RUN: fusion-opt %s --fusion-generate-host | FileCheck %s

// One row: 16 bytes of nibbles become two vectors of f32; nothing calls sgemm.

// CHECK-LABEL: llvm.func internal @decode.body
// CHECK: %[[BYTES:.*]] = llvm.load %{{.*}} {alignment = 1 : i64} : !llvm.ptr -> vector<16xi8>
// CHECK: %[[WIDE:.*]] = arith.extui %[[BYTES]] : vector<16xi8> to vector<16xi32>
// CHECK: arith.andi %[[WIDE]]
// CHECK: arith.shrui %[[WIDE]]
// CHECK-COUNT-2: arith.sitofp %{{.*}} : vector<16xi32> to vector<16xf32>
// CHECK-NOT: llvm.call
// CHECK: llvm.return
fusion.kernel @decode config #fusion.config<"matmul", {}> sizes 0
    (%x: tensor<1x64xf32>, %q: tensor<32x64xui4>, %s: tensor<32x2xf32>, %z: tensor<32x2xf32>) {
  %w = fusion.dequantize %q, %s zero_point %z {axis = 1 : i64, block_size = 32 : i64} : (tensor<32x64xui4>, tensor<32x2xf32>, tensor<32x2xf32>) -> tensor<32x64xf32>
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<1x64xf32>, tensor<32x64xf32>) -> tensor<1x32xf32>
  fusion.yield %0 : tensor<1x32xf32>
}
