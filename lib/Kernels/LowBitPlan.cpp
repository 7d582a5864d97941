//===- LowBitPlan.cpp - Tiles of products with packed weights by a model --===//
//
// Measured on an H200 (bursts), clocks of a multiprocessor at 1.755 GHz, which
// the power of more than 128 rows brings down (1.6 to 1.7 GHz, 1.35 without
// rests, of cuBLAS 1.5 to 1.6): a product of 64 rows, 16 k and up to 256
// columns with A in registers takes 13 (8 and 16 columns), 16 (32), then half
// its columns; the decode of 256 rows by 128 columns of symmetric int4 takes
// 850. Of the lesser of both, about a third is not hidden, a quarter with two
// blocks, next to nothing of wide tiles, whose results take 2.6 us and more, or
// half of it where they leave as boxes while the next tile's products are under
// way. What a launch costs beside its turns is 2 us, a cluster's sums 0.6 us.
// Clusters of four do not fill the card.
//
//===----------------------------------------------------------------------===//

#include "fusion/Kernels/LowBitMatmul.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <limits>

using namespace fusion;
using namespace fusion::kernels;

static double productClocks(unsigned columns) {
  return columns <= 16 ? 13 : columns <= 32 ? 16 : 0.506 * columns;
}

double kernels::lowBitTime(const LowBitProblem &problem, int64_t rows,
                           const LowBitTile &t) {
  constexpr double kBytes = 4.3e6; // a microsecond
  const double clocks = rows > 128 ? 1690 : 1755;
  int64_t rowTiles = llvm::divideCeil(problem.n, int64_t(t.rows()));
  int64_t columnTiles = llvm::divideCeil(rows, int64_t(t.columns));
  int64_t turns = llvm::divideCeil(problem.k, int64_t(kLowBitTurn));
  int64_t blocks = rowTiles * columnTiles * t.cluster;
  int64_t places = int64_t(kCardMultiprocessors) * t.resident;
  double waves = double(llvm::divideCeil(blocks, places));
  // Wide tiles of more than a wave are streamed, for what that costs.
  double sharedWaves = double(blocks) / double(places);
  if (t.columns >= 128 && !t.divides() && sharedWaves > 1)
    waves = std::min(waves, sharedWaves + double(kStreamTurns) / double(turns));
  int64_t own = llvm::divideCeil(turns, int64_t(t.cluster));
  int64_t groups = t.rows() / 64;
  double products = productClocks(t.columns) * 8 * double(groups);
  double decode = 850 * problem.decode * t.rows() / 256;
  bool wide = t.columns >= 128;
  double open = wide ? 0.05 : t.resident == 2 ? 0.25 : 0.35;
  double turn = std::max(products, decode) + open * std::min(products, decode);
  // Few rows of the weight: the latency of a turn shows.
  turn = std::max(turn, t.sharers > 1 ? 260.0 : 450.0);
  double compute = waves * double(own) * turn * t.resident / clocks;
  double weights = double(problem.n) * double(problem.k) * problem.bits / 8;
  double others = 2.0 * double(rows) * double(problem.k + problem.n);
  double pulling = std::min(1.0, double(blocks) / double(t.resident) / 100);
  double memory = (weights + others) / (kBytes * pulling);
  // Beside that every row tile reads lhs from the L2 cache, and every column
  // tile after the first the weights.
  double lhs = 2.0 * double(rows) * double(problem.k);
  memory += (double(rowTiles) * lhs + double(columnTiles - 1) * weights) / 16e6;
  double time = std::max(compute, memory) + 2;
  // Weights that stages of lhs leave no room for are not fetched while the
  // previous kernel ends.
  auto ahead = [&](int64_t columns) {
    double codes = 128 * problem.bits / 8;
    double room = 222e3 * codes / (codes + 2.0 * double(columns));
    return std::min(room, weights / kCardMultiprocessors);
  };
  int64_t kept = std::min<int64_t>(std::max<int64_t>(t.columns, rows), 64);
  time += 1.5 * kCardMultiprocessors * (ahead(8) - ahead(kept)) / kBytes;
  if (!wide)
    time += 0.9 * (waves - 1);
  double results = double(t.columns) * t.rows();
  time += waves * (wide ? 1.7 + results / 18000 : 0.3 + results / 32768);
  if (wide && problem.sent && !t.divides())
    time -= 1.3 * (waves - 1);
  if (t.cluster > 1)
    time += 0.6;
  else if (t.sharers > 1)
    time += 0.3;
  // Blocks of the next kernel hide the start, where they spread evenly.
  if (t.resident == 2)
    time -= blocks > int64_t(kCardMultiprocessors) ? 1.0 : -5.0;
  return time;
}

LowBitTile LowBitPlan::tileAt(int64_t rows) const {
  unsigned tile = entries[0].tile;
  for (const LowBitPlanEntry &entry : entries)
    if (entry.firstRow <= rows)
      tile = entry.tile;
  return tiles[tile];
}

