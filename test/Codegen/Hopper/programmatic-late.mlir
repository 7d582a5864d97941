// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --check-prefix=KEYS --input-file=%t/keys.ptx
// RUN: FileCheck %s --check-prefix=PREFILL --input-file=%t/prefill.ptx

// What no kernel writes is loaded before the wait: all that a pointwise kernel
// reads (the threads without elements wait, too: the kernel must not end before
// its predecessor), and the first queries of an attention.

// KEYS: griddepcontrol.launch_dependents
// KEYS: ld.global.v4.b32
// KEYS: griddepcontrol.wait
// KEYS-NOT: ld.global
// KEYS: st.global.v4.b32
// KEYS: griddepcontrol.wait
// KEYS-NEXT: ret

// PREFILL: griddepcontrol.launch_dependents
// PREFILL: ld.global.v4.b32
// PREFILL: bar.sync
// PREFILL-NEXT: griddepcontrol.wait
// PREFILL: wgmma.mma_async

!q = tensor<1x4x?x128xbf16, #fusion.shape<[1, 4, d0, 128]>>
!c = tensor<1x1x?x128xbf16, #fusion.shape<[1, 1, d0, 128]>>
fusion.kernel @keys config #fusion.config<"pointwise", {programmatic, step_invariant = array<i64: 0, 1>}> sizes 1
    (%x: !q, %c: !c) {
  %r = fusion.rope %x, %c, %c : (!q, !c, !c) -> !q
  fusion.yield %r : !q
}
fusion.kernel @prefill config #fusion.config<"attention", {programmatic, rows = array<i64: 65, 8192>, step_invariant = array<i64: 0, 1>}> sizes 1
    (%q: !q, %c: !c, %k: !q, %v: !q) {
  %r = fusion.rope %q, %c, %c : (!q, !c, !c) -> !q
  %y = fusion.attention %r, %k, %v {causal, scale = 0.125 : f32} : (!q, !q, !q) -> !q
  fusion.yield %y : !q
}
