// RUN: %python -c "import sys; b = bytearray(4096); b[4095] = 0xff; open(sys.argv[1], 'wb').write(b)" %t.data
// RUN: sed 's#DATA#%t.data#' %s | fusion-opt --fusion-plan-pipeline | FileCheck %s

// The packed decode knows no NaN: of two weights of FP8, the one with a NaN in
// its last code stays as it is.

!x = tensor<1x64xbf16>
!q = tensor<32x64xf8E4M3FN>
!s = tensor<32xbf16>
!w = tensor<32x64xbf16>
!y = tensor<1x32xbf16>

// CHECK-DAG: plan.constant @finite "finite" : {{.*}} layout "fragments"
// CHECK-DAG: plan.constant @special "special" : tensor<32x64xf8E4M3FN> = #
func.func @one(%x: !x) -> (!y, !y) attributes {fusion.device = "card"} {
  %q = fusion.weight "finite" at <"DATA", 0, 2048> : !q
  %p = fusion.weight "special" at <"DATA", 2048, 2048> : !q
  %s = fusion.weight "s" at <"DATA", 0, 64> : !s
  %t = fusion.weight "t" at <"DATA", 64, 64> : !s
  %a = fusion.group "product" (%0 = %x, %1 = %q, %2 = %s) : (!x, !q, !s) -> !y kernel #fusion.config<"matmul", {}> {
    %3 = fusion.dequantize %1, %2 {axis = 0 : i64} : (!q, !s) -> !w
    %4 = fusion.matmul %0, %3 {transpose_rhs} : (!x, !w) -> !y
    fusion.yield %4 : !y
  }
  %b = fusion.group "product" (%0 = %x, %1 = %p, %2 = %t) : (!x, !q, !s) -> !y kernel #fusion.config<"matmul", {}> {
    %3 = fusion.dequantize %1, %2 {axis = 0 : i64} : (!q, !s) -> !w
    %4 = fusion.matmul %0, %3 {transpose_rhs} : (!x, !w) -> !y
    fusion.yield %4 : !y
  }
  return %a, %b : !y, !y
}
