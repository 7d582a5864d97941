//===- AttentionPrefill.cpp - Template: flash attention with wgmma --------===//
//
// A producer warp copies blocks of keys and values into two rings of two
// stages; two consumer warp groups each hold 64 query rows of one head:
//
//   for tiles of the block, longest first, forth and back over the grid
//     S = Q K^T of the last block that the tile sees, masked; P = softmax
//     for the blocks before it
//       S = Q K^T and O += P V under way together; P = softmax(S) under P V
//     O += P V and S of the next tile under way together; O leaves
//
// O, S and P stay in registers: P is V's left operand as it lies. Blocks that
// are seen whole look for no maximum: they subtract the one they find, and the
// row sums, which are needed anyway, tell when that was too small. Then the
// maximum is raised by the sum's exponent, or, where the sum left fp32's good
// range, the warp computes its scores again by mma.sync and takes their exact
// maximum. Queries
// go through the group's prologue (rotation) on their way into shared memory,
// results through its epilogue.
//
//===----------------------------------------------------------------------===//

#include "AttentionPrefill.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

// Sizes come from memory and quotients from the ordinary units: what steers the
// loops is made uniform.
void PrefillTemplate::setUp() {
  rows = uniform(k, size(a.rows));
  keys = uniform(k, size(a.keys));
  rowTiles = divide(rows + int64_t(p.tileRows() - 1), p.tileRows());
  headTiles = uniform(k, size(a.batch)) * (a.heads / int64_t(p.tileHeads()));
  tiles = rowTiles * headTiles;
  block = k.block();
  blocks = k.blocks();
}

/// Rounds go forth and back over the grid: who had the longest tile of one has
/// the shortest of the next.
Val PrefillTemplate::tileOfRound(Val round) {
  Val back = blocks - 1 - block;
  return round * blocks + k.select((round & 1) == 0, block, back);
}

PrefillTemplate::Tile PrefillTemplate::decode(Val number) {
  Tile tile;
  Val down = uniform(k, divide(number, headTiles));
  Val rest = number - down * headTiles;
  // The last rows see the most keys.
  tile.row = (rowTiles - 1 - down) * int64_t(p.tileRows());
  tile.batch = divide(rest, a.heads / int64_t(p.tileHeads()));
  tile.head = remainder(rest, a.heads / int64_t(p.tileHeads())) *
              int64_t(p.tileHeads());
  Val begin = k.i32(0), end = keys;
  if (op.getMaskedRows() != "uniform" || a.everyRowSees()) {
    Val lastRow = k.min(tile.row + int64_t(p.tileRows()), rows) - 1;
    begin = max(scores.leftLimit(tile.row), k.i32(0));
    end = k.min(scores.rightLimit(lastRow, tile.batch), keys);
  }
  int64_t width = p.blockKeys;
  tile.firstBlock =
      k.min(divide(begin, width), divide(max(keys - 1, k.i32(0)), width));
  // A block at least, so that all roles go the same way.
  Val last = max(divide(max(end - 1, k.i32(0)), width), tile.firstBlock);
  tile.firstBlock = uniform(k, tile.firstBlock);
  tile.blocks = uniform(k, last) - tile.firstBlock + 1;
  return tile;
}

PrefillTemplate::Half PrefillTemplate::halfOf(const Tile &tile) {
  Half half;
  half.head = p.pairs ? tile.head + consumer : tile.head;
  half.row = p.pairs ? tile.row : tile.row + (consumer << 6);
  half.myRow = half.row + (warpInGroup(k) << 4) + (k.lane() >> 2);
  if (p.general)
    return half;
  for (unsigned r : {0, 1}) {
    Val row = half.myRow + (int64_t(8) * r);
    half.end[r] = scores.rightLimit(row, tile.batch);
    if (scores.limitsLeft())
      half.begin[r] = scores.leftLimit(row);
  }
  return half;
}

