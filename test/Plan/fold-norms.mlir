// RUN: fusion-opt %s --fusion-outline-kernels | FileCheck %s
// RUN: fusion-opt %s --fusion-outline-kernels=fold-norms=false | FileCheck %s --check-prefix=OFF

// The card's products of few rows and packed weights take the norm before them,
// of a sum that others read too.

!x = tensor<16x256xbf16>
!g = tensor<256xbf16>
!q = tensor<64x256xi4>
!s = tensor<64x2xbf16>
!w = tensor<64x256xbf16>
!y = tensor<16x64xbf16>

// OFF-LABEL: func.func @few
// OFF: fusion.group "norm"
// OFF: fusion.group "product"

// CHECK-LABEL: func.func @few
// CHECK-NOT: "norm"
// CHECK: %[[R:.*]]:2 = fusion.group "product" (%[[A:.*]] = %arg0, %[[Q:.*]] = {{.*}}, %{{.*}} = {{.*}}, %[[B:.*]] = %arg1, %[[G:.*]] = %arg2)
// CHECK-SAME: fragments = array<i64: 1>
// CHECK: %[[SUM:.*]] = fusion.add %[[A]], %[[B]]
// CHECK: %[[N:.*]] = fusion.rms_norm %[[SUM]], %[[G]]
// CHECK: fusion.matmul %[[N]]
// CHECK: fusion.yield %{{.*}}, %[[SUM]]
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @few(%x: !x, %r: !x, %g: !g) -> (!y, !x) attributes {fusion.device = "card"} {
  %q = fusion.weight "q" at <"m.data", 0, 8192> : !q
  %s = fusion.weight "s" at <"m.data", 8192, 256> : !s
  %n:2 = fusion.group "norm" (%0 = %x, %1 = %r, %2 = %g) : (!x, !x, !g) -> (!x, !x) kernel #fusion.config<"row_reduction", {}> {
    %3 = fusion.add %0, %1 : (!x, !x) -> !x
    %4 = fusion.rms_norm %3, %2 {epsilon = 1.0e-5 : f32} : (!x, !g) -> !x
    fusion.yield %3, %4 : !x, !x
  }
  %a = fusion.group "product" (%0 = %n#1, %1 = %q, %2 = %s) : (!x, !q, !s) -> !y kernel #fusion.config<"matmul", {}> {
    %3 = fusion.dequantize %1, %2 {axis = 1 : i64, block_size = 128 : i64} : (!q, !s) -> !w
    %4 = fusion.matmul %0, %3 {transpose_rhs} : (!x, !w) -> !y
    fusion.yield %4 : !y
  }
  return %a, %n#0 : !y, !x
}

// Others read the norm.

// CHECK-LABEL: func.func @shared
// CHECK: fusion.group "norm"
// CHECK: fusion.group "product"
func.func @shared(%x: !x, %g: !g) -> (!y, !x) attributes {fusion.device = "card"} {
  %q = fusion.weight "q" at <"m.data", 0, 8192> : !q
  %s = fusion.weight "s" at <"m.data", 8192, 256> : !s
  %n = fusion.group "norm" (%0 = %x, %1 = %g) : (!x, !g) -> !x kernel #fusion.config<"row_reduction", {}> {
    %2 = fusion.rms_norm %0, %1 {epsilon = 1.0e-5 : f32} : (!x, !g) -> !x
    fusion.yield %2 : !x
  }
  %a = fusion.group "product" (%0 = %n, %1 = %q, %2 = %s) : (!x, !q, !s) -> !y kernel #fusion.config<"matmul", {}> {
    %3 = fusion.dequantize %1, %2 {axis = 1 : i64, block_size = 128 : i64} : (!q, !s) -> !w
    %4 = fusion.matmul %0, %3 {transpose_rhs} : (!x, !w) -> !y
    fusion.yield %4 : !y
  }
  return %a, %n : !y, !x
}

// Of many rows it is computed once, before.

// CHECK-LABEL: func.func @many
// CHECK: fusion.group "norm"
// CHECK: fusion.group "product"
func.func @many(%x: tensor<100x256xbf16>, %g: !g) -> tensor<100x64xbf16> attributes {fusion.device = "card"} {
  %q = fusion.weight "q" at <"m.data", 0, 8192> : !q
  %s = fusion.weight "s" at <"m.data", 8192, 256> : !s
  %n = fusion.group "norm" (%0 = %x, %1 = %g) : (tensor<100x256xbf16>, !g) -> tensor<100x256xbf16> kernel #fusion.config<"row_reduction", {}> {
    %2 = fusion.rms_norm %0, %1 {epsilon = 1.0e-5 : f32} : (tensor<100x256xbf16>, !g) -> tensor<100x256xbf16>
    fusion.yield %2 : tensor<100x256xbf16>
  }
  %a = fusion.group "product" (%0 = %n, %1 = %q, %2 = %s) : (tensor<100x256xbf16>, !q, !s) -> tensor<100x64xbf16> kernel #fusion.config<"matmul", {}> {
    %3 = fusion.dequantize %1, %2 {axis = 1 : i64, block_size = 128 : i64} : (!q, !s) -> !w
    %4 = fusion.matmul %0, %3 {transpose_rhs} : (tensor<100x256xbf16>, !w) -> tensor<100x64xbf16>
    fusion.yield %4 : tensor<100x64xbf16>
  }
  return %a : tensor<100x64xbf16>
}
