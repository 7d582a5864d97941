// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/front.ptx
// RUN: FileCheck %s --check-prefix=LAUNCH --input-file=%t/launches.txt

// SwiGLU in both products, weights as ONNX's MatMul stores them, [K, N]: B is
// read along N (the last digit of each product), gate and up weights fill the
// halves of one tile, and only the gated product is stored.

// CHECK: wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {{.*}}, 0, 1, 1, 0, 1;
// CHECK: wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {{.*}}, 1, 1, 1, 0, 1;
// CHECK: wgmma.wait_group.sync.aligned 0
// CHECK: ex2.approx
// CHECK: cvt.rn.f16x2.f32
// CHECK: stmatrix
// Two chunks of 64 columns.
// CHECK-COUNT-2: cp.async.bulk.tensor.2d.global.shared::cta
// CHECK-NOT: {{cp.async.bulk.tensor.2d.global|st.global}}

// Boxes of 64 columns and 64 rows of each weight, of 64 rows of the result.
// LAUNCH: stage|front|384|
// LAUNCH-NEXT: map|0|10|0|128|4096;2048|8192|64;128
// LAUNCH-NEXT: map|1|10|0|128|14336;4096|28672|64;64
// LAUNCH-NEXT: map|2|10|0|128|14336;4096|28672|64;64
// LAUNCH-NEXT: map|3|10|0|128|14336;2048|28672|64;64

fusion.kernel @front config #fusion.config<"matmul", {}> sizes 0
    (%x: tensor<2048x4096xf16>, %g: tensor<4096x14336xf16>, %u: tensor<4096x14336xf16>) {
  %0 = fusion.matmul %x, %g : (tensor<2048x4096xf16>, tensor<4096x14336xf16>) -> tensor<2048x14336xf16>
  %1 = fusion.matmul %x, %u : (tensor<2048x4096xf16>, tensor<4096x14336xf16>) -> tensor<2048x14336xf16>
  %2 = fusion.silu %0 : (tensor<2048x14336xf16>) -> tensor<2048x14336xf16>
  %3 = fusion.mul %2, %1 : (tensor<2048x14336xf16>, tensor<2048x14336xf16>) -> tensor<2048x14336xf16>
  fusion.yield %3 : tensor<2048x14336xf16>
}
