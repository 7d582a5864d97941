// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --check-prefix=NARROW --input-file=%t/narrow.ptx
// RUN: FileCheck %s --check-prefix=SHORT --input-file=%t/short.ptx
// RUN: FileCheck %s --check-prefix=ODD --input-file=%t/odd.ptx
// RUN: FileCheck %s --check-prefix=DOUBLE --input-file=%t/double.ptx
// RUN: FileCheck %s --check-prefix=LIST --input-file=%t/kernels.txt

// Rows of 576 elements: a warp each, no shared memory, no barrier.
// NARROW: .reqntid 128, 1, 1
// NARROW-NOT: .shared
// NARROW: ld.global.nc.v4.b32
// NARROW-NOT: bar.sync

// Rows of 8 fp32 elements: two lanes each, one shuffle for each reduction.
// SHORT: ld.global.nc.v4.b32
// SHORT: shfl.sync.bfly.b32 {{.*}}, 1, 31, -1
// SHORT-NOT: shfl.sync.bfly.b32 {{.*}}, 2, 31, -1
// SHORT: ret

// 33 elements are no whole vector: scalar loads.
// ODD-NOT: ld.global.nc.v
// ODD: ld.global.nc.b16
// ODD-NOT: ld.global.nc.v

// An fp64 value goes to its neighbour in two halves.
// DOUBLE-COUNT-2: shfl.sync.bfly.b32
// DOUBLE: max.f64

// LIST: narrow 128 0 0 floordiv(d0 + 3, 4)
// LIST: short 128 0 0 floordiv(d0 + 63, 64)
// LIST: odd 128

fusion.kernel @narrow config #fusion.config<"row_reduction", {}> sizes 1
    (%x: tensor<?x576xbf16, #fusion.shape<[d0, 576]>>, %g: tensor<576xbf16>) {
  %n = fusion.rms_norm %x, %g {epsilon = 1.0e-5 : f32} : (tensor<?x576xbf16, #fusion.shape<[d0, 576]>>, tensor<576xbf16>) -> tensor<?x576xbf16, #fusion.shape<[d0, 576]>>
  fusion.yield %n : tensor<?x576xbf16, #fusion.shape<[d0, 576]>>
}

fusion.kernel @short config #fusion.config<"row_reduction", {}> sizes 1
    (%x: tensor<?x8xf32, #fusion.shape<[d0, 8]>>) {
  %y = fusion.softmax %x axis = 1 : (tensor<?x8xf32, #fusion.shape<[d0, 8]>>) -> tensor<?x8xf32, #fusion.shape<[d0, 8]>>
  fusion.yield %y : tensor<?x8xf32, #fusion.shape<[d0, 8]>>
}

fusion.kernel @odd config #fusion.config<"row_reduction", {}> sizes 1
    (%x: tensor<?x33xbf16, #fusion.shape<[d0, 33]>>) {
  %y = fusion.softmax %x axis = 1 : (tensor<?x33xbf16, #fusion.shape<[d0, 33]>>) -> tensor<?x33xbf16, #fusion.shape<[d0, 33]>>
  fusion.yield %y : tensor<?x33xbf16, #fusion.shape<[d0, 33]>>
}

fusion.kernel @double config #fusion.config<"row_reduction", {}> sizes 1
    (%x: tensor<?x33xf64, #fusion.shape<[d0, 33]>>) {
  %y = fusion.softmax %x axis = 1 : (tensor<?x33xf64, #fusion.shape<[d0, 33]>>) -> tensor<?x33xf64, #fusion.shape<[d0, 33]>>
  fusion.yield %y : tensor<?x33xf64, #fusion.shape<[d0, 33]>>
}
