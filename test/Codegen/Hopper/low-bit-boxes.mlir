// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/alone.ptx
// RUN: FileCheck %s --check-prefix=ADDED --input-file=%t/added.ptx
// RUN: FileCheck %s --check-prefix=LAUNCH --input-file=%t/launches.txt

// Results that nothing but the product goes into are turned round by stmatrix
// and leave as boxes of 64 columns by 32 rows. What is added would have to be
// read across the threads: those results leave from fp32 in shared memory.

// CHECK: stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK: fence.proxy.async
// CHECK: cp.async.bulk.tensor.2d.global.shared::cta
// CHECK-NOT: st.global.v2

// ADDED-NOT: stmatrix
// ADDED-NOT: cp.async.bulk.tensor.2d.global
// ADDED: st.global.v2

// LAUNCH: stage|alone|
// LAUNCH: map|3|16|0|128|28672;d0|57344|64;32
// LAUNCH: stage|added|
// LAUNCH-NOT: 57344

fusion.kernel @alone config #fusion.config<"matmul", {rows = array<i64: 128, 128>, fragments = array<i64: 1>, strips = array<i64: 2>}> sizes 1
    (%x: tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, %q: tensor<28672x4096xi4>, %s: tensor<28672x32xbf16>) {
  %w = fusion.dequantize %q, %s {axis = 1 : i64, block_size = 128 : i64} : (tensor<28672x4096xi4>, tensor<28672x32xbf16>) -> tensor<28672x4096xbf16>
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, tensor<28672x4096xbf16>) -> tensor<?x28672xbf16, #fusion.shape<[d0, 28672]>>
  %1 = fusion.relu %0 : (tensor<?x28672xbf16, #fusion.shape<[d0, 28672]>>) -> tensor<?x28672xbf16, #fusion.shape<[d0, 28672]>>
  fusion.yield %1 : tensor<?x28672xbf16, #fusion.shape<[d0, 28672]>>
}

fusion.kernel @added config #fusion.config<"matmul", {rows = array<i64: 128, 128>, fragments = array<i64: 1>, strips = array<i64: 2>}> sizes 1
    (%x: tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, %q: tensor<28672x4096xi4>, %s: tensor<28672x32xbf16>, %r: tensor<?x28672xbf16, #fusion.shape<[d0, 28672]>>) {
  %w = fusion.dequantize %q, %s {axis = 1 : i64, block_size = 128 : i64} : (tensor<28672x4096xi4>, tensor<28672x32xbf16>) -> tensor<28672x4096xbf16>
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, tensor<28672x4096xbf16>) -> tensor<?x28672xbf16, #fusion.shape<[d0, 28672]>>
  %1 = fusion.add %0, %r : (tensor<?x28672xbf16, #fusion.shape<[d0, 28672]>>, tensor<?x28672xbf16, #fusion.shape<[d0, 28672]>>) -> tensor<?x28672xbf16, #fusion.shape<[d0, 28672]>>
  fusion.yield %1 : tensor<?x28672xbf16, #fusion.shape<[d0, 28672]>>
}
