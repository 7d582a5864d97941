// RUN: fusion-opt %S/Inputs/llama-layer.mlir --fusion-fuse | FileCheck %s
// RUN: fusion-opt %S/Inputs/llama-layer.mlir --fusion-fuse=device=h200 | FileCheck %s --check-prefix=CARD
// RUN: fusion-opt %S/Inputs/llama-layer.mlir --fusion-fuse=explain=summary -o /dev/null 2>&1 | FileCheck %s --check-prefix=REPORT

// One layer with its cache: every product, the norms with their additions, the
// gated product over both its matmuls, and attention with rotations and
// appends, in both bucket functions.

// CHECK-LABEL: func.func @decode(%{{.*}}: tensor<1x1xi64>
// CHECK-SAME: fusion.bucket = {fixed = {batch = 1 : i64, seq = 1 : i64}, max = 1 : i64, min = 1 : i64, rows = "batch*seq"}
// CHECK: fusion.group "rope_attention"
// CHECK-SAME: kernel #fusion.config<"attention", {}>
// CHECK: fusion.rope
// CHECK: fusion.rope
// CHECK: fusion.kv_append
// CHECK: fusion.kv_append
// CHECK: fusion.attention
// CHECK: fusion.group "add_rms_norm"
// CHECK-SAME: -> (tensor<1x1x64xf32>, tensor<1x1x64xf32>)
// CHECK: fusion.group "swiglu"
// CHECK: fusion.matmul
// CHECK: fusion.matmul
// CHECK: fusion.silu
// CHECK: fusion.mul
// CHECK: fusion.group "add_rms_norm"

// The views around attention are inside, the border reshapes outside.
// CHECK-LABEL: func.func @prefill(
// CHECK-SAME: min = 2
// CHECK: fusion.reshape %{{.*}} -> tensor<?x?x4x16xf32
// CHECK: fusion.group "rope_attention"
// CHECK: fusion.transpose
// CHECK: fusion.attention
// CHECK: fusion.transpose
// CHECK: fusion.yield
// CHECK: fusion.reshape %{{.*}} -> tensor<?x?x64xf32

// CARD: func.func @decode
// CARD: func.func @small_m{{.*}}max = 64 : i64, min = 2 : i64
// CARD: func.func @prefill{{.*}}min = 65 : i64

// REPORT: add_rms_norm             2   2
// REPORT: swiglu                   1   1
// REPORT: rope_attention           1   1
