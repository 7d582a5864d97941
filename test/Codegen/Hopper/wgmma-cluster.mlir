// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/few_rows.ptx
// RUN: FileCheck %s --check-prefix=LAUNCH --input-file=%t/launches.txt

// 128 rows make 32 tiles: four blocks share each, as a cluster, and exchange
// their sums through shared memory. The weight, which no kernel writes, is
// fetched before the wait for the previous kernel.

// CHECK: .reqnctapercluster 4
// CHECK: griddepcontrol.launch_dependents
// CHECK-DAG: barrier.cluster.arrive
// CHECK-DAG: mapa.shared::cluster
// CHECK-DAG: ld.shared::cluster.v4
// CHECK-NOT: atom

// LAUNCH: stage|few_rows|384|4|229632|128|0|0

fusion.kernel @few_rows config #fusion.config<"matmul", {programmatic, step_invariant = array<i64: 1>}> sizes 0
    (%x: tensor<128x4096xbf16>, %w: tensor<4096x4096xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<128x4096xbf16>, tensor<4096x4096xbf16>) -> tensor<128x4096xbf16>
  fusion.yield %0 : tensor<128x4096xbf16>
}
