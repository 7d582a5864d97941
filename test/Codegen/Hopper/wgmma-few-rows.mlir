// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/launches.txt

// Boxes of the lhs are no higher than the bucket's rows.

// CHECK: stage|rows_33_to_40|384|
// CHECK-NEXT: map|0|16|0|128|4096;d0|8192|64;40

fusion.kernel @rows_33_to_40 config #fusion.config<"matmul", {rows = array<i64: 33, 40>}> sizes 1
    (%x: tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, %w: tensor<4096x4096xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, tensor<4096x4096xbf16>) -> tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
  fusion.yield %0 : tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
}
