// RUN: fusion-opt %S/Inputs/llama-layer.mlir --fusion-fuse=device=h200 | FileCheck %s
// RUN: fusion-opt %S/Inputs/llama-layer.mlir "--fusion-fuse=device=h200 disable=fold" | FileCheck %s --check-prefix=OFF
// RUN: fusion-opt %S/Inputs/llama-layer.mlir "--fusion-fuse=device=h200 explain=summary" -o /dev/null 2>&1 | FileCheck %s --check-prefix=REPORT

// At decode on a card the products of one normalised row are one kernel, which
// adds and normalises the row itself: five kernels a layer, one for the head.
// The sum is a result of its own.

// CHECK-LABEL: func.func @decode
// CHECK: fusion.group "matmul"
// CHECK: fusion.rms_norm
// CHECK-COUNT-3: fusion.matmul
// CHECK: fusion.group "rope_attention"
// CHECK: fusion.group "matmul"
// CHECK: fusion.matmul
// CHECK-NEXT: fusion.yield
// CHECK: fusion.group "swiglu"
// CHECK-SAME: rows = array<i64: 1, 1>
// CHECK: fusion.add
// CHECK: fusion.rms_norm
// CHECK: fusion.matmul
// CHECK: fusion.matmul
// CHECK: fusion.silu
// CHECK: fusion.mul
// CHECK: fusion.yield %{{.*}}, %{{.*}} : tensor<1x1x64xf32>, tensor<1x1x128xf32>
// CHECK: fusion.group "matmul"
// CHECK: fusion.matmul
// CHECK-NEXT: fusion.yield
// CHECK: fusion.group "add_rms_norm"
// CHECK: fusion.add
// CHECK: fusion.rms_norm
// CHECK: fusion.matmul
// CHECK-NOT: fusion.group

// With more rows the norm is a kernel of its own.
// CHECK-LABEL: func.func @small_m
// CHECK: fusion.group "add_rms_norm"
// CHECK-SAME: kernel #fusion.config<"row_reduction"

// OFF-LABEL: func.func @decode
// OFF: fusion.group "add_rms_norm"
// OFF-SAME: kernel #fusion.config<"row_reduction"

// REPORT: add_rms_norm             2   2
// REPORT: swiglu                   1   1
// REPORT: rope_attention           1   1
