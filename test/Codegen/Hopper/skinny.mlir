// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/norm_product.ptx
// RUN: FileCheck %s --check-prefix=PULLED --input-file=%t/odd.ptx
// RUN: FileCheck %s --check-prefix=LIST --input-file=%t/kernels.txt

// Two buffers of weights are on their way before the wait for the previous
// kernel; the row is read after it, added, normalised and stored by block 0.
// In the loop each buffer is multiplied while the other is loaded.

// CHECK: .visible .entry norm_product(
// CHECK: .reqntid 256
// CHECK: .minnctapersm 2
// CHECK: griddepcontrol.launch_dependents
// CHECK-COUNT-16: ld.global.L1::no_allocate.L2::cache_hint.v4.b32
// CHECK: griddepcontrol.wait
// CHECK: ld.global.v4.b32
// CHECK: rsqrt
// CHECK-COUNT-16: ld.global.L1::no_allocate.L2::cache_hint.v4.b32
// CHECK-NOT: .local

// A weight whose rows do not lie together is pulled element by element.
// PULLED-NOT: cache_hint
// PULLED: ret

// The kernels of a chain have one footprint.
// LIST: norm_product 256 0 98304 264

fusion.kernel @norm_product config #fusion.config<"matmul", {rows = array<i64: 1, 1>, programmatic, step_invariant = array<i64: 2, 3>}> sizes 0
    (%a: tensor<1x1x4096xbf16>, %b: tensor<1x1x4096xbf16>, %g: tensor<4096xbf16>, %w: tensor<6144x4096xbf16>) {
  %s = fusion.add %a, %b : (tensor<1x1x4096xbf16>, tensor<1x1x4096xbf16>) -> tensor<1x1x4096xbf16>
  %n = fusion.rms_norm %s, %g {epsilon = 1.0e-5 : f32} : (tensor<1x1x4096xbf16>, tensor<4096xbf16>) -> tensor<1x1x4096xbf16>
  %y = fusion.matmul %n, %w {transpose_rhs} : (tensor<1x1x4096xbf16>, tensor<6144x4096xbf16>) -> tensor<1x1x6144xbf16>
  fusion.yield %s, %y : tensor<1x1x4096xbf16>, tensor<1x1x6144xbf16>
}

fusion.kernel @odd config #fusion.config<"matmul", {rows = array<i64: 1, 1>}> sizes 0
    (%a: tensor<1x1x100xbf16>, %w: tensor<100x33xbf16>) {
  %y = fusion.matmul %a, %w : (tensor<1x1x100xbf16>, tensor<100x33xbf16>) -> tensor<1x1x33xbf16>
  fusion.yield %y : tensor<1x1x33xbf16>
}
