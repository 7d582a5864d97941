// REQUIRES: ptxas
// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t ptxas=%ptxas" -o /dev/null
// RUN: FileCheck %s --input-file=%t/kernels.txt
// RUN: FileCheck %s --check-prefix=BYTES --input-file=%t/zero_points.ptx

// Every format of packed weights is decoded in registers; the assembler keeps
// wgmma asynchronous and spills nothing: else a kernel of fewer threads would
// have been taken.

// CHECK: zero_points 384
// CHECK: fp8_gated 384
// CHECK: nvfp4 384
// CHECK: int8_rows_fp16 384

// Zero points of 4 bits are subtracted from four codes at once, as bytes, and
// the bytes spread to halves: one fma for two weights follows, as without them.
// BYTES: .visible .entry zero_points(
// BYTES: and.b32 {{.*}}, -252645136
// BYTES: sub.u32 t,
// BYTES: prmt.b32
// BYTES: fma.rn.bf16x2
// BYTES-NOT: sub.rn.bf16x2

fusion.kernel @zero_points config #fusion.config<"matmul", {rows = array<i64: 65, 4096>, fragments = array<i64: 1>, strips = array<i64: 2, 3>}> sizes 1
    (%x: tensor<?x1024xbf16, #fusion.shape<[d0, 1024]>>, %q: tensor<1040x1024xui4>, %s: tensor<1040x32xbf16>, %z: tensor<1040x32xui4>) {
  %w = fusion.dequantize %q, %s zero_point %z {axis = 1 : i64, block_size = 32 : i64} : (tensor<1040x1024xui4>, tensor<1040x32xbf16>, tensor<1040x32xui4>) -> tensor<1040x1024xbf16>
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x1024xbf16, #fusion.shape<[d0, 1024]>>, tensor<1040x1024xbf16>) -> tensor<?x1040xbf16, #fusion.shape<[d0, 1040]>>
  fusion.yield %0 : tensor<?x1040xbf16, #fusion.shape<[d0, 1040]>>
}
fusion.kernel @fp8_gated config #fusion.config<"matmul", {rows = array<i64: 2, 64>, fragments = array<i64: 1, 3>, strips = array<i64: 2, 4>}> sizes 1
    (%x: tensor<?x512xbf16, #fusion.shape<[d0, 512]>>, %q0: tensor<520x512xf8E4M3FN>, %s0: tensor<520x4xbf16>, %q1: tensor<520x512xf8E4M3FN>, %s1: tensor<520x4xbf16>) {
  %w0 = fusion.dequantize %q0, %s0 {axis = 1 : i64, block_size = 128 : i64} : (tensor<520x512xf8E4M3FN>, tensor<520x4xbf16>) -> tensor<520x512xbf16>
  %w1 = fusion.dequantize %q1, %s1 {axis = 1 : i64, block_size = 128 : i64} : (tensor<520x512xf8E4M3FN>, tensor<520x4xbf16>) -> tensor<520x512xbf16>
  %0 = fusion.matmul %x, %w0 {transpose_rhs} : (tensor<?x512xbf16, #fusion.shape<[d0, 512]>>, tensor<520x512xbf16>) -> tensor<?x520xbf16, #fusion.shape<[d0, 520]>>
  %1 = fusion.matmul %x, %w1 {transpose_rhs} : (tensor<?x512xbf16, #fusion.shape<[d0, 512]>>, tensor<520x512xbf16>) -> tensor<?x520xbf16, #fusion.shape<[d0, 520]>>
  %2 = fusion.silu %0 : (tensor<?x520xbf16, #fusion.shape<[d0, 520]>>) -> tensor<?x520xbf16, #fusion.shape<[d0, 520]>>
  %3 = fusion.mul %2, %1 : (tensor<?x520xbf16, #fusion.shape<[d0, 520]>>, tensor<?x520xbf16, #fusion.shape<[d0, 520]>>) -> tensor<?x520xbf16, #fusion.shape<[d0, 520]>>
  fusion.yield %3 : tensor<?x520xbf16, #fusion.shape<[d0, 520]>>
}
fusion.kernel @nvfp4 config #fusion.config<"matmul", {rows = array<i64: 17, 64>, fragments = array<i64: 1>, strips = array<i64: 2>}> sizes 1
    (%x: tensor<?x512xbf16, #fusion.shape<[d0, 512]>>, %q: tensor<528x512xf4E2M1FN>, %s: tensor<528x32xf8E4M3FN>, %g: tensor<1xf32>) {
  %t = fusion.dequantize %s, %g : (tensor<528x32xf8E4M3FN>, tensor<1xf32>) -> tensor<528x32xf32>
  %w = fusion.dequantize %q, %t {axis = 1 : i64, block_size = 16 : i64} : (tensor<528x512xf4E2M1FN>, tensor<528x32xf32>) -> tensor<528x512xf32>
  %c = fusion.cast %w : (tensor<528x512xf32>) -> tensor<528x512xbf16>
  %0 = fusion.matmul %x, %c {transpose_rhs} : (tensor<?x512xbf16, #fusion.shape<[d0, 512]>>, tensor<528x512xbf16>) -> tensor<?x528xbf16, #fusion.shape<[d0, 528]>>
  fusion.yield %0 : tensor<?x528xbf16, #fusion.shape<[d0, 528]>>
}
fusion.kernel @int8_rows_fp16 config #fusion.config<"matmul", {rows = array<i64: 2, 64>, fragments = array<i64: 1>, strips = array<i64: 2>}> sizes 1
    (%x: tensor<?x520xf16, #fusion.shape<[d0, 520]>>, %q: tensor<301x520xi8>, %s: tensor<301xf16>) {
  %w = fusion.dequantize %q, %s {axis = 0 : i64} : (tensor<301x520xi8>, tensor<301xf16>) -> tensor<301x520xf16>
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x520xf16, #fusion.shape<[d0, 520]>>, tensor<301x520xf16>) -> tensor<?x301xf16, #fusion.shape<[d0, 301]>>
  fusion.yield %0 : tensor<?x301xf16, #fusion.shape<[d0, 301]>>
}