//===----------------------------------------------------------------------===//
// Producer
//===----------------------------------------------------------------------===//

void PrefillTemplate::copyBlock(bool isKey, const Tile &tile, Val block,
                                Val count) {
  Barrier full = isKey ? keyFull(count) : valueFull(count);
  (isKey ? keyEmpty(count) : valueEmpty(count)).wait(parity(count) ^ 1);
  full.arriveExpect(p.blockBytes());
  Val to = k.at(k.dynamicShared(isKey ? p.key : p.value),
                slot(count) * int64_t(p.blockBytes()));
  Val head = divide(tile.head, a.group), row = block * int64_t(p.blockKeys);
  unsigned boxRows = isKey ? p.blockKeys : 64;
  Val map = f.maps[isKey ? 0 : 1];
  for (unsigned y = 0; y < p.blockKeys / boxRows; ++y)
    for (unsigned x = 0; x < p.columnBoxes; ++x)
      loadTile(
          k, map, k.at(to, ((int64_t(y) * p.columnBoxes + x) * boxRows * 128)),
          full, {k.i32(64 * x), row + (int64_t(64) * y), head, tile.batch});
}

/// Keys run one block ahead of values.
void PrefillTemplate::produce() {
  prefetchMap(k, f.maps[0]);
  prefetchMap(k, f.maps[1]);
  whileLoop(
      k, {k.i32(0), k.i32(0)},
      [&](llvm::ArrayRef<Val> v) {
        IndexBuilder::Scope scope(ix);
        return tileOfRound(v[0]) < tiles;
      },
      [&](llvm::ArrayRef<Val> v) {
        IndexBuilder::Scope scope(ix);
        Tile tile = decode(tileOfRound(v[0]));
        copyBlock(true, tile, tile.lastBlock(), v[1]);
        Vals count = k.loop(k.i32(1), tile.blocks, k.i32(1), {v[1]},
                            [&](Val i, llvm::ArrayRef<Val> c) {
                              IndexBuilder::Scope scope(ix);
                              Val block = tile.lastBlock() - i;
                              copyBlock(true, tile, block, c[0] + 1);
                              copyBlock(false, tile, block + 1, c[0]);
                              return Vals{c[0] + 1};
                            });
        copyBlock(false, tile, tile.firstBlock, count[0]);
        return Vals{v[0] + 1, count[0] + 1};
      });
}

//===----------------------------------------------------------------------===//
// Consumers: operands
//===----------------------------------------------------------------------===//

/// The half's queries, through the group's prologue, swizzled into shared
/// memory. Rows past the end repeat the last one. A thread takes two pieces of
/// a row, half a row apart: a rotation reads the same elements for both.
void PrefillTemplate::loadQueries(const Tile &tile, const Half &half,
                                  Val buffer) {
  Val base = queryBase(buffer), thread = opaque(k, threadInGroup(k));
  unsigned pieces = depth / 16, total = 64 * pieces;
  // Wide heads leave few registers beside their sums.
  const unsigned batch = depth <= 128 ? 2 : 1;
  auto load = [&] {
    for (unsigned start = 0; start < total; start += batch * kWarpgroup) {
      // All loads of a batch are under way before the first is stored.
      llvm::SmallVector<std::pair<Val, Val>> loaded;
      for (unsigned i = start; i < std::min(total, start + batch * kWarpgroup);
           i += kWarpgroup) {
        Val number = thread + int64_t(i);
        if (total % kWarpgroup)
          number = k.min(number, k.i32(total - 1));
        Val row = divide(number, pieces), piece = remainder(number, pieces);
        Val global = k.min(half.row + row, rows - 1);
        for (unsigned which : {0, 1}) {
          Val chunk = piece + int64_t(which * pieces);
          Indices at{index(tile.batch), index(half.head), index(global),
                     ix.index(Value(k.toIndex(chunk << 3)), 1, 8)};
          group.setWidth(8);
          Val x = k.round(k.wrap(group.emitVector(op.getQuery(), at)), element);
          group.setWidth(1);
          Val to = ((chunk >> 3) << 13) + (row << 7) +
                   (((chunk & 7) ^ (row & 7)) << 4);
          loaded.push_back({x, to});
        }
      }
      for (auto [x, to] : loaded)
        k.store(x, k.at(base, to), k.i64(0), {16, false});
    }
  };
  f.whenAligned(load, load);
  fenceForAsync(k);
  meet(k, consumer + 4, kWarpgroup);
}

