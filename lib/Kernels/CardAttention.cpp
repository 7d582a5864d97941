//===- CardAttention.cpp - Attention on the card --------------------------===//

#include "CardFamilies.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

/// fp32 scores and sums through shared memory: any head sizes that fit there,
/// any masks, prologues and epilogues.
static std::optional<CardLaunch> simt(KernelOp kernel) {
  auto shape = getAttentionShape(kernel);
  if (!shape || hasPackedResult(kernel))
    return std::nullopt;
  CardLaunch launch;
  launch.family = CardLaunch::Family::SimtAttention;
  auto s = shape->s.asConstant(), heads = shape->heads.asConstant(),
       kvHeads = shape->kvHeads.asConstant(), batch = shape->batch.asConstant();
  if (!heads || !kvHeads || *kvHeads <= 0)
    return std::nullopt;
  int64_t group = *heads / *kvHeads;
  bool few = s && *s * group <= 16;
  constexpr int64_t kShared = 227 * 1024;
  SimtAttentionTile &tile = launch.attention;
  using Sides = std::pair<unsigned, unsigned>;
  bool found = false;
  for (auto [rows, keys] :
       {Sides{16, 64}, Sides{64, 64}, Sides{64, 32}, Sides{32, 32}}) {
    if ((rows == 16) != few && rows != 32)
      continue;
    tile.rows = rows;
    tile.keys = keys;
    found = tile.sharedBytes(shape->d, shape->dv, 32) <= kShared &&
            tile.paddedValue(shape->dv) <= (int64_t(8) * keys);
    if (found)
      break;
  }
  if (!found)
    return std::nullopt;
  // Few blocks: the keys are shared out.
  if (few && batch && *batch > 0 && *s * group <= tile.rows &&
      *batch * *kvHeads < 132) {
    int64_t tiles = *batch * *kvHeads;
    launch.splits = unsigned(std::clamp<int64_t>(264 / tiles, 1, 32));
    if (auto t = shape->t.asConstant())
      launch.splits = unsigned(
          std::clamp<int64_t>(*t / int64_t(tile.keys), 1, launch.splits));
    if (launch.splits > 1) {
      launch.counterBytes = unsigned(4 * tiles);
      launch.workspaceBytes =
          SymExpr(4 * tiles * launch.splits * tile.partialSize(shape->dv));
    }
  }
  SymExpr rowTiles = ceilDiv(shape->s * SymExpr(group), tile.rows);
  addStage(launch, kernel, tile.threads(),
           shape->batch * shape->kvHeads * rowTiles *
               SymExpr(int64_t(launch.splits)));
  launch.stages.back().sharedBytes =
      unsigned(tile.sharedBytes(shape->d, shape->dv, launch.splits));
  return launch;
}

void kernels::addAttentions(KernelOp kernel,
                            std::vector<CardLaunch> &launches) {
  addFlashAttentions(kernel, launches);
  if (auto launch = simt(kernel))
    launches.push_back(std::move(*launch));
}
