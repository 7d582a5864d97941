// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --check-prefix=FLAT --input-file=%t/silu_mul.ptx
// RUN: FileCheck %s --check-prefix=GATHER --input-file=%t/embedding.ptx
// RUN: FileCheck %s --check-prefix=LIST --input-file=%t/kernels.txt

// Operands that lie as the result does are read by the flat position: no
// division by the row's length.
// FLAT-NOT: .local
// FLAT-NOT: div.s64
// FLAT-NOT: rem.s64
// FLAT: ld.global.nc.v4.b32
// FLAT: ld.global.nc.v4.b32
// FLAT-NOT: st.global
// FLAT: ex2.approx.f32
// FLAT: st.global.v4.b32

// An embedding lookup reads and writes whole vectors.
// GATHER: ld.global.nc.b64
// GATHER: ld.global.nc.v4.b32
// GATHER: st.global.v4.b32

// LIST: silu_mul 256 0 0 floordiv(1536*d0 + 2047, 2048)

fusion.kernel @silu_mul config #fusion.config<"pointwise", {}> sizes 1
    (%a: tensor<?x1536xbf16, #fusion.shape<[d0, 1536]>>, %b: tensor<?x1536xbf16, #fusion.shape<[d0, 1536]>>) {
  %s = fusion.silu %a : (tensor<?x1536xbf16, #fusion.shape<[d0, 1536]>>) -> tensor<?x1536xbf16, #fusion.shape<[d0, 1536]>>
  %y = fusion.mul %s, %b : (tensor<?x1536xbf16, #fusion.shape<[d0, 1536]>>, tensor<?x1536xbf16, #fusion.shape<[d0, 1536]>>) -> tensor<?x1536xbf16, #fusion.shape<[d0, 1536]>>
  fusion.yield %y : tensor<?x1536xbf16, #fusion.shape<[d0, 1536]>>
}

fusion.kernel @embedding config #fusion.config<"pointwise", {}> sizes 1
    (%t: tensor<49152x576xf32>, %i: tensor<1x?xi64, #fusion.shape<[1, d0]>>) {
  %y = fusion.gather %t, %i axis = 0 : (tensor<49152x576xf32>, tensor<1x?xi64, #fusion.shape<[1, d0]>>) -> tensor<1x?x576xf32, #fusion.shape<[1, d0, 576]>>
  fusion.yield %y : tensor<1x?x576xf32, #fusion.shape<[1, d0, 576]>>
}
