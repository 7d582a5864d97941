// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/gate.ptx
// RUN: FileCheck %s --check-prefix=INPUT --input-file=%t/input.ptx
// RUN: FileCheck %s --check-prefix=LIST --input-file=%t/kernels.txt

// Large weights and few rows: two slots of each warp's ring are on their way
// before the wait for the previous kernel; lhs comes after it, into registers.
// A piece takes four steps of two products for each 8 rows of lhs.

// CHECK: griddepcontrol.launch_dependents
// CHECK-COUNT-16: cp.async.cg.shared.global
// CHECK: griddepcontrol.wait
// CHECK-COUNT-8: ld.global.v4
// CHECK: cp.async.wait_group 1
// CHECK-COUNT-16: mma.sync.aligned.m16n8k16
// CHECK-NOT: atom.

// Where no kernel writes lhs, only results wait.
// INPUT: ld.global.v4
// INPUT: mma.sync.aligned.m16n8k16
// INPUT: griddepcontrol.wait
// INPUT: st.global

// LIST: gate 512 0 212992 132

// Others stay with tiles of wgmma: more rows than registers hold, columns that
// are no whole pieces of all warps, small weights, operands of the epilogue.
// LIST-NEXT: rows 160
// LIST-NEXT: depth 160
// LIST-NEXT: small 160
// LIST-NEXT: residual 160
// LIST-NEXT: input 512

!x = tensor<7x4096xbf16>
!w = tensor<14336x4096xbf16>
!y = tensor<7x14336xbf16>
fusion.kernel @gate config #fusion.config<"matmul", {programmatic, step_invariant = array<i64: 1, 2>}> sizes 0 (%x: !x, %g: !w, %u: !w) {
  %0 = fusion.matmul %x, %g {transpose_rhs} : (!x, !w) -> !y
  %1 = fusion.matmul %x, %u {transpose_rhs} : (!x, !w) -> !y
  %2 = fusion.sigmoid %0 : (!y) -> !y
  %3 = fusion.mul %0, %2 : (!y, !y) -> !y
  %4 = fusion.mul %3, %1 : (!y, !y) -> !y
  fusion.yield %4 : !y
}
fusion.kernel @rows config #fusion.config<"matmul", {}> sizes 0 (%x: tensor<9x4096xbf16>, %w: tensor<28672x4096xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<9x4096xbf16>, tensor<28672x4096xbf16>) -> tensor<9x28672xbf16>
  fusion.yield %0 : tensor<9x28672xbf16>
}
fusion.kernel @depth config #fusion.config<"matmul", {}> sizes 0 (%x: tensor<8x3072xbf16>, %w: tensor<28672x3072xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<8x3072xbf16>, tensor<28672x3072xbf16>) -> tensor<8x28672xbf16>
  fusion.yield %0 : tensor<8x28672xbf16>
}
fusion.kernel @small config #fusion.config<"matmul", {}> sizes 0 (%x: !x, %w: tensor<4096x4096xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (!x, tensor<4096x4096xbf16>) -> tensor<7x4096xbf16>
  fusion.yield %0 : tensor<7x4096xbf16>
}
fusion.kernel @residual config #fusion.config<"matmul", {}> sizes 0 (%x: !x, %w: tensor<28672x4096xbf16>, %r: tensor<7x28672xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (!x, tensor<28672x4096xbf16>) -> tensor<7x28672xbf16>
  %1 = fusion.add %0, %r : (tensor<7x28672xbf16>, tensor<7x28672xbf16>) -> tensor<7x28672xbf16>
  fusion.yield %1 : tensor<7x28672xbf16>
}
fusion.kernel @input config #fusion.config<"matmul", {programmatic, step_invariant = array<i64: 0, 1>}> sizes 0 (%x: !x, %w: tensor<28672x4096xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (!x, tensor<28672x4096xbf16>) -> tensor<7x28672xbf16>
  fusion.yield %0 : tensor<7x28672xbf16>
}
