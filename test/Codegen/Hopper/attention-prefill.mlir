// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/prefill.ptx
// RUN: FileCheck %s --check-prefix=LAUNCH --input-file=%t/kernels.txt

// Many rows: blocks of keys and values by TMA, both products by wgmma, the
// second with its left operand in registers; registers move from the producer
// to the consumers, no more than the threads start with (168 each).

// CHECK-DAG: .reqntid 384
// CHECK-DAG: setmaxnreg.dec.sync.aligned.u32 56
// CHECK-DAG: cp.async.bulk.tensor.4d
// CHECK-DAG: setmaxnreg.inc.sync.aligned.u32 224
// CHECK-DAG: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK-DAG: ex2.approx.ftz.f32
// CHECK-DAG: wgmma.wait_group.sync.aligned 1
// CHECK-NOT: stmatrix
// LAUNCH: prefill 384

!q = tensor<1x32x?x128xbf16, #fusion.shape<[1, 32, d0, 128]>>
!c = tensor<1x1x?x64xbf16, #fusion.shape<[1, 1, d0, 64]>>
!kv = tensor<1x8x?x128xbf16, #fusion.shape<[1, 8, "d0 + d1", 128], storage = [1, 8, 4096, 128]>>
fusion.kernel @prefill config #fusion.config<"attention", {}> sizes 2
    (%q: !q, %c: !c, %s: !c, %k: !kv, %v: !kv) {
  %r = fusion.rope %q, %c, %s : (!q, !c, !c) -> !q
  %y = fusion.attention %r, %k, %v {causal, causal_offset = "d1", scale = 0.125 : f32} : (!q, !kv, !kv) -> !q
  fusion.yield %y : !q
}
