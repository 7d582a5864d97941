//===- WarpRing.h - Copies that run ahead of one warp -----------*- C++ -*-===//
//
// A ring of slots in shared memory that one warp fills for itself by bulk
// copies, a barrier a slot. Uses are counted by an i32 that the template
// carries: use n takes slot n mod stages.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_WARPRING_H
#define FUSION_LIB_CODEGEN_HOPPER_WARPRING_H

#include "Pipeline.h"

namespace fusion::hopper {

class WarpRing {
public:
  /// `stages` is a power of two.
  WarpRing(KernelBuilder &k, Val barriers, Val slots, unsigned stages,
           unsigned slotBytes)
      : k(k), barriers(barriers), slots(slots), stages(stages),
        slotBytes(slotBytes) {}

  void initialize(Val lane);
  /// Of the slot of a use; it is filled by one arrival and the copies that it
  /// announces.
  Barrier barrier(Val use);
  Val slot(Val use);
  /// Until the bytes of a use are there.
  void wait(Val use);

private:
  Val stage(Val use);

  KernelBuilder &k;
  Val barriers, slots;
  unsigned stages, slotBytes;
};

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_WARPRING_H
