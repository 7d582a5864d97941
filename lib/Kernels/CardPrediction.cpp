//===- CardPrediction.cpp - What a launch on the card should take ---------===//
//
// Measured on an H200. A launch in a chain of programmatic ones takes 1.4 us
// beside its work, 1.9 us with packed weights. One row streams dense weights at
// 1.02 of the read bandwidth as described, packed ones at 0.93 or as fast as
// they are decoded (on the whole card 7.6 int4, 5.5 FP4, 4.6 FP8 weights a
// picosecond). Products of few rows take 2.5 us beside their weights, 1 us
// where nothing writes lhs, and read lhs once a tile at 70 TB/s; weights come
// at 0.96 of the bandwidth, at 0.985 in longer pieces, with lhs in registers at
// all of it. The planners' models compare tiles: with packed weights of few
// rows a launch takes 1 us more; that of dense ones counts no launch, and
// bursts run 2 % slower. A block of 128 queries and keys of attention takes 1.4
// us of a multiprocessor, a tile 4 us beside its blocks; decode attention 4 us
// beside its cache. On the ordinary units products reach 0.45 of the peak,
// attention 0.3.
//
//===----------------------------------------------------------------------===//

#include "fusion/Kernels/CardPrediction.h"

#include "fusion/Kernels/CardAttention.h"
#include "fusion/Kernels/LowBitMatmul.h"
#include "fusion/Kernels/SkinnyShape.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;
using llvm::formatv;

namespace {

constexpr double kChainedLaunch = 1.4e-6;
constexpr double kDenseShare = 1.02, kPackedShare = 0.93;
constexpr double kPackedStart = 0.5e-6;
constexpr double kFewPackedRows = 1e-6, kProductShare = 1.02;
constexpr double kFewRowsStart = 2.5e-6, kFewRowsAtHand = 1e-6;
constexpr double kFewRowsShare = 0.96, kFewRowsLongShare = 0.985;
constexpr double kFewRowsCache = 70e12;
constexpr double kAttentionBlock = 1.41e-6, kAttentionTile = 4e-6;
constexpr double kDecodeStart = 4e-6;
constexpr double kSimtProductShare = 0.45, kSimtAttentionShare = 0.3;

class Predictor {
public:
  Predictor(KernelOp kernel, const CardLaunch &launch, ArrayRef<int64_t> sizes,
            const target::DeviceDescription &device)
      : kernel(kernel), launch(launch), sizes(sizes), device(device) {}

  CardPrediction run();

private:
  CardPrediction skinny() const;
  double fewRowsStart(const WgmmaMatmul &product) const;
  CardPrediction skinnyTiles() const;
  CardPrediction fewRows() const;
  CardPrediction lowBit() const;
  CardPrediction wgmma() const;
  CardPrediction simtMatmul() const;
  CardPrediction decodeAttention() const;
  CardPrediction prefillAttention() const;
  CardPrediction simtAttention() const;
  CardPrediction rows() const;
  CardPrediction pulled() const;

  int64_t value(const SymExpr &e) const;
  double bytes(Value v) const;
  /// What the kernel reads and writes, each tensor once.
  double allBytes() const;
  double start() const {
    return isProgrammatic(kernel) ? kChainedLaunch : device.launchSeconds.value;
  }
  /// Products of all MatmulOps and AttentionOps, two operations a
  /// multiplication.
  double productFlops() const;

  mutable KernelOp kernel;
  const CardLaunch &launch;
  ArrayRef<int64_t> sizes;
  const target::DeviceDescription &device;
};

} // namespace

int64_t Predictor::value(const SymExpr &e) const {
  auto found = e.evaluate([&](std::string_view name) -> std::optional<int64_t> {
    unsigned index = 0;
    StringRef digits(name);
    if (!digits.consume_front("d") || digits.getAsInteger(10, index) ||
        index >= sizes.size())
      return std::nullopt;
    return sizes[index];
  });
  return found.value_or(1);
}

double Predictor::bytes(Value v) const {
  return double(value(numElements(v.getType()))) * elementBits(elementType(v)) /
         8.0;
}

