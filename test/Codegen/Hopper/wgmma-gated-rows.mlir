// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/front.ptx
// RUN: FileCheck %s --check-prefix=LAUNCH --input-file=%t/launches.txt

// Few rows and weights that are copied 64 columns at a time: a tile holds 64 of
// each weight, however few tiles that makes, and a stage expects the bytes of
// all its boxes: (64 rows + 2 x 64 columns) x 64 x 2.

// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK-NOT: wgmma.mma_async.sync.aligned.m64n64
// CHECK: mov.b32 [[BYTES:%r[0-9]+]], 24576;
// CHECK: mbarrier.arrive.expect_tx.shared.b64 {{.*}}, [[BYTES]];

// LAUNCH: stage|front|
// LAUNCH-NEXT: map|0|{{.*}}|64;64
// LAUNCH-NEXT: map|1|{{.*}}|64;64
// LAUNCH-NEXT: map|2|{{.*}}|64;64

fusion.kernel @front config #fusion.config<"matmul", {rows = array<i64: 2, 64>}> sizes 1
    (%x: tensor<?x128xbf16, #fusion.shape<[d0, 128]>>, %g: tensor<128x192xbf16>, %u: tensor<128x192xbf16>) {
  %0 = fusion.matmul %x, %g : (tensor<?x128xbf16, #fusion.shape<[d0, 128]>>, tensor<128x192xbf16>) -> tensor<?x192xbf16, #fusion.shape<[d0, 192]>>
  %1 = fusion.matmul %x, %u : (tensor<?x128xbf16, #fusion.shape<[d0, 128]>>, tensor<128x192xbf16>) -> tensor<?x192xbf16, #fusion.shape<[d0, 192]>>
  %2 = fusion.silu %0 : (tensor<?x192xbf16, #fusion.shape<[d0, 192]>>) -> tensor<?x192xbf16, #fusion.shape<[d0, 192]>>
  %3 = fusion.mul %2, %1 : (tensor<?x192xbf16, #fusion.shape<[d0, 192]>>, tensor<?x192xbf16, #fusion.shape<[d0, 192]>>) -> tensor<?x192xbf16, #fusion.shape<[d0, 192]>>
  fusion.yield %3 : tensor<?x192xbf16, #fusion.shape<[d0, 192]>>
}
