// REQUIRES: ptxas
// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t ptxas=%ptxas" -o /dev/null
// RUN: FileCheck %s --input-file=%t/kernels.txt

// Two heads a tile and 64 columns: what ptxas keeps of the outer loops in local
// memory does not make the kernel fall to the template without tensor cores,
// whose blocks have 256 threads.

// CHECK: prefill 384

!q = tensor<1x32x?x64xbf16, #fusion.shape<[1, 32, d0, 64]>>
!t = tensor<1x?x32x64xbf16, #fusion.shape<[1, d0, 32, 64]>>
!c = tensor<1x1x?x32xbf16, #fusion.shape<[1, 1, d0, 32]>>
!kv = tensor<1x8x?x64xbf16, #fusion.shape<[1, 8, "d0 + d1", 64], storage = [1, 8, 8192, 64]>>
fusion.kernel @prefill config #fusion.config<"attention", {rows = array<i64: 65, 8192>}> sizes 2
    (%q: !t, %c: !c, %s: !c, %k: !kv, %v: !kv) {
  %x = fusion.transpose %q perm = [0, 2, 1, 3] : (!t) -> !q
  %r = fusion.rope %x, %c, %s : (!q, !c, !c) -> !q
  %y = fusion.attention %r, %k, %v {causal, causal_offset = "d1", scale = 0.125 : f32} : (!q, !kv, !kv) -> !q
  %o = fusion.transpose %y perm = [0, 2, 1, 3] : (!q) -> !t
  fusion.yield %o : !t
}
