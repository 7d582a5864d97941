//===- WarpRing.cpp - Copies that run ahead of one warp -------------------===//

#include "WarpRing.h"

#include "WarpMma.h"

#include "llvm/Support/MathExtras.h"

using namespace fusion;
using namespace fusion::hopper;

void WarpRing::initialize(Val lane) {
  k.when(lane == 0, [&] {
    for (unsigned i = 0; i < stages; ++i)
      Barriers{barriers}.at(k, i).init(1);
    fenceBarrierInit(k);
  });
  syncWarp(k);
}

Val WarpRing::stage(Val use) { return use & int64_t(stages - 1); }

Barrier WarpRing::barrier(Val use) {
  return Barriers{barriers}.at(k, stage(use));
}

Val WarpRing::slot(Val use) {
  return k.at(slots, stage(use) * int64_t(slotBytes));
}

void WarpRing::wait(Val use) {
  barrier(use).wait((use >> int64_t(llvm::Log2_32(stages))) & 1);
}
