// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/launches.txt
// RUN: FileCheck %s --check-prefix=HEADS --input-file=%t/heads.ptx
// RUN: FileCheck %s --check-prefix=BOTH --input-file=%t/both.ptx
// RUN: FileCheck %s --check-prefix=MIXED --input-file=%t/mixed.ptx

// Which results leave as boxes of a tensor map: all of a kernel's, or none.

// A result by heads: batches are an axis of the map.
// CHECK: stage|heads|
// CHECK: map|2|16|0|128|64;d0;32|128;128*d0|64;64;1
// HEADS: cp.async.bulk.tensor.3d.global.shared::cta

// Two results of one product.
// CHECK: stage|both|
// CHECK: map|2|16|0|128|512;d0|1024|64;64
// CHECK: map|3|16|0|128|512;d0|1024|64;64
// BOTH: cp.async.bulk.tensor.2d.global.shared::cta
// BOTH-NOT: st.global

// A result in 32 bits leaves from the registers, and so the other one leaves by
// the threads.
// CHECK: stage|mixed|
// CHECK-NOT: map|{{[23]}}
// MIXED-NOT: cp.async.bulk.tensor.2d.global
// MIXED: st.global

// Rows that do not lie at multiples of 16 bytes.
// CHECK: stage|odd|
// CHECK-NEXT: map|0
// CHECK-NEXT: map|1
// CHECK-NOT: map|2

fusion.kernel @heads config #fusion.config<"matmul", {rows = array<i64: 1024, 4096>}> sizes 1
    (%x: tensor<32x?x128xbf16, #fusion.shape<[32, d0, 128]>>, %w: tensor<32x64x128xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<32x?x128xbf16, #fusion.shape<[32, d0, 128]>>, tensor<32x64x128xbf16>) -> tensor<32x?x64xbf16, #fusion.shape<[32, d0, 64]>>
  fusion.yield %0 : tensor<32x?x64xbf16, #fusion.shape<[32, d0, 64]>>
}
fusion.kernel @both config #fusion.config<"matmul", {rows = array<i64: 1024, 4096>}> sizes 1
    (%x: tensor<?x512xbf16, #fusion.shape<[d0, 512]>>, %w: tensor<512x512xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x512xbf16, #fusion.shape<[d0, 512]>>, tensor<512x512xbf16>) -> tensor<?x512xbf16, #fusion.shape<[d0, 512]>>
  %1 = fusion.relu %0 : (tensor<?x512xbf16, #fusion.shape<[d0, 512]>>) -> tensor<?x512xbf16, #fusion.shape<[d0, 512]>>
  fusion.yield %0, %1 : tensor<?x512xbf16, #fusion.shape<[d0, 512]>>, tensor<?x512xbf16, #fusion.shape<[d0, 512]>>
}
fusion.kernel @mixed config #fusion.config<"matmul", {rows = array<i64: 1024, 4096>}> sizes 1
    (%x: tensor<?x512xbf16, #fusion.shape<[d0, 512]>>, %w: tensor<512x512xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x512xbf16, #fusion.shape<[d0, 512]>>, tensor<512x512xbf16>) -> tensor<?x512xbf16, #fusion.shape<[d0, 512]>>
  %1 = fusion.cast %0 : (tensor<?x512xbf16, #fusion.shape<[d0, 512]>>) -> tensor<?x512xf32, #fusion.shape<[d0, 512]>>
  fusion.yield %0, %1 : tensor<?x512xbf16, #fusion.shape<[d0, 512]>>, tensor<?x512xf32, #fusion.shape<[d0, 512]>>
}
fusion.kernel @odd config #fusion.config<"matmul", {rows = array<i64: 1024, 4096>}> sizes 1
    (%x: tensor<?x512xbf16, #fusion.shape<[d0, 512]>>, %w: tensor<516x512xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x512xbf16, #fusion.shape<[d0, 512]>>, tensor<516x512xbf16>) -> tensor<?x516xbf16, #fusion.shape<[d0, 516]>>
  fusion.yield %0 : tensor<?x516xbf16, #fusion.shape<[d0, 516]>>
}
