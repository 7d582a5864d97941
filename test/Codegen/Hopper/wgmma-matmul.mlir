// RUN: fusion-opt %s --fusion-generate-hopper | FileCheck %s
// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --check-prefix=PTX --input-file=%t/linear.ptx
// RUN: FileCheck %s --check-prefix=LAUNCH --input-file=%t/launches.txt

// A weight as torch stores it, [N, K]: one producing thread, two consuming warp
// groups with the accumulator of a 64 x 256 tile each, the bias added to the
// sums. Results leave by TMA: a consumer writes 64 columns into one of two
// buffers and one thread sends them on their way.

// CHECK: llvm.func @linear({{.*}}llvm.byval = !llvm.array<128 x i8>{{.*}}nvvm.grid_constant{{.*}}nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 384, 1, 1>
// CHECK: nvvm.setmaxregister decrease 40
// CHECK-COUNT-2: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK: nvvm.setmaxregister increase 232
// CHECK: wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16

// PTX-NOT: .local
// PTX: .reqntid 384, 1, 1
// PTX: setmaxnreg.inc.sync.aligned.u32 232
// The first product of a tile starts afresh, both operands are K-major.
// PTX: wgmma.fence.sync.aligned
// PTX: wgmma.mma_async{{.*}}, 0, 1, 1, 0, 0;
// PTX-COUNT-3: wgmma.mma_async{{.*}}, 1, 1, 1, 0, 0;
// PTX: wgmma.commit_group
// PTX-COUNT-4: wgmma.mma_async{{.*}}, 1, 1, 1, 0, 0;
// PTX: wgmma.wait_group.sync.aligned 1
// PTX: mbarrier.arrive
// PTX: wgmma.wait_group.sync.aligned 0
// PTX: cp.async.bulk.wait_group.read 0
// PTX: bar{{(rier)?}}{{.*}}sync
// PTX: ld.global.nc.{{b32|v2.b16}}
// PTX: stmatrix.sync.aligned.m8n8.x4.shared.b16
// PTX: fence.proxy.async.shared::cta
// PTX: bar{{(rier)?}}{{.*}}sync
// PTX: cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group
// PTX: cp.async.bulk.commit_group
// PTX: cp.async.bulk.wait_group.read 1
// PTX-NOT: st.global
// PTX: cp.async.bulk.wait_group 0
// PTX-NOT: .local

// LAUNCH: stage|linear|384|1|229632|132|0|0
// LAUNCH-NEXT: map|0|16|0|128|4096;4096|8192|64;128
// LAUNCH-NEXT: map|1|16|0|128|4096;4096|8192|64;256
// LAUNCH-NEXT: map|3|16|0|128|4096;4096|8192|64;64

fusion.kernel @linear config #fusion.config<"matmul", {}> sizes 0
    (%x: tensor<4096x4096xbf16>, %w: tensor<4096x4096xbf16>, %b: tensor<4096xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<4096x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<4096x4096xbf16>
  %1 = fusion.add %0, %b : (tensor<4096x4096xbf16>, tensor<4096xbf16>) -> tensor<4096x4096xbf16>
  fusion.yield %1 : tensor<4096x4096xbf16>
}
