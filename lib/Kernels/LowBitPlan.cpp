//===- LowBitPlan.cpp - Tiles of products with packed weights by a model --===//
//
// Measured on an H200 (bursts), clocks of a multiprocessor at 1.755 GHz: a
// product of 64 rows, 16 k and up to 256 columns with A in registers takes
// 13 (8 and 16 columns), 16 (32), then half its columns; the decode of 256 rows
// by 128 columns of symmetric int4 takes 850. Of the lesser of both, about a
// third is not hidden. What a launch costs beside its turns is 3 us, a
// cluster's sums about 2 us.
//
//===----------------------------------------------------------------------===//

#include "fusion/Kernels/LowBitMatmul.h"

#include "llvm/Support/MathExtras.h"

using namespace fusion;
using namespace fusion::kernels;

static double productClocks(unsigned columns) {
  return columns <= 16 ? 13 : columns <= 32 ? 16 : 0.506 * columns;
}

double kernels::lowBitTime(const LowBitProblem &problem, int64_t rows,
                           const LowBitTile &t) {
  constexpr double kClocks = 1755, kBytes = 4.3e6; // a microsecond
  int64_t rowTiles = llvm::divideCeil(problem.n, int64_t(t.rows()));
  int64_t columnTiles = llvm::divideCeil(rows, int64_t(t.columns));
  int64_t turns = llvm::divideCeil(problem.k, int64_t(kLowBitTurn));
  int64_t blocks = rowTiles * columnTiles * t.cluster;
  int64_t waves = llvm::divideCeil(blocks, int64_t(kCardMultiprocessors));
  int64_t own = llvm::divideCeil(turns, int64_t(t.cluster));
  double products = productClocks(t.columns) * 8 * (t.rows() / 64);
  double decode = 850 * problem.decode * t.rows() / 256;
  // Few rows of the weight: the latency of a turn shows.
  double turn = std::max(products, decode) + 0.35 * std::min(products, decode);
  turn = std::max(turn, t.sharers > 1 ? 300.0 : 450.0);
  double compute = double(waves * own) * turn / kClocks;
  double weights = double(problem.n) * double(problem.k) * problem.bits / 8;
  double others = 2.0 * double(rows) * double(problem.k + problem.n);
  double pulling = std::min(1.0, double(blocks) / 110);
  double memory = (weights + others) / (kBytes * pulling);
  // Every row tile reads lhs, from the L2 cache.
  double cached =
      2.0 * double(rowTiles) * double(rows) * double(problem.k) / 5.5e6;
  double time = std::max({compute, memory, cached}) + 3;
  time += double(waves) * (0.3 + double(t.columns) * t.rows() / 32768);
  if (t.cluster > 1)
    time += 1 + 0.25 * t.cluster;
  else if (t.sharers > 1)
    time += 0.3;
  return time;
}

/// The ways to cut a width, for launches of up to `mostRows` rows.
static std::vector<LowBitTile> tilesOf(const LowBitProblem &problem,
                                       unsigned columns, unsigned cluster,
                                       int64_t mostRows) {
  std::vector<LowBitTile> tiles;
  unsigned mostBlocks = columns <= 128 ? 2 : 1;
  for (unsigned blocks = problem.products; blocks <= mostBlocks; ++blocks)
    for (unsigned sharers : {1u, 2u}) {
      LowBitTile t{columns, blocks, sharers, cluster};
      if (t.divides() && columns > 64)
        continue;
      // A cluster's blocks wait for each other: all of them run at once.
      int64_t rowTiles = llvm::divideCeil(problem.n, int64_t(t.rows()));
      int64_t room = kCardMultiprocessors / (rowTiles * cluster);
      if (cluster > 1 && (room < 1 || mostRows > room * int64_t(columns)))
        continue;
      if (problem.k < int64_t(kLowBitTurn) * t.cluster * t.sharers)
        continue;
      tiles.push_back(t);
    }
  return tiles;
}

/// Widths that are worth code of their own.
static llvm::SmallVector<unsigned> widthsOf(const LowBitProblem &problem,
                                            int64_t minRows, int64_t maxRows) {
  llvm::SmallVector<unsigned> widths;
  unsigned widest = problem.products == 2 ? 128 : 256;
  for (unsigned columns : {8u, 16u, 32u, 64u, 128u, 256u}) {
    if (columns > widest)
      break;
    if (minRows > int64_t(columns) && columns < 128)
      continue;
    // A bucket of few rows: 8 does not pay beside 16, nor 32 where more follow.
    if ((columns == 8 && maxRows > 8) || (columns == 32 && maxRows > 64))
      continue;
    widths.push_back(columns);
    if (maxRows <= int64_t(columns))
      break;
  }
  return widths;
}

/// Rows at which another tile may become the best one.
static std::vector<int64_t> stepsOf(int64_t minRows, int64_t maxRows) {
  std::vector<int64_t> steps = {minRows};
  for (int64_t rows : {8, 16, 32, 64})
    steps.push_back(rows + 1);
  for (int64_t rows = 128; rows <= 4096; rows += 128)
    steps.push_back(rows + 1);
  llvm::erase_if(steps, [&](int64_t r) { return r < minRows || r > maxRows; });
  return steps;
}

LowBitPlan kernels::planLowBit(const LowBitProblem &problem, int64_t minRows,
                               int64_t maxRows) {
  minRows = std::max<int64_t>(minRows, 1);
  maxRows = std::max(maxRows, minRows);
  llvm::SmallVector<unsigned> widths = widthsOf(problem, minRows, maxRows);
  LowBitPlan best;
  double bestTime = 0;
  for (unsigned cluster : {1u, 2u, 4u}) {
    LowBitPlan plan;
    double total = 0;
    bool complete = true;
    for (unsigned columns : widths) {
      // Of the rows that the width is for.
      int64_t rows = std::clamp<int64_t>(columns, minRows, maxRows);
      const LowBitTile *chosen = nullptr;
      std::vector<LowBitTile> tiles =
          tilesOf(problem, columns, cluster, maxRows);
      double least = 0;
      for (const LowBitTile &t : tiles) {
        double time = lowBitTime(problem, rows, t);
        if (!chosen || time < least) {
          chosen = &t;
          least = time;
        }
      }
      complete &= chosen != nullptr;
      if (!chosen)
        break;
      plan.tiles.push_back(*chosen);
      total += least;
    }
    if (complete && (best.tiles.empty() || total < bestTime)) {
      best = plan;
      bestTime = total;
    }
  }
  for (int64_t rows : stepsOf(minRows, maxRows)) {
    // The end of the step decides.
    int64_t end = rows <= 64
                      ? llvm::PowerOf2Ceil(uint64_t(std::max<int64_t>(rows, 8)))
                      : int64_t(llvm::divideCeil(rows, 128)) * 128;
    end = std::min(end, maxRows);
    unsigned chosen = 0;
    for (unsigned i = 1; i < best.tiles.size(); ++i)
      if (lowBitTime(problem, end, best.tiles[i]) <
          lowBitTime(problem, end, best.tiles[chosen]))
        chosen = i;
    if (best.entries.empty() || best.entries.back().tile != chosen)
      best.entries.push_back({best.entries.empty() ? 1 : rows, chosen});
  }
  return best;
}