/// S = Q K^T of one block, committed.
Val PrefillTemplate::keyProduct(Val buffer, Val count) {
  Val query = tileDescriptor(k, queryBase(buffer), Major::K);
  Val key = tileDescriptor(
      k, k.at(k.dynamicShared(p.key), slot(count) * int64_t(p.blockBytes())),
      Major::K);
  Val s = scoreProduct.undefined();
  for (unsigned i = 0; i < depth / 16; ++i) {
    int64_t step = (i & 3) * kernels::descriptorDepthStep(Major::K);
    s = scoreProduct.multiply(
        s, query + ((i >> 2) * (64 * 128 >> 4) + step),
        key + ((i >> 2) * (int64_t(p.blockKeys) * 128 >> 4) + step), Major::K,
        Major::K, i ? Wgmma::Start::Accumulate : Wgmma::Start::Fresh);
  }
  wgmmaCommit(k);
  return s;
}

/// O += P V of one block, committed.
Val PrefillTemplate::valueProduct(Val out, llvm::ArrayRef<Val> weights,
                                  Val count) {
  Val value = tileDescriptor(
      k, k.at(k.dynamicShared(p.value), slot(count) * int64_t(p.blockBytes())),
      Major::MN);
  for (unsigned i = 0; i < p.blockKeys / 16; ++i) {
    int64_t at = (i >> 2) * (int64_t(p.columnBoxes) * 64 * 128 >> 4) +
                 (i & 3) * kernels::descriptorDepthStep(Major::MN);
    out = sumProduct.multiply(out, weights.slice(4 * i, 4), value + at,
                              Major::MN);
  }
  wgmmaCommit(k);
  return out;
}

Vals PrefillTemplate::flat(const Sums &s) const {
  Vals all{s.out};
  all.append(s.weights);
  all.append(s.top);
  all.append(s.total);
  all.push_back(s.count);
  return all;
}

PrefillTemplate::Sums PrefillTemplate::unflat(llvm::ArrayRef<Val> v) const {
  Sums s;
  size_t n = p.blockKeys / 4;
  s.out = v[0];
  s.weights.assign(v.begin() + 1, v.begin() + 1 + n);
  s.top.assign(v.begin() + 1 + n, v.begin() + 3 + n);
  s.total.assign(v.begin() + 3 + n, v.begin() + 5 + n);
  s.count = v[5 + n];
  return s;
}

//===----------------------------------------------------------------------===//
// Consumers: blocks
//===----------------------------------------------------------------------===//

/// Values behind the last key may be anything, and NaN times zero is NaN: each
/// warp group clears them for itself, in the first block of the tile.
void PrefillTemplate::clearBehind(const Tile &tile, Val count) {
  Val valid = keys - tile.lastBlock() * int64_t(p.blockKeys);
  k.when(valid < int64_t(p.blockKeys), [&] {
    IndexBuilder::Scope scope(ix);
    valueFull(count).wait(parity(count));
    Val base =
        k.at(k.dynamicShared(p.value), slot(count) * int64_t(p.blockBytes()));
    Type four = VectorType::get({4}, k.builder().getI32Type());
    int64_t perRow = 8 * p.columnBoxes;
    Val from = max(valid, k.i32(0)) * perRow;
    k.loop(from + threadInGroup(k), k.i32(p.blockKeys * perRow),
           k.i32(kWarpgroup), [&](Val i) {
             Val row = divide(i, perRow), piece = remainder(i, perRow);
             // [64 rows][box][row][piece]
             Val at = ((row >> 6) * int64_t(p.columnBoxes) + (piece >> 3))
                      << 13;
             Val to = k.at(base, at + ((row & 63) << 7) + ((piece & 7) << 4));
             k.store(k.constant(four, 0), to, k.i64(0), {16, false});
           });
    fenceForAsync(k);
    meet(k, consumer + 4, kWarpgroup);
  });
}

