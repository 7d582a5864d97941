// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/few_rows.ptx
// RUN: FileCheck %s --check-prefix=LAUNCH --input-file=%t/launches.txt

// 256 rows make 64 tiles: two blocks share each, as a cluster, and exchange
// sums through shared memory. The weight, which no kernel writes,
// is fetched before the wait for the previous kernel.

// CHECK: .reqnctapercluster 2
// CHECK: barrier.cluster.arrive
// CHECK-DAG: griddepcontrol.launch_dependents
// CHECK-DAG: mapa.shared::cluster
// CHECK-DAG: st.shared::cluster.v4
// CHECK-DAG: griddepcontrol.wait
// CHECK-NOT: atom

// LAUNCH: stage|few_rows|384|2|229632|128|0|0

fusion.kernel @few_rows config #fusion.config<"matmul", {programmatic, step_invariant = array<i64: 1>}> sizes 0
    (%x: tensor<256x14336xbf16>, %w: tensor<4096x14336xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<256x14336xbf16>, tensor<4096x14336xbf16>) -> tensor<256x4096xbf16>
  fusion.yield %0 : tensor<256x4096xbf16>
}
