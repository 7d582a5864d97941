// RUN: fusion-opt %s --fusion-assemble-hopper="directory=%t assemble=false" -o /dev/null
// RUN: FileCheck %s --input-file=%t/norm.ptx

// A programmatic launch: the next kernel may start, the weight (which no
// kernel writes) is loaded, then the kernel waits for its predecessor. Rows
// that the predecessor may still be writing are not read through the
// non-coherent path.

// CHECK: griddepcontrol.launch_dependents
// CHECK: ld.global{{(.nc)?}}.v4.b32
// CHECK: griddepcontrol.wait
// CHECK: ld.global.v4.b32
// CHECK-NOT: ld.global.nc.v4
// CHECK: ret

fusion.kernel @norm config #fusion.config<"row_reduction", {programmatic, step_invariant = array<i64: 1>}> sizes 1
    (%x: tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, %g: tensor<4096xbf16>) {
  %n = fusion.rms_norm %x, %g {epsilon = 1.0e-5 : f32} : (tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>, tensor<4096xbf16>) -> tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
  fusion.yield %n : tensor<?x4096xbf16, #fusion.shape<[d0, 4096]>>
}
