// RUN: fusion-opt %s --fusion-generate-hopper | FileCheck %s
// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --check-prefix=PTX --input-file=%t/add_rms_norm.ptx
// RUN: FileCheck %s --check-prefix=LIST --input-file=%t/kernels.txt

// A block a row: both operands and the weight are loaded 16 bytes at a time,
// the sum leaves before the threads meet, the norm after it.

// CHECK: gpu.module @add_rms_norm_sm_90a [#nvvm.target<O = 3, chip = "sm_90a"
// CHECK: llvm.func @add_rms_norm({{.*}}) attributes {nvvm.kernel, nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 512, 1, 1>}
// CHECK: llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>
// CHECK-COUNT-5: nvvm.shfl.sync  bfly
// CHECK: nvvm.barrier0
// CHECK: math.rsqrt
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<1>

// PTX: .target sm_90a
// PTX-NOT: .local
// PTX-NOT: call
// PTX: .visible .entry add_rms_norm(
// PTX: .reqntid 512, 1, 1
// PTX-COUNT-3: ld.global.nc.v4.b32
// PTX: st.global.v4.b32
// PTX: shfl.sync.bfly.b32
// PTX: bar.sync 0
// PTX: rsqrt.approx.f32
// PTX: st.global.v4.b32
// PTX-NOT: .local
// PTX-NOT: call

// LIST: add_rms_norm 512 0 0 d0

fusion.kernel @add_rms_norm config #fusion.config<"row_reduction", {}> sizes 1
    (%a: tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, %b: tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, %g: tensor<4096xbf16>) {
  %s = fusion.add %a, %b : (tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>) -> tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
  %n = fusion.rms_norm %s, %g {epsilon = 1.0e-5 : f32} : (tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, tensor<4096xbf16>) -> tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
  fusion.yield %s, %n : tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
}
