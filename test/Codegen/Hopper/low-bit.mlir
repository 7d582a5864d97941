// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/norm_gate.ptx
// RUN: FileCheck %s --check-prefix=LIST --input-file=%t/kernels.txt

// Packed weights of one row are streamed as they are: codes and scales of two
// steps before the wait for the previous kernel, then tensor cores. Codes are
// masked, not converted; each of the four lanes that hold a row's sums adds the
// zero point to one group's sum and scales it, and their totals meet at the end.

// CHECK: .visible .entry norm_gate(
// CHECK: .minnctapersm 1
// CHECK: griddepcontrol.launch_dependents
// CHECK-COUNT-16: ld.global.L1::no_allocate.L2::cache_hint.L2::256B.v4.b32
// CHECK: griddepcontrol.wait
// CHECK: rsqrt
// CHECK-NOT: cvt.rn.bf16.s
// CHECK: and.b32 {{.*}}, 983055
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: selp.f32
// CHECK: fma.rn.f32
// CHECK: shfl.sync.bfly.b32
// CHECK-NOT: .local
// LIST: norm_gate 512 0 98304 132

!x = tensor<1x4096xbf16>
!q = tensor<14336x4096xui4>
!s = tensor<14336x32xbf16>
!w = tensor<14336x4096xbf16>
!y = tensor<1x14336xbf16>
fusion.kernel @norm_gate config #fusion.config<"matmul", {rows = array<i64: 1, 1>, programmatic, step_invariant = array<i64: 1, 2, 3, 4, 5>, fragments = array<i64: 2, 4>, strips = array<i64: 3, 5>}> sizes 0
    (%x: !x, %g: tensor<4096xbf16>, %q0: !q, %s0: !s, %q1: !q, %s1: !s) {
  %h = fusion.rms_norm %x, %g {epsilon = 1.000000e-05 : f32} : (!x, tensor<4096xbf16>) -> !x
  %w0 = fusion.dequantize %q0, %s0 {axis = 1 : i64, block_size = 128 : i64, implicit_zero_point = 8 : i64} : (!q, !s) -> !w
  %w1 = fusion.dequantize %q1, %s1 {axis = 1 : i64, block_size = 128 : i64, implicit_zero_point = 8 : i64} : (!q, !s) -> !w
  %a = fusion.matmul %h, %w0 {transpose_rhs} : (!x, !w) -> !y
  %b = fusion.matmul %h, %w1 {transpose_rhs} : (!x, !w) -> !y
  %c = fusion.silu %a : (!y) -> !y
  %o = fusion.mul %c, %b : (!y, !y) -> !y
  fusion.yield %o : !y
}
