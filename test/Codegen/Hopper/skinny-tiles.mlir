// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/gate.ptx
// RUN: FileCheck %s --check-prefix=ODD --input-file=%t/odd.ptx
// RUN: FileCheck %s --check-prefix=INPUT --input-file=%t/input.ptx
// RUN: FileCheck %s --check-prefix=BUCKET --input-file=%t/bucket.ptx
// RUN: FileCheck %s --check-prefix=LAUNCH --input-file=%t/launches.txt

// Few rows: weights are the M of wgmma, rows of lhs its N. Two weights of a
// gate share the 64 rows. Weights are fetched before the wait for the previous
// kernel; blocks that share a tile count themselves.

// CHECK: griddepcontrol.launch_dependents
// CHECK-DAG: griddepcontrol.wait
// CHECK-DAG: wgmma.mma_async.sync.aligned.m64n16k16
// CHECK-DAG: atom.acq_rel.gpu.global.add.u32
// A part that the next block has left is loaded beside the products.
// CHECK-DAG: ld.acquire.gpu.global.b32

// Where no kernel writes lhs either, all are multiplied before the wait.
// INPUT-NOT: griddepcontrol.wait
// INPUT: wgmma.mma_async
// INPUT: wgmma.wait_group.sync.aligned 0
// INPUT: griddepcontrol.wait
// INPUT-NOT: griddepcontrol.wait
// INPUT: atom.acq_rel.gpu.global.add.u32

// LAUNCH: stage|gate|160|1|{{[0-9]+}}|132|
// LAUNCH-NEXT: map|0|16|0|128|4096;9|8192|64;9
// With much to stream, 8 rows of two tiles along K are a box of weights.
// LAUNCH-NEXT: map|1|16|0|128|64;14336;64|8192;128|64;8;2
// LAUNCH-NEXT: map|2|16|0|128|64;14336;64|8192;128|64;8;2

// LAUNCH: stage|input|160|1|
// A bucket of rows has boxes of 16, of which only those that hold rows are
// copied.
// LAUNCH: stage|bucket|160|1|{{[0-9]+}}|132|
// LAUNCH-NEXT: map|0|16|0|128|4096;d0|8192|64;16
// LAUNCH-NEXT: map|1|16|0|128|4096;4096|8192|64;64
// Boxes fill the tile also where the most rows are no multiple of 16.
// LAUNCH: stage|odd|160|1|
// LAUNCH-NEXT: map|0|16|0|128|4096;d0|8192|64;16
// ODD-DAG: wgmma.mma_async.sync.aligned.m64n16k16
// ODD-DAG: wgmma.mma_async.sync.aligned.m64n32k16
// ODD-NOT: wgmma.mma_async.sync.aligned.m64n24k16
// Few of them take few columns of the tensor cores.
// BUCKET-DAG: wgmma.mma_async.sync.aligned.m64n16k16
// BUCKET-DAG: wgmma.mma_async.sync.aligned.m64n32k16
// BUCKET-DAG: wgmma.mma_async.sync.aligned.m64n64k16

!x = tensor<9x4096xbf16>
!w = tensor<14336x4096xbf16>
!y = tensor<9x14336xbf16>
fusion.kernel @gate config #fusion.config<"matmul", {programmatic, step_invariant = array<i64: 1, 2>}> sizes 0 (%x: !x, %g: !w, %u: !w) {
  %0 = fusion.matmul %x, %g {transpose_rhs} : (!x, !w) -> !y
  %1 = fusion.matmul %x, %u {transpose_rhs} : (!x, !w) -> !y
  %2 = fusion.sigmoid %0 : (!y) -> !y
  %3 = fusion.mul %0, %2 : (!y, !y) -> !y
  %4 = fusion.mul %3, %1 : (!y, !y) -> !y
  fusion.yield %4 : !y
}
fusion.kernel @input config #fusion.config<"matmul", {programmatic, step_invariant = array<i64: 0, 1>}> sizes 0 (%x: !x, %w: !w) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (!x, !w) -> !y
  fusion.yield %0 : !y
}
fusion.kernel @bucket config #fusion.config<"matmul", {rows = array<i64: 2, 64>}> sizes 1
    (%x: tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, %w: tensor<4096x4096xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, tensor<4096x4096xbf16>) -> tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
  fusion.yield %0 : tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
}
fusion.kernel @odd config #fusion.config<"matmul", {rows = array<i64: 5, 24>}> sizes 1
    (%x: tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, %w: tensor<4096x4096xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, tensor<4096x4096xbf16>) -> tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
  fusion.yield %0 : tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
}
