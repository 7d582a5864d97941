//===- CardFamilies.h - The ways to run each family -------------*- C++ -*-===//
//
// One function a family, in a file of its own: it adds the launches that fit
// the kernel, the preferred one first, and none when its templates do not fit.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_KERNELS_CARDFAMILIES_H
#define FUSION_LIB_KERNELS_CARDFAMILIES_H

#include "fusion/Kernels/CardLaunch.h"

namespace fusion::kernels {

void addRowReductions(KernelOp kernel, std::vector<CardLaunch> &launches);
/// Fast templates first, then the general one.
void addMatmuls(KernelOp kernel, std::vector<CardLaunch> &launches);
/// Products of one row.
void addSkinny(KernelOp kernel, std::vector<CardLaunch> &launches);
void addAttentions(KernelOp kernel, std::vector<CardLaunch> &launches);
/// On tensor cores: 16-bit rows of keys and values.
void addFlashAttentions(KernelOp kernel, std::vector<CardLaunch> &launches);
/// Elements pulled one by one: takes every kernel.
void addPulled(KernelOp kernel, std::vector<CardLaunch> &launches);

// What families share.
SymExpr ceilDiv(const SymExpr &a, int64_t b);
/// Bytes of the smallest 16- or 32-bit element among values of that many
/// elements; booleans and others do not narrow the vector.
unsigned smallestElement(KernelOp kernel, const SymExpr &elements);
/// Elements that share a byte.
inline bool isPacked(mlir::Type element) {
  unsigned bits = element.getIntOrFloatBitWidth();
  return bits > 1 && bits < 8;
}
bool hasPackedResult(KernelOp kernel);
/// Ops of a kernel whose tiles of products go through an epilogue of registers.
bool isTileOp(mlir::Operation &op);
/// The products of a kernel whose other ops are of that kind, and whose results
/// lie over them; nullopt, with a reason, where it has others. `before` are
/// left out: ops that make lhs.
std::optional<ProductShape>
getTileProducts(KernelOp kernel, std::string &reason,
                llvm::ArrayRef<mlir::Operation *> before = {});
/// Adds the next function of the kernel.
void addStage(CardLaunch &launch, KernelOp kernel, unsigned threads,
              SymExpr grid);

} // namespace fusion::kernels

#endif // FUSION_LIB_KERNELS_CARDFAMILIES_H
