// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/int4.ptx
// RUN: FileCheck %s --check-prefix=LAUNCH --input-file=%t/launches.txt

// Packed int4 weights are the register operand of wgmma: nibbles are masked in
// place, and one fma of pairs makes weights of them. Codes, scales and lhs come
// by TMA; a stage is given back by an arrive without a branch.

// CHECK: and.b32 {{.*}}, 983055
// CHECK: fma.rn.bf16x2
// CHECK: wgmma.fence.sync.aligned
// CHECK: wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {{.*}}, {%r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}, %r{{[0-9]+}}}, %rd
// CHECK: @p mbarrier.arrive
// CHECK: cp.async.bulk.tensor.3d

// LAUNCH: stage|int4|384|1|{{[0-9]+}}|224|0|0
// LAUNCH-NEXT: map|0|16|0|128|4096;d0|8192|64;16
// LAUNCH-NEXT: map|0|16|0|128|4096;d0|8192|64;8
// LAUNCH-NEXT: map|1|12|0|0|128;64;1792|512;32768|128;2;8
// LAUNCH-NEXT: map|2|4|0|0|16;32;1792|32;1024|16;1;8

fusion.kernel @int4 config #fusion.config<"matmul", {rows = array<i64: 9, 16>, fragments = array<i64: 1>, strips = array<i64: 2>}> sizes 1
    (%x: tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, %q: tensor<28672x4096xi4>, %s: tensor<28672x32xbf16>) {
  %w = fusion.dequantize %q, %s {axis = 1 : i64, block_size = 128 : i64} : (tensor<28672x4096xi4>, tensor<28672x32xbf16>) -> tensor<28672x4096xbf16>
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, tensor<28672x4096xbf16>) -> tensor<?x28672xbf16, #fusion.shape<[d0, 28672]>>
  fusion.yield %0 : tensor<?x28672xbf16, #fusion.shape<[d0, 28672]>>
}