/// From the scores of the tile's last block of keys, which have arrived.
PrefillTemplate::Sums PrefillTemplate::firstBlock(Val product, const Tile &tile,
                                                  const Half &half, Val count) {
  llvm::SmallVector<Val> s = unpackStruct(k, product);
  limit(s, tile, half, tile.lastBlock());
  Sums sums;
  Vals factor;
  softmax(s, sums, factor);
  sums.weights = packWeights(s);
  sums.out = sumProduct.zero();
  sums.count = count + 1;
  clearBehind(tile, count);
  return sums;
}

/// Keys of block `count`, values of the one before.
PrefillTemplate::Sums PrefillTemplate::step(Sums sums, const Tile &tile,
                                            const Half &half, Val block,
                                            Val buffer, bool masked) {
  Val keyCount = sums.count, valueCount = sums.count - 1;
  keyFull(keyCount).wait(parity(keyCount));
  valueFull(valueCount).wait(parity(valueCount));
  Vals tied{sums.out};
  tied.append(sums.weights);
  tied = wgmmaFence(k, tied);
  Val product = keyProduct(buffer, keyCount);
  Val out =
      valueProduct(tied[0], llvm::ArrayRef<Val>(tied).drop_front(), valueCount);
  llvm::SmallVector<Val> s = unpackStruct(k, wgmmaWait(k, 1, {product})[0]);
  Vals factor;
  Val grew;
  if (masked || p.general) {
    release(keyEmpty(keyCount));
    limit(s, tile, half, block);
    softmax(s, sums, factor);
  } else {
    grew = guard(s, sums, factor, buffer);
    release(keyEmpty(keyCount));
  }
  Vals arrived{out};
  arrived.append(s.begin(), s.end());
  arrived = wgmmaWait(k, 0, arrived);
  release(valueEmpty(valueCount));
  llvm::SmallVector<Val> o = unpackStruct(k, arrived[0]);
  auto scaled = [&] {
    Vals result;
    for (auto [i, v] : llvm::enumerate(o))
      result.push_back(v * factor[rowOf(i)]);
    return result;
  };
  Vals kept(o.begin(), o.end());
  kept = grew ? choose(k, grew, scaled, [&] { return kept; }) : scaled();
  o.assign(kept.begin(), kept.end());
  sums.out = packStruct(k, o);
  sums.weights = packWeights(llvm::ArrayRef<Val>(arrived).drop_front());
  sums.count = keyCount + 1;
  return sums;
}

/// The blocks behind the first one: those that the rows see in part, then those
/// that they see whole, then those that a window cuts on the left.
PrefillTemplate::Sums PrefillTemplate::runBlocks(Sums sums, const Tile &tile,
                                                 const Half &half, Val buffer) {
  int64_t width = p.blockKeys;
  auto run = [&](Val from, Val to, bool masked) {
    Vals done = k.loop(
        from, to, k.i32(1), flat(sums), [&](Val i, llvm::ArrayRef<Val> v) {
          IndexBuilder::Scope scope(ix);
          return flat(step(unflat(v), tile, half, tile.lastBlock() - i, buffer,
                           masked));
        });
    sums = unflat(done);
  };
  Val one = k.i32(1);
  if (p.general) {
    run(one, tile.blocks, true);
    return sums;
  }
  // Block b is whole on the right when the first row sees it and a key behind
  // it (so that all rows have seen one before), and on the left when its start
  // is not before the last row's limit.
  Val from = one, to = tile.blocks;
  if (a.limitsRight()) {
    Val limit = scores.rightLimit(half.row, tile.batch) - 1;
    Val whole = divide(max(limit, k.i32(0)), width);
    from =
        k.min(max(tile.lastBlock() + 1 - uniform(k, whole), one), tile.blocks);
  }
  if (scores.limitsLeft()) {
    Val left = max(scores.leftLimit(half.row + 63), k.i32(0));
    Val cut = divide(left + (width - 1), width); // first whole block
    to = k.min(max(tile.lastBlock() + 1 - uniform(k, cut), from), tile.blocks);
  }
  if (a.limitsRight())
    run(one, from, true);
  run(from, to, false);
  if (scores.limitsLeft())
    run(to, tile.blocks, true);
  return sums;
}