double Predictor::allBytes() const {
  double sum = 0;
  for (BlockArgument argument : kernel.getBlock()->getArguments()) {
    double most = bytes(argument), read = 0;
    for (Operation *user : argument.getUsers()) {
      auto fusable = dyn_cast<FusableOpInterface>(user);
      OpClass kind = fusable ? fusable.getOpClass() : OpClass::Elementwise;
      bool data = user->getOperand(0) == argument;
      // What a gather picks or a view leaves out is not read; rows are appended
      // where the others lie.
      if (data && (kind == OpClass::Gather || kind == OpClass::View))
        read += double(value(numElements(user->getResult(0).getType()))) *
                elementBits(elementType(argument)) / 8.0;
      else if (!data || kind != OpClass::Append)
        read += most;
    }
    sum += std::min(most, read);
  }
  for (Value result : kernel.getYield().getValues()) {
    auto append = result.getDefiningOp<KvAppendOp>();
    sum += bytes(append ? append.getUpdate() : result);
  }
  return sum;
}

double Predictor::productFlops() const {
  double flops = 0;
  for (auto product : kernel.getBlock()->getOps<MatmulOp>())
    flops += 2.0 * double(value(numElements(product.getResult().getType()))) *
             double(value(product.getContractedSize()));
  for (auto op : kernel.getBlock()->getOps<AttentionOp>())
    flops += 4.0 * double(value(numElements(op.getQuery().getType()))) *
             double(value(getSymShape(op.getKey())[2]));
  return flops;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

CardPrediction Predictor::skinny() const {
  std::string reason;
  auto shape = getSkinnyShape(kernel, launch.registerPieces, reason);
  CardPrediction p{"streamed row", "", 0};
  if (!shape)
    return p;
  p.choice = formatv("{0} blocks of {1} threads, {2} a row of weights",
                     shape->blocks(), shape->threads,
                     shape->isLowBit() ? 32 : shape->threadsPerRow);
  double share = kDenseShare, decode = 0;
  if (shape->isLowBit()) {
    const LowBitWeight &w = shape->lowBit[0];
    p.family = "streamed row, mma.sync";
    if (elementType(shape->lhs).isF32())
      p.family = "streamed row, packed weights in fp32";
    p.choice = formatv("{0} blocks of {1} threads share strips of {2} rows "
                       "along K",
                       shape->blocks(), shape->threads, kStripRows);
    share = kPackedShare;
    p.seconds = kPackedStart;
    double rate = isa<IntegerType>(w.code()) ? 7.6e12
                  : w.bits == 4              ? 5.5e12
                                             : 4.6e12;
    decode =
        double(shape->rows) * shape->productsPerRow * double(shape->k) / rate;
  } else if (!shape->streamed) {
    p.family = "row of products, elements computed";
    share = 0.1;
  }
  p.seconds +=
      start() +
      std::max(allBytes() / (device.readBandwidth.value * share), decode);
  return p;
}

/// Lhs that no kernel of the step writes is loaded before the wait.
double Predictor::fewRowsStart(const WgmmaMatmul &product) const {
  return isStepInvariant(kernel, product.lhs.argument) ? kFewRowsAtHand
                                                       : kFewRowsStart;
}

CardPrediction Predictor::skinnyTiles() const {
  std::string reason;
  auto tiles = getSkinnyTiles(kernel, reason);
  CardPrediction p{"few rows, wgmma with sides swapped", "", 0};
  if (!tiles)
    return p;
  p.choice = formatv("tiles of {0} columns x {1} rows, stages dealt evenly to "
                     "{2} blocks",
                     tiles->columns(), tiles->rows, tiles->blocks());
  double lhs = double(tiles->tiles()) * 2 * double(value(tiles->product.m)) *
               double(tiles->product.k);
  double compute = productFlops() * tiles->rows /
                   std::max(1.0, double(value(tiles->product.m))) /
                   device.tensor16Flops.value;
  double share = tiles->tilesDeep > 1 ? kFewRowsLongShare : kFewRowsShare;
  p.seconds = fewRowsStart(tiles->product) +
              std::max(allBytes() / (device.readBandwidth.value * share) +
                           lhs / kFewRowsCache,
                       compute);
  return p;
}

CardPrediction Predictor::fewRows() const {
  std::string reason;
  auto few = getFewRows(kernel, reason);
  CardPrediction p{"few rows, lhs in registers", "", 0};
  if (!few)
    return p;
  p.choice = formatv("{0} blocks of {1} warps, {2} rows of weights at a time",
                     few->blocks(), FewRows::kWarps, FewRows::kStripRows);
  p.seconds =
      fewRowsStart(few->product) + allBytes() / device.readBandwidth.value;
  return p;
}

CardPrediction Predictor::lowBit() const {
  std::string reason;
  auto mm = getLowBitMatmul(kernel, launch.residentBlocks > 1 ? 2 : 1, reason);
  CardPrediction p{"packed weights, register-A wgmma", "", 0};
  if (!mm)
    return p;
  int64_t rows = value(mm->m);
  LowBitTile t = mm->plan.tileAt(rows);
  p.choice = formatv("tile {0} weight rows x {1}", t.rows(), t.columns);
  if (t.resident > 1)
    p.choice += formatv(", {0} blocks a multiprocessor", t.resident);
  if (t.sharers > 1)
    p.choice += ", K shared by 2 warp groups";
  if (t.cluster > 1)
    p.choice += formatv(", K shared by clusters of {0}", t.cluster);
  if (mm->streams(t))
    p.choice += ", last tiles stream-K";
  if (mm->norm)
    p.choice += mm->norm->sum ? ", addition and norm within" : ", norm within";
  p.seconds = 1e-6 * lowBitTime(mm->problem, rows, t) +
              (rows < 128 ? kFewPackedRows : 0);
  return p;
}

CardPrediction Predictor::wgmma() const {
  std::string reason;
  auto mm = getWgmmaMatmul(kernel, reason);
  CardPrediction p{"wgmma", "", 0};
  if (!mm)
    return p;
  int64_t rowTiles =
      llvm::divideCeil(std::max<int64_t>(value(mm->m), 1), kMatmulTileRows);
  MatmulSchedule schedule = mm->plan[0].schedule;
  for (const MatmulPlanEntry &entry : mm->plan)
    if (entry.firstRowTiles <= rowTiles)
      schedule = entry.schedule;
  p.choice = formatv("tile {0} x {1}", kMatmulTileRows, schedule.columns);
  if (schedule.splits > 1)
    p.choice += formatv(", K split in {0} through {1}", schedule.splits,
                        schedule.clustered ? "a cluster's shared memory"
                                           : "the workspace");
  MatmulProblem problem = mm->problem;
  problem.batch = std::max<int64_t>(1, value(mm->batch));
  p.seconds =
      start() + 1e-6 * kProductShare * matmulTime(problem, rowTiles, schedule);
  return p;
}

CardPrediction Predictor::simtMatmul() const {
  const SimtTile &t = launch.tile;
  CardPrediction p{"products on the ordinary units", "", 0};
  p.choice = formatv("tile {0} x {1}", t.rows(), t.columns());
  if (launch.splits > 1)
    p.choice += formatv(", K split in {0}", launch.splits);
  p.seconds =
      start() +
      std::max(allBytes() / device.copyBandwidth.value,
               productFlops() / (device.vectorFlops.value * kSimtProductShare));
  return p;
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

CardPrediction Predictor::decodeAttention() const {
  std::string reason;
  auto d = getDecodeAttention(*kernel.getBlock(), reason);
  CardPrediction p{"decode attention", "", 0};
  if (!d)
    return p;
  int64_t segments = value(d->group.batch) * d->group.kvHeads;
  int64_t parts =
      d->parts
          ? d->parts
          : std::clamp<int64_t>(kDecodeBlocks / std::max<int64_t>(segments, 1),
                                1, kDecodeParts);
  p.choice = formatv("{0} queries a KV head, keys in {1} parts, {2} warps",
                     d->queries, parts, d->warps);
  if (d->group.appendKey)
    p.choice += ", appends";
  double cache = 4.0 * double(segments) * double(value(d->group.keys)) *
                 double(d->group.depth);
  // Whole rounds of blocks.
  double blocks = double(segments * parts);
  double places = std::ceil(blocks / kDecodeBlocks) * kDecodeBlocks;
  p.seconds = kDecodeStart + cache / device.readBandwidth.value *
                                 (d->parts == 1 ? places / blocks : 1);
  return p;
}

CardPrediction Predictor::prefillAttention() const {
  std::string reason;
  auto a = getPrefillAttention(*kernel.getBlock(), reason);
  CardPrediction p{"prefill attention, wgmma", "", 0};
  if (!a)
    return p;
  p.choice = formatv("tile {0} rows x {1} heads, {2} keys at a time{3}",
                     a->tileRows(), a->tileHeads(), a->blockKeys,
                     a->general ? ", scores element by element" : "");
  int64_t rows = value(a->group.rows), keys = value(a->group.keys);
  double blocks = 0;
  int64_t rowTiles = llvm::divideCeil(rows, int64_t(a->tileRows()));
  for (int64_t i = 0; i < rowTiles; ++i) {
    // The keys that the tile's last row sees.
    int64_t seen = a->group.limitsRight()
                       ? std::clamp<int64_t>(
                             keys - rows + (i + 1) * a->tileRows(), 1, keys)
                       : keys;
    blocks += double(llvm::divideCeil(seen, int64_t(a->blockKeys)));
  }
  double tiles =
      double(value(a->group.batch)) * double(a->group.heads) / a->tileHeads();
  double block = kAttentionBlock * a->blockKeys / 128 * double(a->group.depth) /
                 128 * (a->general ? 1.3 : 1);
  double waves = std::max(1.0, tiles * double(rowTiles) / kPrefillBlocks);
  p.seconds = start() +
              std::max(tiles * blocks / kPrefillBlocks,
                       double(llvm::divideCeil(keys, int64_t(a->blockKeys)))) *
                  block +
              waves * kAttentionTile;
  return p;
}

CardPrediction Predictor::simtAttention() const {
  CardPrediction p{"attention on the ordinary units", "", 0};
  p.choice = formatv("tile {0} rows x {1} keys", launch.attention.rows,
                     launch.attention.keys);
  if (launch.splits > 1)
    p.choice += formatv(", keys split in {0}", launch.splits);
  p.seconds = start() + std::max(allBytes() / device.copyBandwidth.value,
                                 productFlops() / (device.vectorFlops.value *
                                                   kSimtAttentionShare));
  return p;
}

//===----------------------------------------------------------------------===//
// The rest
//===----------------------------------------------------------------------===//

CardPrediction Predictor::rows() const {
  CardPrediction p{"rows", "", 0};
  p.choice =
      formatv("{0} threads a row, {1} rows a block, {2}", launch.threadsPerRow,
              launch.rowsPerBlock,
              launch.chunks ? "kept in registers" : "read once a reduction");
  // Few rows: the latency of loads and of two reductions.
  p.seconds =
      start() + 0.6e-6 + allBytes() / (0.97 * device.copyBandwidth.value);
  return p;
}

CardPrediction Predictor::pulled() const {
  CardPrediction p{"elements", "", 0};
  p.choice = formatv("{0} at a time", launch.vector);
  p.seconds =
      start() + std::max(allBytes() / device.copyBandwidth.value,
                         productFlops() / (0.02 * device.vectorFlops.value));
  return p;
}

CardPrediction Predictor::run() {
  switch (launch.family) {
  case CardLaunch::Family::RowReduction:
    return rows();
  case CardLaunch::Family::Skinny:
    return skinny();
  case CardLaunch::Family::SkinnyTiles:
    return skinnyTiles();
  case CardLaunch::Family::FewRows:
    return fewRows();
  case CardLaunch::Family::SimtMatmul:
    return simtMatmul();
  case CardLaunch::Family::SimtAttention:
    return simtAttention();
  case CardLaunch::Family::WgmmaMatmul:
    return wgmma();
  case CardLaunch::Family::LowBitMatmul:
    return lowBit();
  case CardLaunch::Family::AttentionDecode:
    return decodeAttention();
  case CardLaunch::Family::AttentionPrefill:
    return prefillAttention();
  case CardLaunch::Family::Pulled:
    return pulled();
  }
  llvm_unreachable("all families are above");
}

CardPrediction kernels::predictLaunch(KernelOp kernel, const CardLaunch &launch,
                                      ArrayRef<int64_t> sizes,
                                      const target::DeviceDescription &device) {
  return Predictor(kernel, launch, sizes, device).run();
}
