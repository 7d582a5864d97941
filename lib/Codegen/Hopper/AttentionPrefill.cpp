//===- AttentionPrefill.cpp - Template: flash attention with wgmma --------===//
//
// A producer warp copies blocks of keys and values into two rings of two
// stages; the other warps of its group, the helpers, fetch the queries of the
// next tile; two consumer warp groups each hold 64 query rows of one head:
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
  shared = sharedSixteenths(k);
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

PrefillTemplate::Half PrefillTemplate::halfOf(const Tile &tile, Val which) {
  Half half;
  half.head = p.pairs ? tile.head + which : tile.head;
  half.row = p.pairs ? tile.row : tile.row + (which << 6);
  return half;
}

/// The consumer's own.
PrefillTemplate::Half PrefillTemplate::halfOf(const Tile &tile) {
  Half half = halfOf(tile, consumer);
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

void PrefillTemplate::waitForPrevious() {
  if (kernels::isProgrammatic(f.kernel))
    k.waitForPrevious();
}

/// Whether no kernel writes what the queries are made of: the first ones are
/// there when keys arrive.
bool PrefillTemplate::queriesAreInvariant() {
  llvm::SmallVector<Value> work{op.getQuery()};
  while (!work.empty()) {
    Value value = work.pop_back_val();
    auto argument = dyn_cast<BlockArgument>(value);
    if (!argument)
      llvm::append_range(work, value.getDefiningOp()->getOperands());
    else if (!kernels::isStepInvariant(f.kernel, argument.getArgNumber()))
      return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Producer
//===----------------------------------------------------------------------===//

void PrefillTemplate::copyBlock(bool isKey, const Tile &tile, Val block,
                                Val count) {
  Barrier full = isKey ? keyFull(count) : valueFull(count);
  (isKey ? keyEmpty(count) : valueEmpty(count)).wait(parity(count) ^ 1);
  // Values behind the last key are cleared before consumers see the block.
  if (!isKey)
    full = Barrier(k, k.select(validKeys(block) < int64_t(p.blockKeys),
                               uncleared(count).address(), full.address()));
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

/// The block's tiles in turn: `body` takes and returns the round, and what is
/// carried from one to the next.
void PrefillTemplate::eachTile(
    Vals carried,
    llvm::function_ref<Vals(const Tile &, llvm::ArrayRef<Val>)> body) {
  carried.insert(carried.begin(), k.i32(0));
  whileLoop(
      k, carried,
      [&](llvm::ArrayRef<Val> v) {
        IndexBuilder::Scope scope(ix);
        return tileOfRound(v[0]) < tiles;
      },
      [&](llvm::ArrayRef<Val> v) {
        IndexBuilder::Scope scope(ix);
        return body(decode(tileOfRound(v[0])), v);
      });
}

/// Keys run one block ahead of values.
void PrefillTemplate::produce() {
  prefetchMap(k, f.maps[0]);
  prefetchMap(k, f.maps[1]);
  eachTile({k.i32(0)}, [&](const Tile &tile, llvm::ArrayRef<Val> v) {
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

/// Two pieces of 8 elements of a query row, half a row apart (a rotation reads
/// the same elements for both), through the group's prologue; with them, where
/// they go in the swizzled half at `base`. Rows past the end repeat the last.
void PrefillTemplate::takePieces(const Tile &tile, const Half &half, Val base,
                                 Val number, Pieces &pieces) {
  unsigned perRow = depth / 16;
  Val row = divide(number, perRow), piece = remainder(number, perRow);
  Val global = k.min(half.row + row, rows - 1);
  for (unsigned which : {0, 1}) {
    Val chunk = piece + int64_t(which) * perRow;
    Indices at{index(tile.batch), index(half.head), index(global),
               ix.index(Value(k.toIndex(chunk << 3)), 1, 8)};
    group.setWidth(8);
    Val x = k.round(k.wrap(group.emitVector(op.getQuery(), at)), element);
    group.setWidth(1);
    Val to =
        ((chunk >> 3) << 13) + (row << 7) + (((chunk & 7) ^ (row & 7)) << 4);
    pieces.push_back({x, k.at(base, to)});
  }
}

void PrefillTemplate::storePieces(const Pieces &pieces) {
  for (auto [x, to] : pieces)
    k.store(x, to, k.i64(0), {16, false});
}

/// The queries of a consumer's half of a tile.
void PrefillTemplate::loadQueries(const Tile &tile, const Half &half,
                                  Val buffer) {
  Val base = queryBase(buffer, consumer), thread = opaque(k, threadInGroup(k));
  unsigned total = 64 * (depth / 16), batch = 4 * kWarpgroup;
  auto load = [&] {
    for (unsigned start = 0; start < total; start += batch) {
      // All loads of a batch are under way before the first is stored.
      Pieces pieces;
      for (unsigned i = start; i < std::min(total, start + batch);
           i += kWarpgroup) {
        Val number = thread + int64_t(i);
        if (total % kWarpgroup)
          number = k.min(number, k.i32(total - 1));
        takePieces(tile, half, base, number, pieces);
      }
      storePieces(pieces);
    }
  };
  f.whenAligned(load, load);
  fenceForAsync(k);
  meet(k, consumer + 4, kWarpgroup);
}

/// The queries of a later tile, by the producer's other warps, while consumers
/// are at the one before.
void PrefillTemplate::fetchQueries(Val round) {
  unsigned total = 64 * (depth / 16);
  Val buffer = bufferOf(round);
  Tile tile = decode(tileOfRound(round));
  queryEmpty(round).wait(((round >> 1) & 1) ^ 1);
  auto load = [&] {
    k.loop(k.i32(0), k.i32(llvm::divideCeil(total, kHelpers)), k.i32(1),
           [&](Val i) {
             IndexBuilder::Scope scope(ix);
             Val number = i * int64_t(kHelpers) + (threadInGroup(k) - 32);
             number = k.min(number, k.i32(total - 1));
             Pieces pieces;
             for (unsigned which : {0, 1})
               takePieces(tile, halfOf(tile, k.i32(which)),
                          queryBase(buffer, k.i32(which)), number, pieces);
             storePieces(pieces);
           });
  };
  f.whenAligned(load, load);
  fenceForAsync(k);
  queryFull(round).arrive();
}

/// Values behind the last key may be anything, and NaN times zero is NaN.
void PrefillTemplate::clearBehind(Val valid, Val count, Val parity) {
  uncleared(count).wait(parity);
  Val base =
      k.at(k.dynamicShared(p.value), slot(count) * int64_t(p.blockBytes()));
  Type four = VectorType::get({4}, k.builder().getI32Type());
  int64_t perRow = 8 * p.columnBoxes, total = p.blockKeys * perRow;
  Val from = max(valid, k.i32(0)) * perRow;
  k.loop(from + (threadInGroup(k) - 32), k.i32(total), k.i32(kHelpers),
         [&](Val i) {
           IndexBuilder::Scope scope(ix);
           Val row = divide(i, perRow), piece = remainder(i, perRow);
           // [64 rows][box][row][piece]
           Val at = ((row >> 6) * int64_t(p.columnBoxes) + (piece >> 3)) << 13;
           Val to = k.at(base, at + ((row & 63) << 7) + ((piece & 7) << 4));
           k.store(k.constant(four, 0), to, k.i64(0), {16, false});
         });
  fenceForAsync(k);
  meet(k, k.i32(kConsumers + 4), kHelpers);
  k.when(threadInGroup(k) == 32, [&] { valueFull(count).arrive(); });
}

/// The producer's other warps.
void PrefillTemplate::help() {
  // Round, blocks so far, parities of the two barriers of values to clear.
  eachTile({k.i32(0), k.i32(0)}, [&](const Tile &tile, llvm::ArrayRef<Val> v) {
    Val valid = validKeys(tile.lastBlock());
    Val isFirst = slot(v[1]) == 0;
    Vals parities = k.choose(
        valid < int64_t(p.blockKeys),
        [&] {
          IndexBuilder::Scope scope(ix);
          clearBehind(valid, v[1], k.select(isFirst, v[2] & 1, v[2] >> 1));
          return Vals{v[2] ^ k.select(isFirst, k.i32(1), k.i32(2))};
        },
        [&] { return Vals{v[2]}; });
    if (alternates())
      k.when(tileOfRound(v[0] + 1) < tiles, [&] {
        IndexBuilder::Scope scope(ix);
        fetchQueries(v[0] + 1);
      });
    return Vals{v[0] + 1, v[1] + tile.blocks, parities[0]};
  });
}

/// S = Q K^T of one block, committed.
Val PrefillTemplate::keyProduct(Val buffer, Val count) {
  Val query = descriptorWord(shared + int64_t(p.query / 16) +
                                 buffer * int64_t(p.halfBytes() / 8) +
                                 consumer * int64_t(p.halfBytes() / 16),
                             Major::K);
  Val key = descriptorWord(shared + int64_t(p.key / 16) +
                               slot(count) * int64_t(p.blockBytes() / 16),
                           Major::K);
  Val s = scoreProduct.undefined();
  for (unsigned i = 0; i < depth / 16; ++i) {
    int64_t step = (i & 3) * kernels::descriptorDepthStep(Major::K);
    int64_t box = i >> 2;
    s = scoreProduct.multiply(
        s, wholeDescriptor(k, query + (box * (64 * 128 >> 4) + step), Major::K),
        wholeDescriptor(k,
                        key + (box * (int64_t(p.blockKeys) * 128 >> 4) + step),
                        Major::K),
        Major::K, Major::K, i ? Wgmma::Start::Accumulate : Wgmma::Start::Fresh);
  }
  wgmmaCommit(k);
  return s;
}

/// O += P V of one block, committed.
Val PrefillTemplate::valueProduct(Val out, llvm::ArrayRef<Val> weights,
                                  Val count) {
  Val value = descriptorWord(shared + int64_t(p.value / 16) +
                                 slot(count) * int64_t(p.blockBytes() / 16),
                             Major::MN);
  for (unsigned i = 0; i < p.blockKeys / 16; ++i) {
    int64_t at = (i >> 2) * (int64_t(p.columnBoxes) * 64 * 128 >> 4) +
                 (i & 3) * kernels::descriptorDepthStep(Major::MN);
    out = sumProduct.multiply(out, weights.slice(4 * i, 4),
                              wholeDescriptor(k, value + at, Major::MN),
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

/// Four registers of each thread of a quad, transposed: the thread's number
/// takes the place of the register's.
static Vals transposeQuad(KernelBuilder &k, Vals v) {
  for (unsigned bit : {1, 2}) {
    Val odd = (k.lane() & int64_t(bit)) == int64_t(bit);
    for (unsigned i = 0; i < 4; ++i) {
      if (i & bit)
        continue;
      Val &low = v[i], &high = v[i | bit];
      Val other = shuffleXor(k, k.select(odd, low, high), bit);
      low = k.select(odd, other, low);
      high = k.select(odd, high, other);
    }
  }
  return v;
}

/// The half's results, divided, out by the group's epilogue. The threads of a
/// quad hold pairs of a row: they trade them for pieces of 8 elements.
void PrefillTemplate::storeOut(Val out, Sums &sums, const Tile &tile,
                               const Half &half) {
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
  unsigned blocks = depth / 8;
  Vals pieces[2];
  for (unsigned block = 0; block < blocks; block += 4)
    for (unsigned r : {0, 1}) {
      Vals pairs;
      for (unsigned i = block; i < block + 4; ++i)
        pairs.push_back(i < blocks ? pack2(k, element, o[4 * i + 2 * r],
                                           o[4 * i + 2 * r + 1])
                                   : k.i32(0));
      pieces[r].push_back(k.bitcast(k.vector(transposeQuad(k, pairs)),
                                    VectorType::get({8}, element)));
    }
  auto store = [&] {
    for (unsigned r : {0, 1})
      storeRow(pieces[r], tile, half, half.myRow + int64_t(8) * r);
  };
  f.whenAligned(store, store);
}

void PrefillTemplate::storeRow(llvm::ArrayRef<Val> pieces, const Tile &tile,
                               const Half &half, Val row) {
  Val mine = k.lane() & 3;
  k.when(row < rows, [&] {
    for (auto [i, piece] : llvm::enumerate(pieces)) {
      auto store = [&, x = piece, block = int64_t(4 * i)] {
        IndexBuilder::Scope scope(ix);
        Indices at{index(tile.batch), index(half.head), index(row),
                   ix.index(Value(k.toIndex((mine + block) << 3)), 1, 8)};
        scores.store(k.extend(x), at, 8);
      };
      // The last four blocks may be two.
      if (depth / 8 >= 4 * (i + 1))
        store();
      else
        k.when(mine < int64_t(depth / 8 - 4 * i), store);
    }
  });
}

void PrefillTemplate::consume(Val number) {
  consumer = number;
  if (!queriesAreInvariant())
    waitForPrevious();
  Val zero = k.i32(0);
  // Scores of a tile's first block, under way.
  auto start = [&](Val round, Val count) {
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
        Tile tile = decode(tileOfRound(zero));
        loadQueries(tile, halfOf(tile), zero);
        if (queriesAreInvariant())
          waitForPrevious();
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
        // The last products of queries are done.
        if (alternates())
          queryEmpty(round).arrive();
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
          if (!alternates()) {
            Val done = wgmmaWait(k, 0, {out})[0];
            release(valueEmpty(last));
            storeOut(done, sums, tile, half);
            Tile following = decode(tileOfRound(next));
            loadQueries(following, halfOf(following), zero);
            return Vals{arrive(start(next, sums.count), sums.count)};
          }
          queryFull(next).wait(parityOfFill(next));
          Val product = start(next, sums.count);
          Val done = wgmmaWait(k, 1, {out})[0];
          release(valueEmpty(last));
          storeOut(done, sums, tile, half);
          return Vals{arrive(product, sums.count)};
        };
        auto end = [&] {
          IndexBuilder::Scope scope(ix);
          storeOut(wgmmaWait(k, 0, {out})[0], sums, tile, half);
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
  if (kernels::isProgrammatic(f.kernel))
    k.releaseNext();
  k.when(k.thread() == 0, [&] {
    for (unsigned which = 0; which < 4; ++which)
      for (unsigned stage = 0; stage < p.stages; ++stage)
        barriers(which).at(k, stage).init(which % 2 ? 4 * kConsumers : 1);
    for (unsigned buffer : {0, 1}) {
      barriers(4).at(k, buffer).init(kHelpers);
      barriers(5).at(k, buffer).init(kConsumers * kWarpgroup);
      barriers(6).at(k, buffer).init(1);
    }
    fenceBarrierInit(k);
  });
  setUp();
  k.barrier();
  // In all no more than 384 threads start with, 168 each: else the consumers
  // wait for registers for ever.
  RoleRegisters registers =
      alternates() ? RoleRegisters{56, 224} : RoleRegisters{24, 240};
  splitWarpgroups(
      k, registers,
      [&] {
        IndexBuilder::Scope scope(ix);
        waitForPrevious();
        k.whenElse(
            uniform(k, warpInGroup(k)) == 0,
            [&] {
              IndexBuilder::Scope scope(ix);
              k.when(elect(k), [&] { produce(); });
            },
            [&] {
              IndexBuilder::Scope scope(ix);
              help();
            });
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
