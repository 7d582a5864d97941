// RUN: fusion-opt %s --fusion-raise | FileCheck %s

// Nothing of a mask without elements can be seen, and one of too many is not
// even allocated: both stay data.

!q0 = tensor<0x1x2x4xf32>
!k0 = tensor<0x1x3x4xf32>
!p0 = tensor<0x3xi1>
!v0 = tensor<0x1x1x3xi1>
!c = tensor<1x1x2x3xi1>
!m0 = tensor<0x1x2x3xi1>
!q = tensor<1099511627776x1x2x4xf32>
!k = tensor<1099511627776x1x3x4xf32>
!p = tensor<1099511627776x3xi1>
!v = tensor<1099511627776x1x1x3xi1>
!m = tensor<1099511627776x1x2x3xi1>

// CHECK-LABEL: func.func @empty
// CHECK: %[[M:.*]] = fusion.and
// CHECK: fusion.attention %arg0, %arg1, %arg1 bias %[[M]]
func.func @empty(%q: !q0, %k: !k0, %pad: !p0) -> !q0 {
  %c = fusion.constant dense<[[[[true, true, false], [true, true, true]]]]> : !c
  %p = fusion.reshape %pad : (!p0) -> !v0
  %m = fusion.and %c, %p : (!c, !v0) -> !m0
  %r = fusion.attention %q, %k, %k bias %m {scale = 1.0 : f32} : (!q0, !k0, !k0, !m0) -> !q0
  return %r : !q0
}

// CHECK-LABEL: func.func @huge
// CHECK: %[[M:.*]] = fusion.and
// CHECK: fusion.attention %arg0, %arg1, %arg1 bias %[[M]]
func.func @huge(%q: !q, %k: !k, %pad: !p) -> !q {
  %c = fusion.constant dense<[[[[true, true, false], [true, true, true]]]]> : !c
  %p = fusion.reshape %pad : (!p) -> !v
  %m = fusion.and %c, %p : (!c, !v) -> !m
  %r = fusion.attention %q, %k, %k bias %m {scale = 1.0 : f32} : (!q, !k, !k, !m) -> !q
  return %r : !q
}
