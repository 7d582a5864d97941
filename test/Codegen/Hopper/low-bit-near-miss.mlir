// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/launches.txt

// Codes as the file has them, and fp32 activations: general kernels.

// CHECK: stage|row_major|128|
// CHECK: stage|single_precision|128|

fusion.kernel @row_major config #fusion.config<"matmul", {rows = array<i64: 9, 16>}> sizes 1
    (%x: tensor<?x256xbf16, #fusion.shape<[d0, 256]>>, %q: tensor<128x256xi4>, %s: tensor<128x2xbf16>) {
  %w = fusion.dequantize %q, %s {axis = 1 : i64, block_size = 128 : i64} : (tensor<128x256xi4>, tensor<128x2xbf16>) -> tensor<128x256xbf16>
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x256xbf16, #fusion.shape<[d0, 256]>>, tensor<128x256xbf16>) -> tensor<?x128xbf16, #fusion.shape<[d0, 128]>>
  fusion.yield %0 : tensor<?x128xbf16, #fusion.shape<[d0, 128]>>
}
fusion.kernel @single_precision config #fusion.config<"matmul", {rows = array<i64: 9, 16>, fragments = array<i64: 1>, strips = array<i64: 2>}> sizes 1
    (%x: tensor<?x256xf32, #fusion.shape<[d0, 256]>>, %q: tensor<128x256xi4>, %s: tensor<128x2xf32>) {
  %w = fusion.dequantize %q, %s {axis = 1 : i64, block_size = 128 : i64} : (tensor<128x256xi4>, tensor<128x2xf32>) -> tensor<128x256xf32>
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<?x256xf32, #fusion.shape<[d0, 256]>>, tensor<128x256xf32>) -> tensor<?x128xf32, #fusion.shape<[d0, 128]>>
  fusion.yield %0 : tensor<?x128xf32, #fusion.shape<[d0, 128]>>
}
