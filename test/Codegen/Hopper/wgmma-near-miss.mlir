// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: cat %t/fp32.ptx %t/rows.ptx %t/depth.ptx | FileCheck %s --implicit-check-not=wgmma

// fp32 stays fp32; rows that are not 16 bytes apart, and a contracted axis of
// unknown size, are not for tensor maps. All of them run on the general way.

// CHECK: .entry fp32
// CHECK: .entry rows
// CHECK: .entry depth

fusion.kernel @fp32 config #fusion.config<"matmul", {}> sizes 0
    (%x: tensor<256x512xf32>, %w: tensor<512x256xf32>) {
  %0 = fusion.matmul %x, %w : (tensor<256x512xf32>, tensor<512x256xf32>) -> tensor<256x256xf32>
  fusion.yield %0 : tensor<256x256xf32>
}
fusion.kernel @rows config #fusion.config<"matmul", {}> sizes 0
    (%x: tensor<256x508xbf16>, %w: tensor<256x508xbf16>) {
  %0 = fusion.matmul %x, %w {transpose_rhs} : (tensor<256x508xbf16>, tensor<256x508xbf16>) -> tensor<256x256xbf16>
  fusion.yield %0 : tensor<256x256xbf16>
}
fusion.kernel @depth config #fusion.config<"matmul", {}> sizes 1
    (%x: tensor<256x?xbf16, #fusion.shape<[256, d0]>>, %w: tensor<?x256xbf16, #fusion.shape<[d0, 256]>>) {
  %0 = fusion.matmul %x, %w : (tensor<256x?xbf16, #fusion.shape<[256, d0]>>, tensor<?x256xbf16, #fusion.shape<[d0, 256]>>) -> tensor<256x256xbf16>
  fusion.yield %0 : tensor<256x256xbf16>
}
