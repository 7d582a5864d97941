// RUN: fusion-opt %S/Inputs/llama-layer.mlir --fusion-fuse="disable=rope_attention,add_rms_norm@/norm explain=summary" -o /dev/null 2>&1 | FileCheck %s
// RUN: fusion-opt %S/Inputs/llama-layer.mlir --fusion-fuse="fuel=0 explain=summary" -o /dev/null 2>&1 | FileCheck %s --check-prefix=FUEL

// CHECK: add_rms_norm             1   2
// CHECK: swiglu                   1   1
// CHECK: rope_attention           0   1
// CHECK: rope_attention at '/layers.0/attention': switched off, DISABLED_BY_FLAG
// CHECK: add_rms_norm at '/norm': switched off, DISABLED_BY_FLAG

// FUEL: add_rms_norm             0   2
// FUEL: swiglu at '/layers.0/gated': switched off, FUEL
// FUEL: decode {{.*}}26 -> 26
