//===- CardPrediction.h - What a launch on the card should take -*- C++ -*-===//
//
// The template of a kernel, its tiles at given sizes, and the time that the
// template's model gives: what `--explain` says of each kernel, and what the
// benchmark holds against what it measures.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_KERNELS_CARDPREDICTION_H
#define FUSION_KERNELS_CARDPREDICTION_H

#include "fusion/Kernels/CardLaunch.h"
#include "fusion/Target/Device.h"

namespace fusion::kernels {

struct CardPrediction {
  std::string family; ///< the template
  std::string choice; ///< its tiles, and how they share the work
  double seconds = 0;
};

/// Of `launch`, one of getCardLaunches(kernel), with the kernel's symbols d0,
/// d1, ... at the given values.
CardPrediction predictLaunch(KernelOp kernel, const CardLaunch &launch,
                             llvm::ArrayRef<int64_t> sizes,
                             const target::DeviceDescription &device);

/// Why products with quantised weights run in a template that reads them
/// element by element, right but slower; empty where they do not.
std::string whyNotLowBit(KernelOp kernel, const CardLaunch &launch);

} // namespace fusion::kernels

#endif // FUSION_KERNELS_CARDPREDICTION_H
