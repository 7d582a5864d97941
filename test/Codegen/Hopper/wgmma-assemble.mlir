// REQUIRES: ptxas
// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t ptxas=%ptxas" -o /dev/null
// RUN: FileCheck %s --input-file=%t/kernels.txt

// The assembler keeps wgmma asynchronous and spills nothing, whatever follows
// the product: else another way to run the kernel, with fewer threads, would
// have been taken.

// CHECK: epilogue 384 168
// CHECK: odd_columns 384 168
// CHECK: batch 384 168

fusion.kernel @epilogue config #fusion.config<"matmul", {rows = array<i64: 65, 4096>}> sizes 1
    (%x: tensor<?x2048xbf16, #fusion.shape<[d0, 2048]>>, %w: tensor<2048x4096xbf16>, %b: tensor<4096xbf16>, %r: tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>) {
  %0 = fusion.matmul %x, %w : (tensor<?x2048xbf16, #fusion.shape<[d0, 2048]>>, tensor<2048x4096xbf16>) -> tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
  %1 = fusion.add %0, %b : (tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, tensor<4096xbf16>) -> tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
  %2 = fusion.gelu %1 : (tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>) -> tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
  %3 = fusion.add %2, %r : (tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>) -> tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
  fusion.yield %3 : tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
}
fusion.kernel @odd_columns config #fusion.config<"matmul", {}> sizes 1
    (%x: tensor<?x768xf16, #fusion.shape<[d0, 768]>>, %w: tensor<50257x768xf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x768xf16, #fusion.shape<[d0, 768]>>, tensor<50257x768xf16>) -> tensor<?x50257xf16, #fusion.shape<[d0, 50257]>>
  %1 = fusion.cast %0 : (tensor<?x50257xf16, #fusion.shape<[d0, 50257]>>) -> tensor<?x50257xf32, #fusion.shape<[d0, 50257]>>
  fusion.yield %1 : tensor<?x50257xf32, #fusion.shape<[d0, 50257]>>
}
fusion.kernel @batch config #fusion.config<"matmul", {}> sizes 2
    (%x: tensor<?x4x?x136xbf16, #fusion.shape<[d0, 4, d1, 136]>>, %w: tensor<?x4x136x96xbf16, #fusion.shape<[d0, 4, 136, 96]>>) {
  %0 = fusion.matmul %x, %w : (tensor<?x4x?x136xbf16, #fusion.shape<[d0, 4, d1, 136]>>, tensor<?x4x136x96xbf16, #fusion.shape<[d0, 4, 136, 96]>>) -> tensor<?x4x?x96xbf16, #fusion.shape<[d0, 4, d1, 96]>>
  fusion.yield %0 : tensor<?x4x?x96xbf16, #fusion.shape<[d0, 4, d1, 96]>>
}