namespace {

class Planner {
public:
  Planner(const LowBitProblem &problem, int64_t minRows, int64_t maxRows)
      : problem(problem) {
    for (int64_t rows :
         {2,   4,   8,   16,  24,  32,  48,   64,   96,   128,  160,
          192, 256, 320, 384, 512, 768, 1024, 1536, 2048, 3072, 4096})
      if (rows >= minRows && rows < maxRows)
        samples.push_back(rows);
    samples.push_back(std::clamp<int64_t>(maxRows, minRows, 1 << 16));
  }
  /// The best tiles with one size of clusters and of resident blocks; empty
  /// where there are none.
  LowBitPlan run(unsigned cluster, unsigned resident);
  double cost(const LowBitPlan &plan) const { return cost(plan.tiles); }

private:
  using Tiles = llvm::SmallVector<LowBitTile, 4>;
  void addTiles(Tiles &tiles, unsigned columns, unsigned cluster,
                unsigned resident) const;
  double time(int64_t rows, const LowBitTile &t) const;
  const LowBitTile *best(int64_t rows, const Tiles &tiles) const;
  double cost(const Tiles &tiles) const;

  const LowBitProblem &problem;
  llvm::SmallVector<int64_t> samples; ///< of rows
};

} // namespace

void Planner::addTiles(Tiles &tiles, unsigned columns, unsigned cluster,
                       unsigned resident) const {
  if (problem.norm && columns > kLowBitNormRows)
    return;
  // Eight columns are measured, and gain, where nothing shares the tile.
  if (columns == 8 && (cluster > 1 || problem.products > 1))
    return;
  unsigned mostBlocks = columns <= 128 ? 2 : 1;
  for (unsigned blocks = problem.products; blocks <= mostBlocks; ++blocks)
    for (unsigned sharers : {1u, 2u}) {
      LowBitTile t{columns, blocks, sharers, cluster, resident};
      // All sums have to lie in shared memory.
      if (t.divides() && columns * blocks > 128)
        continue;
      // 104 registers a consumer, half the shared memory.
      if (resident == 2 &&
          (blocks * columns > (t.divides() ? 32u : 64u) || problem.bits > 6))
        continue;
      if (t.divides() && problem.k < int64_t(kLowBitTurn) * cluster * sharers)
        continue;
      tiles.push_back(t);
    }
}

// A cluster's blocks wait for each other: all of them run at once.
double Planner::time(int64_t rows, const LowBitTile &t) const {
  int64_t rowTiles = llvm::divideCeil(problem.n, int64_t(t.rows()));
  int64_t columnTiles = llvm::divideCeil(rows, int64_t(t.columns));
  if (t.cluster > 1 &&
      rowTiles * columnTiles * t.cluster > int64_t(kCardMultiprocessors))
    return std::numeric_limits<double>::infinity();
  return lowBitTime(problem, rows, t);
}

const LowBitTile *Planner::best(int64_t rows, const Tiles &tiles) const {
  const LowBitTile *chosen = &tiles[0];
  for (const LowBitTile &t : llvm::drop_begin(tiles))
    if (time(rows, t) < time(rows, *chosen))
      chosen = &t;
  return chosen;
}

double Planner::cost(const Tiles &tiles) const {
  double sum = 0;
  for (int64_t rows : samples)
    sum += time(rows, *best(rows, tiles)) / double(rows + 64);
  return sum;
}

LowBitPlan Planner::run(unsigned cluster, unsigned resident) {
  Tiles tiles;
  unsigned widest = problem.products == 2 ? 128 : 256;
  for (unsigned columns : {8u, 16u, 32u, 64u, 128u, 160u, 256u})
    if (columns <= 16 ||
        (columns <= widest && int64_t(columns) < 2 * samples.back()))
      addTiles(tiles, columns, cluster, resident);
  LowBitPlan plan;
  if (tiles.empty() || std::isinf(cost(tiles)))
    return plan;
  // Each tile is code of its own: those that gain little go, where four are
  // many.
  while (tiles.size() > 1) {
    double before = cost(tiles), least = 0;
    size_t leaves = 0;
    for (size_t i = 0; i < tiles.size(); ++i) {
      Tiles others(tiles);
      others.erase(others.begin() + i);
      double after = cost(others);
      if (i == 0 || after < least) {
        least = after;
        leaves = i;
      }
    }
    double allowed = tiles.size() > 4 ? 2.0 : 1.004;
    if (least > allowed * before)
      break;
    tiles.erase(tiles.begin() + leaves);
  }
  plan.tiles = tiles;
  int64_t first = 1;
  for (int64_t rows : samples) {
    unsigned chosen = unsigned(best(rows, tiles) - tiles.begin());
    if (plan.entries.empty() || plan.entries.back().tile != chosen)
      plan.entries.push_back({first, chosen});
    first = rows + 1;
  }
  return plan;
}

LowBitPlan kernels::planLowBit(const LowBitProblem &problem, int64_t minRows,
                               int64_t maxRows, unsigned mostResident) {
  minRows = std::max<int64_t>(minRows, 1);
  maxRows = std::max(maxRows, minRows);
  Planner planner(problem, minRows, maxRows);
  LowBitPlan best = planner.run(/*cluster=*/1, /*resident=*/1);
  for (auto [cluster, resident] : {std::pair(2u, 1u), std::pair(1u, 2u)}) {
    if (resident > mostResident)
      continue;
    LowBitPlan other = planner.run(cluster, resident);
    if (!other.tiles.empty() &&
        (best.tiles.empty() || planner.cost(other) < planner.cost(best)))
      best = other;
  }
  return best;
}
