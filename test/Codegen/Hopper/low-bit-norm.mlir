// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/front.ptx
// RUN: FileCheck %s --check-prefix=PRODUCER --input-file=%t/front.ptx
// RUN: FileCheck %s --check-prefix=LAUNCH --input-file=%t/launches.txt

// Few rows: the norm of a sum is made in the product's launch. Consumers of the
// first blocks normalise a row each, store the sum, and count the row; lhs then
// comes by plain bulk copies, once the counter of the run has all rows.

// CHECK: griddepcontrol.launch_dependents
// CHECK: griddepcontrol.wait
// CHECK: st.global.v4
// CHECK: bar{{.*}}sync {{.*}}4, 256
// CHECK: rsqrt.approx.f32
// CHECK: fence.proxy.async
// CHECK: fence.acq_rel.gpu
// CHECK: red.relaxed.gpu.global.max.u64
// CHECK-SAME: red.release.gpu.global.add.u64
// CHECK: wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16
// PRODUCER: ld.acquire.gpu.global.u64
// PRODUCER: fence.proxy.async
// PRODUCER: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes

// No tensor map of lhs; 128 bytes of counters and 16 rows of the launch's own.
// LAUNCH: stage|front|384|1|{{[0-9]+}}|224|0|131200
// LAUNCH-NEXT: map|1|

!x = tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
!q = tensor<14336x4096xi4>
!s = tensor<14336x32xbf16>
!w = tensor<14336x4096xbf16>
!y = tensor<?x14336xbf16, #fusion.shape<[d0, 14336]>>

fusion.kernel @front config #fusion.config<"matmul", {programmatic, step_invariant = array<i64: 1, 2, 3, 4, 6>, rows = array<i64: 9, 16>, fragments = array<i64: 1, 3>, strips = array<i64: 2, 4>}> sizes 1
    (%x: !x, %q0: !q, %s0: !s, %q1: !q, %s1: !s, %r: !x, %g: tensor<4096xbf16>) {
  %h = fusion.add %x, %r : (!x, !x) -> !x
  %n = fusion.rms_norm %h, %g {epsilon = 1.0e-5 : f32} : (!x, tensor<4096xbf16>) -> !x
  %w0 = fusion.dequantize %q0, %s0 {axis = 1 : i64, block_size = 128 : i64} : (!q, !s) -> !w
  %w1 = fusion.dequantize %q1, %s1 {axis = 1 : i64, block_size = 128 : i64} : (!q, !s) -> !w
  %0 = fusion.matmul %n, %w0 {transpose_rhs} : (!x, !w) -> !y
  %1 = fusion.matmul %n, %w1 {transpose_rhs} : (!x, !w) -> !y
  %2 = fusion.silu %0 : (!y) -> !y
  %3 = fusion.mul %2, %1 : (!y, !y) -> !y
  fusion.yield %3, %h : !y, !x
}