//===----------------------------------------------------------------------===//
// Consumers: tiles
//===----------------------------------------------------------------------===//

/// The half's results: divided, through shared memory for whole rows, and out
/// by the group's epilogue.
void PrefillTemplate::storeOut(Val out, Sums &sums, const Tile &tile,
                               const Half &half, Val buffer) {
  Vals inverse;
  Val blindRow = scores.blindValue();
  Val blind[2];
  for (unsigned r : {0, 1}) {
    Val total = sums.total[r];
    for (unsigned mask : {1, 2})
      total = total + shuffleXor(k, total, mask);
    blind[r] = total == k.f32(0);
    inverse.push_back(divideFast(k, k.f32(1), total));
  }
  bool canBeBlind = !a.everyRowSees();
  llvm::SmallVector<Val> o = unpackStruct(k, out);
  for (auto [i, v] : llvm::enumerate(o)) {
    v = v * inverse[rowOf(i)];
    if (canBeBlind)
      v = k.select(blind[rowOf(i)], blindRow, v);
  }
  Val base = queryBase(buffer), thread = opaque(k, threadInGroup(k));
  // kernels::fragmentAddress, from a thread's number of its own.
  Val lane = thread & 31;
  Val fragment = k.at(base, (((thread >> 5) << 4) + (lane & 15)) << 7);
  for (unsigned i = 0; i < depth / 16; ++i) {
    Vals pairs;
    for (unsigned j = 0; j < 8; j += 2)
      pairs.push_back(pack2(k, element, o[8 * i + j], o[8 * i + j + 1]));
    Val piece = ((lane >> 4) + int64_t(2 * (i % 4))) ^ (lane & 7);
    storeFragment(k, k.at(fragment, (piece << 4) + (int64_t(i) / 4 * 8192)),
                  pairs);
  }
  meet(k, consumer + 4, kWarpgroup);
  unsigned chunks = depth / 8;
  auto store = [&] {
    k.loop(thread, k.i32(64 * chunks), k.i32(kWarpgroup), [&](Val i) {
      IndexBuilder::Scope scope(ix);
      Val row = divide(i, chunks), chunk = remainder(i, chunks);
      Val global = half.row + row;
      k.when(global < rows, [&] {
        IndexBuilder::Scope scope(ix);
        Val from = ((chunk >> 3) << 13) + (row << 7) +
                   (((chunk & 7) ^ (row & 7)) << 4);
        Type eight = VectorType::get({8}, element);
        Val x =
            k.extend(k.load(k.at(base, from), k.i64(0), eight, {16, false}));
        Indices at{index(tile.batch), index(half.head), index(global),
                   ix.index(Value(k.toIndex(chunk << 3)), 1, 8)};
        scores.store(x, at, 8);
      });
    });
  };
  f.whenAligned(store, store);
  // The buffer takes queries again.
  meet(k, consumer + 4, kWarpgroup);
}

