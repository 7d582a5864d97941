// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/decode.ptx
// RUN: FileCheck %s --check-prefix=LAUNCH --input-file=%t/kernels.txt

// One query row over a cache: keys and values come by bulk copies after the
// wait for the kernel that appended to them, products run on the tensor cores,
// parts meet by words in memory, published before they are polled.

// CHECK: griddepcontrol.launch_dependents
// CHECK: griddepcontrol.wait
// CHECK-DAG: cp.async.bulk.shared
// CHECK-DAG: mbarrier.try_wait
// CHECK-DAG: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-DAG: st.relaxed.gpu.global.v4.b32
// CHECK: ld.relaxed.gpu.global.v4.b32

// 8 KV heads times 16 parts.
// LAUNCH: decode 256 {{[0-9]+}} {{[0-9]+}} 128

!q = tensor<1x32x1x128xbf16>
!c = tensor<1x1x1x64xbf16>
!kv = tensor<1x8x?x128xbf16, #fusion.shape<[1, 8, "d0 + 1", 128], storage = [1, 8, 4096, 128]>>
fusion.kernel @decode config #fusion.config<"attention", {programmatic, rows = array<i64: 1, 1>}> sizes 1
    (%q: !q, %c: !c, %s: !c, %k: !kv, %v: !kv) {
  %r = fusion.rope %q, %c, %s : (!q, !c, !c) -> !q
  %y = fusion.attention %r, %k, %v {causal, causal_offset = "d0", scale = 0.125 : f32} : (!q, !kv, !kv) -> !q
  fusion.yield %y : !q
}
