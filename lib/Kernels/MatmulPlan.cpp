//===- MatmulPlan.cpp - Tiles and splits by a model of waves --------------===//
//
// Measured on an H200 (bursts): a stage (64 deep) of a 128 x 256 tile takes
// 0.63 us, of 128 x 224 0.57 us, of 128 x 128 0.335 us; what a tile costs
// beside its stages is about 2 us. Partial sums through the workspace cost 0.7
// us for each MB of them, through the shared memory of a cluster about 2 us.
// Weights stream at about 4.2 TB/s once enough blocks pull. Pairs always fit:
// larger clusters do not fill the card (32 clusters of 4 took two waves).
//
//===----------------------------------------------------------------------===//

#include "fusion/Kernels/WgmmaMatmul.h"

#include "llvm/Support/MathExtras.h"

using namespace fusion;
using namespace fusion::kernels;

/// Beyond so many row tiles the last wave hardly matters.
static constexpr int64_t kMostRowTiles = 64;
static constexpr unsigned kMostSplits = 16;

static double stageTime(unsigned columns) {
  return columns >= 256   ? 0.63
         : columns >= 224 ? 0.57
         : columns >= 192 ? 0.495
         : columns >= 128 ? 0.335
         : columns >= 96  ? 0.265
         : columns >= 64  ? 0.19
                          : 0.165;
}

static double tileTime(unsigned columns) { return 1.0 + columns / 256.0; }

double kernels::matmulTime(const MatmulProblem &problem, int64_t rowTiles,
                           const MatmulSchedule &schedule) {
  int64_t columnTiles = llvm::divideCeil(problem.n, schedule.columns);
  int64_t depth = llvm::divideCeil(problem.k, int64_t(kTileDepth));
  int64_t items = problem.batch * rowTiles * columnTiles * schedule.splits;
  int64_t waves = llvm::divideCeil(items, int64_t(problem.multiprocessors));
  int64_t stages = llvm::divideCeil(depth, int64_t(schedule.splits));
  double compute = double(waves) * double(stages) * stageTime(schedule.columns);
  double bytes = 2.0 * double(problem.batch) * double(problem.k) *
                 double(problem.n + 128 * rowTiles);
  double pulling = std::min(1.0, double(items) / 120.0);
  double memory = bytes / (4.2e6 * pulling);
  double time =
      std::max(compute, memory) + double(waves) * tileTime(schedule.columns);
  if (schedule.clustered)
    time += 0.5 * schedule.splits + schedule.columns / 128.0;
  else if (schedule.splits > 1)
    time += 0.7e-6 * double(items) * kMatmulTileRows * schedule.columns * 4;
  return time;
}

enum class Splitting { None, Workspace, Cluster };

/// Whether clusters can share tiles of that width: each block gets whole chunks
/// of columns, there is room for the others' sums, and all clusters fit the
/// card at once.
static bool canCluster(const MatmulProblem &problem, unsigned columns,
                       unsigned splits, int64_t tiles) {
  constexpr int64_t kFours = 26;
  return (splits == 2 || (splits == 4 && tiles <= kFours)) && columns <= 192 &&
         columns / problem.products % (16 * splits) == 0;
}

/// The best schedule of one tile width.
static std::pair<MatmulSchedule, double>
bestOfWidth(const MatmulProblem &problem, int64_t rowTiles, unsigned columns,
            Splitting splitting) {
  MatmulSchedule best{columns, 1};
  double bestTime = matmulTime(problem, rowTiles, best);
  int64_t depth = llvm::divideCeil(problem.k, int64_t(kTileDepth));
  int64_t tiles =
      problem.batch * rowTiles * int64_t(llvm::divideCeil(problem.n, columns));
  if (splitting == Splitting::None)
    return {best, bestTime};
  bool clustered = splitting == Splitting::Cluster;
  for (unsigned splits = 2; splits <= kMostSplits; ++splits) {
    // One wave of parts, none of them trifling.
    if (tiles * splits > problem.multiprocessors || depth < 4 * splits)
      break;
    if (clustered && !canCluster(problem, columns, splits, tiles))
      continue;
    MatmulSchedule split{columns, splits, clustered};
    double time = matmulTime(problem, rowTiles, split);
    if (time < bestTime) {
      best = split;
      bestTime = time;
    }
  }
  return {best, bestTime};
}

std::vector<MatmulPlanEntry>
kernels::planMatmul(const MatmulProblem &problem, int64_t minRows,
                    int64_t maxRows, llvm::ArrayRef<unsigned> widths,
                    bool maySplit) {
  auto rowTilesOf = [](int64_t rows) {
    // Written so that the largest integer does not overflow.
    int64_t tiles = std::max<int64_t>(rows, 1) - 1;
    return std::min(tiles / kMatmulTileRows + 1, kMostRowTiles);
  };
  int64_t first = rowTilesOf(minRows), last = rowTilesOf(maxRows);
  Splitting splitting = !maySplit       ? Splitting::None
                        : first == last ? Splitting::Cluster
                                        : Splitting::Workspace;
  bool open = maxRows > kMostRowTiles * int64_t(kMatmulTileRows);
  // The last entry serves what lies beyond, which is never split.
  auto how = [&](int64_t tiles) {
    return open && tiles == kMostRowTiles ? Splitting::None : splitting;
  };
  auto best = [&](int64_t tiles, llvm::ArrayRef<unsigned> among) {
    auto result = bestOfWidth(problem, tiles, among[0], how(tiles));
    for (unsigned columns : among.drop_front()) {
      auto other = bestOfWidth(problem, tiles, columns, how(tiles));
      if (other.second < result.second)
        result = other;
    }
    return result;
  };
  // Each width is code of its own: those that gain less than 1 % go, the
  // narrowest first.
  llvm::SmallVector<unsigned> kept(widths.begin(), widths.end());
  for (unsigned columns : llvm::reverse(widths)) {
    llvm::SmallVector<unsigned> others(kept);
    llvm::erase(others, columns);
    bool needed = others.empty();
    for (int64_t tiles = first; tiles <= last && !needed; ++tiles)
      needed = best(tiles, others).second > 1.01 * best(tiles, kept).second;
    if (!needed)
      kept = others;
  }
  std::vector<MatmulPlanEntry> plan;
  for (int64_t tiles = first; tiles <= last; ++tiles) {
    MatmulSchedule schedule = best(tiles, kept).first;
    if (plan.empty() || !(plan.back().schedule == schedule))
      plan.push_back({plan.empty() ? 1 : tiles, schedule});
  }
  return plan;
}
