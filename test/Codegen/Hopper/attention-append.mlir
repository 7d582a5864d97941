// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/decode.ptx

// A decode attention that appends to the caches itself: what it copies is older
// than this step, so the copies start before the wait.

// CHECK: griddepcontrol.launch_dependents
// CHECK: cp.async.bulk.shared
// CHECK: griddepcontrol.wait
// CHECK: st.global.v4.b32

!q = tensor<1x32x1x128xbf16>
!c = tensor<1x1x1x64xbf16>
!new = tensor<1x8x1x128xbf16>
!old = tensor<1x8x?x128xbf16, #fusion.shape<[1, 8, d0, 128], storage = [1, 8, 4096, 128]>>
!all = tensor<1x8x?x128xbf16, #fusion.shape<[1, 8, "d0 + 1", 128], storage = [1, 8, 4096, 128]>>
fusion.kernel @decode config #fusion.config<"attention", {programmatic, rows = array<i64: 1, 1>}> sizes 1
    (%q: !q, %c: !c, %s: !c, %kn: !new, %kc: !old, %vn: !new, %vc: !old) {
  %r = fusion.rope %q, %c, %s : (!q, !c, !c) -> !q
  %rk = fusion.rope %kn, %c, %s : (!new, !c, !c) -> !new
  %k = fusion.kv_append %kc, %rk axis = 2 : (!old, !new) -> !all
  %v = fusion.kv_append %vc, %vn axis = 2 : (!old, !new) -> !all
  %y = fusion.attention %r, %k, %v {causal, causal_offset = "d0", scale = 0.125 : f32} : (!q, !all, !all) -> !q
  fusion.yield %y, %k, %v : !q, !all, !all
}