void PrefillTemplate::consume(Val number) {
  consumer = number;
  Val zero = k.i32(0);
  auto bufferOf = [&](Val round) {
    return p.queryBuffers == 2 ? round & 1 : zero;
  };
  auto start = [&](Val round, Val count) {
    Tile tile = decode(tileOfRound(round));
    loadQueries(tile, halfOf(tile), bufferOf(round));
    keyFull(count).wait(parity(count));
    wgmmaFence(k);
    return keyProduct(bufferOf(round), count);
  };
  auto arrive = [&](Val product, Val count) {
    product = wgmmaWait(k, 0, {product})[0];
    release(keyEmpty(count));
    return product;
  };
  Vals init = choose(
      k, tileOfRound(zero) < tiles,
      [&] {
        IndexBuilder::Scope scope(ix);
        return Vals{arrive(start(zero, zero), zero)};
      },
      [&] { return Vals{scoreProduct.zero()}; });
  init.push_back(zero);
  init.push_back(zero);
  whileLoop(
      k, init,
      [&](llvm::ArrayRef<Val> v) {
        IndexBuilder::Scope scope(ix);
        return tileOfRound(v[1]) < tiles;
      },
      [&](llvm::ArrayRef<Val> v) {
        IndexBuilder::Scope scope(ix);
        Val round = v[1], buffer = bufferOf(round), next = round + 1;
        Tile tile = decode(tileOfRound(round));
        Half half = halfOf(tile);
        Sums sums = firstBlock(v[0], tile, half, v[2]);
        sums = runBlocks(sums, tile, half, buffer);
        // The last values, under way.
        Val last = sums.count - 1;
        valueFull(last).wait(parity(last));
        Vals tied{sums.out};
        tied.append(sums.weights);
        tied = wgmmaFence(k, tied);
        Val out =
            valueProduct(tied[0], llvm::ArrayRef<Val>(tied).drop_front(), last);
        Val isMore = tileOfRound(next) < tiles;
        auto more = [&] {
          IndexBuilder::Scope scope(ix);
          if (p.queryBuffers == 1) {
            Val done = wgmmaWait(k, 0, {out})[0];
            release(valueEmpty(last));
            storeOut(done, sums, tile, half, buffer);
            return Vals{arrive(start(next, sums.count), sums.count)};
          }
          Val product = start(next, sums.count);
          Val done = wgmmaWait(k, 1, {out})[0];
          release(valueEmpty(last));
          storeOut(done, sums, tile, half, buffer);
          return Vals{arrive(product, sums.count)};
        };
        auto end = [&] {
          IndexBuilder::Scope scope(ix);
          storeOut(wgmmaWait(k, 0, {out})[0], sums, tile, half, buffer);
          // Defined, or the scores would stay alive around the loop.
          return Vals{scoreProduct.zero()};
        };
        Vals result = choose(k, isMore, more, end);
        result.push_back(next);
        result.push_back(sums.count);
        return result;
      });
}

void PrefillTemplate::build() {
  bool programmatic = kernels::isProgrammatic(f.kernel);
  if (programmatic)
    k.releaseNext();
  k.when(k.thread() == 0, [&] {
    for (unsigned which = 0; which < 4; ++which)
      for (unsigned stage = 0; stage < p.stages; ++stage)
        barriers(which).at(k, stage).init(which % 2 ? 4 * kConsumers : 1);
    fenceBarrierInit(k);
  });
  setUp();
  k.barrier();
  if (programmatic)
    k.waitForPrevious();
  RoleRegisters registers{24, 240};
  splitRoles(
      k, registers,
      [&] {
        IndexBuilder::Scope scope(ix);
        produce();
      },
      [&](Val number) {
        IndexBuilder::Scope scope(ix);
        consume(number);
      });
}

void hopper::buildAttentionPrefill(KernelFunction &f) {
  std::string reason;
  auto parameters = kernels::getPrefillAttention(*f.kernel.getBlock(), reason);
  if (!parameters)
    return f.fail(reason);
  PrefillTemplate(f, *parameters).build();
}
