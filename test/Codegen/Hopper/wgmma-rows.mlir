// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/prefill.ptx
// RUN: FileCheck %s --check-prefix=LAUNCH --input-file=%t/launches.txt

// A bucket of rows: one function with all tile widths, chosen by the rows that
// there are; where they are few, blocks share K, leave partial sums in the
// workspace and count themselves. The weight has boxes of each width.

// CHECK: .param .align 64 .b8 prefill_param_{{[0-9]+}}[128]
// CHECK: setmaxnreg.inc.sync.aligned.u32 232
// CHECK-DAG: wgmma.mma_async.sync.aligned.m64n256k16
// CHECK-DAG: wgmma.mma_async.sync.aligned.m64n224k16
// CHECK-DAG: wgmma.mma_async.sync.aligned.m64n192k16
// CHECK-DAG: wgmma.mma_async.sync.aligned.m64n128k16
// CHECK-DAG: atom.acq_rel.gpu.global.add.u32

// LAUNCH: stage|prefill|384|1|229632|132|{{[1-9][0-9]+}}|528
// LAUNCH-NEXT: map|0|16|0|128|4096;d0|8192|64;128
// LAUNCH-NEXT: map|1|16|0|128|4096;4096|8192|64;256
// LAUNCH-NEXT: map|1|16|0|128|4096;4096|8192|64;224
// LAUNCH-NEXT: map|1|16|0|128|4096;4096|8192|64;192
// LAUNCH-NEXT: map|1|16|0|128|4096;4096|8192|64;128
// LAUNCH-NEXT: map|2|16|0|128|4096;d0|8192|64;64

fusion.kernel @prefill config #fusion.config<"matmul", {rows = array<i64: 65, 4096>}> sizes 1
    (%x: tensor<1x?x4096xbf16, #fusion.shape<[1, d0, 4096]>>, %w: tensor<4096x4096xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<1x?x4096xbf16, #fusion.shape<[1, d0, 4096]>>, tensor<4096x4096xbf16>) -> tensor<1x?x4096xbf16, #fusion.shape<[1, d0, 4096]>>
  fusion.yield %0 : tensor<1x?x4096xbf16, #fusion.shape<[1, d0, 4096]>>
}
