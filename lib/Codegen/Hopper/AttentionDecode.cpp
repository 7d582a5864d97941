//===- AttentionDecode.cpp - Template: few queries over a long cache ------===//
//
// The keys of a segment (one sequence, one KV head) are split into parts, one
// a block. Warp w of W treats the part's units of 16 keys w, w + W, ...; its
// lane 0 copies them ahead into a ring of the warp's own, so that the loop has
// no barrier of the block. With keys as the wide side of the products,
//
//   scores^T [16 keys x 8 queries] = K [16 x D] Q^T,  sums^T [D x 8] = V^T P^T
//
// a fragment of K or V is plain 16-byte reads of its rows: the contracted index
// is permuted alike on both sides. Lane 4 g + t holds, of 8 queries, number g
// on the way in, and numbers 2 t and 2 t + 1 of scores and sums.
//
// Warps meet in shared memory. Parts meet through 16-byte words {two sums,
// log2 of the weight, number of the run} in memory of the launch's own: each
// part publishes its words, then polls for its share of the others' and writes
// those results. All blocks are resident, all publish before they poll.
//
// Where the kernel appends this step's rows itself, blocks that have them take
// them from the group's prologue, write them to the caches and put them into
// the ring; all that is copied is older, so copies start before the wait for
// the kernel before.
//
//===----------------------------------------------------------------------===//

#include "AttentionDecode.h"
#include "Warpgroup.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using kernels::kDecodeUnit;

void DecodeTemplate::setUp() {
  ImplicitLocOpBuilder &b = k.builder();
  i32 = b.getI32Type();
  f32 = b.getF32Type();
  thread = k.thread();
  warp = uniform(k, k.warp());
  lane = k.lane();
  g = k.wrap(arith::ShRUIOp::create(b, Value(lane), Value(k.i32(2))));
  t = k.wrap(arith::AndIOp::create(b, Value(lane), Value(k.i32(3))));
  shared = k.dynamicShared();
  keys = size(a.keys);
  copied = a.appendKey ? size(a.past) : keys;
  segments = size(a.batch * SymExpr(a.kvHeads));
  blocks = k.blocks();
  if (p.parts) {
    parts = k.i32(p.parts);
  } else {
    Val one = k.i32(1);
    parts = dividedBy(k.i32(kernels::kDecodeBlocks), max(segments, one));
    parts = k.min(max(parts, one), k.i32(kernels::kDecodeParts));
  }
  items = segments * parts;
  keyPointer = f.target->pointers[a.key.argument.getArgNumber()];
  valuePointer = f.target->pointers[a.value.argument.getArgNumber()];
  Type i64 = b.getI64Type();
  Value low = arith::OrIOp::create(
      b, Value(LLVM::PtrToIntOp::create(b, i64, Value(keyPointer))),
      Value(LLVM::PtrToIntOp::create(b, i64, Value(valuePointer))));
  low = arith::AndIOp::create(b, low, Value(k.i64(15)));
  aligned = k.wrap(low) == k.i64(0);
  if (f.counters)
    epoch =
        k.toI32(k.load(f.sizes, k.i64(f.kernel.getNumSizes()), i64, {8, true}));
  Val slots = k.at(shared, warp * (int64_t(p.stages) * p.stageBytes()) +
                               int64_t(p.ring));
  Val barriers =
      k.at(shared, warp * (int64_t(p.stages) * 8) + int64_t(p.barriers));
  ring.emplace(k, barriers, slots, p.stages, p.stageBytes());
  ring->initialize(lane);
}

//===----------------------------------------------------------------------===//
// Who does what
//===----------------------------------------------------------------------===//

DecodeTemplate::Item DecodeTemplate::itemAt(Val number) {
  Item item;
  item.segment = dividedBy(number, parts);
  item.part = remainder(number, parts);
  item.batch = dividedBy(item.segment, a.kvHeads);
  item.head = remainder(item.segment, a.kvHeads);
  Val begin = k.i32(0), end = keys;
  if (op.getMaskedRows() != "uniform" || a.everyRowSees()) {
    // What the first row does not see to its left and the last to its right.
    begin = max(scores.leftLimit(k.i32(0)), k.i32(0));
    end = k.min(max(scores.rightLimit(k.i32(p.rows - 1), item.batch), k.i32(0)),
                keys);
  }
  Val from = dividedBy(begin, kDecodeUnit);
  Val to = max(dividedBy(end + (kDecodeUnit - 1), kDecodeUnit), from);
  Val units = to - from;
  // A unit for each warp before there is another part.
  Val wanted = dividedBy(units + int64_t(p.warps - 1), int64_t(p.warps));
  item.used = k.min(parts, max(wanted, k.i32(1)));
  item.first = from + dividedBy(units * item.part, item.used);
  item.last = from + dividedBy(units * (item.part + 1), item.used);
  Val idle = item.used < item.part + 1;
  item.last = k.select(idle, item.first, item.last);
  return item;
}

/// The warp's first unit of an item.
DecodeTemplate::Ahead DecodeTemplate::startAt(Val number) {
  Item item = itemAt(number);
  auto base = [&](const kernels::StridedView &view) {
    Val at = k.toI64(item.batch) * k.toI64(k.wrap(ix.size(view.strides[0]))) +
             k.toI64(item.head) * k.toI64(k.wrap(ix.size(view.strides[1])));
    return at + k.toI64(k.wrap(ix.size(view.offset)));
  };
  return {number,      item.first + warp, item.last,
          base(a.key), base(a.value),     Val()};
}

/// The next item in which the warp has a unit, or the first one past the end.
DecodeTemplate::Ahead DecodeTemplate::nextItem(const Ahead &at) {
  IndexBuilder::Scope scope(ix);
  Ahead start = at;
  start.unit = start.last = k.i32(0);
  Vals found = whileLoop(
      k, start.flat(),
      [&](llvm::ArrayRef<Val> v) {
        Ahead here = Ahead::from(v);
        Val empty =
            k.wrap(arith::CmpIOp::create(k.builder(), arith::CmpIPredicate::sge,
                                         Value(here.unit), Value(here.last)));
        return (here.item < items) && empty;
      },
      [&](llvm::ArrayRef<Val> v) {
        IndexBuilder::Scope scope(ix);
        Ahead next = startAt(v[0] + blocks);
        next.count = v[5];
        return next.flat();
      });
  return Ahead::from(found);
}

//===----------------------------------------------------------------------===//
// Copies into the ring
//===----------------------------------------------------------------------===//

void DecodeTemplate::copyRows(const Ahead &at, Val slot, Val rows) {
  int64_t rowBytes = depth * 2;
  Val first = k.toI64(at.unit * kDecodeUnit);
  auto source = [&](const kernels::StridedView &view, Val pointer, Val base,
                    Val row) {
    Val offset =
        base + (first + row) * k.toI64(k.wrap(ix.size(view.strides[2])));
    return k.at(pointer, offset * 2);
  };
  Barrier barrier = ring->barrier(at.count);
  Val bytes = rows * int64_t(2 * rowBytes);
  Val valueSlot = k.at(slot, int64_t(kDecodeUnit * rowBytes));
  auto bulkCopy = [&](Val to, Val from, Val bytes, Barrier barrier) {
    loadBytes(k, from, to, bytes, barrier, CachePolicy::EvictFirst);
  };
  auto bulk = [&] {
    if (p.contiguous) {
      k.when(lane == k.i32(0), [&] {
        barrier.arriveExpect(bytes);
        k.when(k.i32(0) < rows, [&] {
          Val half = rows * rowBytes;
          bulkCopy(slot, source(a.key, keyPointer, at.key, k.i64(0)), half,
                   barrier);
          bulkCopy(valueSlot, source(a.value, valuePointer, at.value, k.i64(0)),
                   half, barrier);
        });
      });
      return;
    }
    k.when(lane == k.i32(0), [&] { barrier.arriveExpect(bytes); });
    syncWarp(k);
    k.when(lane < rows, [&] {
      Val row = k.toI64(lane), width = k.i32(rowBytes);
      bulkCopy(k.at(slot, lane * rowBytes),
               source(a.key, keyPointer, at.key, row), width, barrier);
      bulkCopy(k.at(valueSlot, lane * rowBytes),
               source(a.value, valuePointer, at.value, row), width, barrier);
    });
  };
  // At odd addresses: element by element.
  auto plain = [&] {
    Type bits = k.builder().getI16Type();
    k.loop(lane, rows * depth, k.i32(32), [&](Val i) {
      Val row = k.toI64(dividedBy(i, depth)),
          column = k.toI64(remainder(i, depth));
      Val to = k.toI64(i);
      Val key = source(a.key, keyPointer, at.key, row);
      Val value = source(a.value, valuePointer, at.value, row);
      k.store(k.load(key, column, bits, {}), slot, to, {});
      k.store(k.load(value, column, bits, {}), valueSlot, to, {});
    });
    syncWarp(k);
    k.when(lane == k.i32(0), [&] { barrier.arrive(); });
  };
  k.whenElse(aligned, bulk, plain);
}

DecodeTemplate::Ahead DecodeTemplate::copyAhead(const Ahead &at) {
  Vals next = choose(
      k, at.item < items,
      [&] {
        IndexBuilder::Scope scope(ix);
        Val rows =
            max(k.min(copied - at.unit * kDecodeUnit, k.i32(kDecodeUnit)),
                k.i32(0));
        copyRows(at, ring->slot(at.count), rows);
        Ahead next = at;
        next.unit = at.unit + int64_t(p.warps);
        next.count = at.count + 1;
        Vals same = next.flat();
        return choose(
            k, next.unit < next.last, [&] { return same; },
            [&] { return nextItem(next).flat(); });
      },
      [&] { return at.flat(); });
  return Ahead::from(next);
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

/// The queries of the KV head, as the group's prologue has them, in 16 bits
/// into shared memory.
void DecodeTemplate::loadQueries(const Item &item) {
  Val to = k.at(shared, p.query);
  auto load = [&] {
    int64_t total = p.queries * chunks;
    k.loop(thread, k.i32(total), k.i32(p.warps * 32), [&](Val i) {
      IndexBuilder::Scope scope(ix);
      Val query = dividedBy(i, chunks), chunk = remainder(i, chunks);
      Val head = item.head * a.group + dividedBy(query, p.rows);
      Indices at{index(item.batch), index(head),
                 index(remainder(query, p.rows)),
                 ix.index(Value(k.toIndex(chunk * 8)), 1, 8)};
      group.setWidth(8);
      Val x = k.wrap(group.emitVector(op.getQuery(), at));
      group.setWidth(1);
      k.store(k.round(x, element), to, i * 8, {16, false});
    });
  };
  f.whenAligned(load, load);
}

/// This step's rows of keys and values, where the part has them: to the caches
/// and to shared memory. By other warps than the queries.
void DecodeTemplate::loadFresh(const Item &item) {
  int64_t total = p.rows * chunks, threads = p.warps * 32;
  auto load = [&](KvAppendOp append, const kernels::StridedView &view,
                  unsigned result, unsigned number) {
    Val to = k.at(shared, int64_t(p.fresh) + number * p.rows * depth * 2);
    Val cache =
        f.target->pointers[f.kernel.getBlock()->getNumArguments() + result];
    Val first = (thread + int64_t(threads / 4 * (1 + number))) % threads;
    k.loop(first, k.i32(total), k.i32(threads), [&](Val i) {
      IndexBuilder::Scope scope(ix);
      Val row = dividedBy(i, chunks), chunk = remainder(i, chunks);
      Val position = copied + row, unit = dividedBy(position, kDecodeUnit);
      k.when(!(unit < item.first) && unit < item.last, [&] {
        IndexBuilder::Scope scope(ix);
        Index column = ix.index(Value(k.toIndex(chunk * 8)), 1, 8);
        group.setWidth(8);
        Val x = k.wrap(group.emitVector(
            append.getUpdate(),
            {index(item.batch), index(item.head), index(row), column}));
        group.setWidth(1);
        x = k.round(x, element);
        k.store(x, to, i * 8, {16, false});
        Index offset = ix.scale(index(item.batch), view.strides[0]);
        offset = ix.add(offset, ix.scale(index(item.head), view.strides[1]));
        offset = ix.add(offset, ix.scale(index(position), view.strides[2]));
        offset = ix.add(offset, column);
        unsigned alignment = f.target->aligned ? 16 : 2;
        k.store(x, cache, k.wrap(offset.base), {alignment, false});
      });
    });
  };
  auto both = [&] {
    load(a.appendKey, a.key, a.keyResult, 0);
    load(a.appendValue, a.value, a.valueResult, 1);
  };
  f.whenAligned(both, both);
}

/// Bytes 16 c of a row for chunks first, first + step, ...; zeros past its end.
Vals DecodeTemplate::loadChunks(Val row, unsigned count, unsigned step,
                                Val first) {
  Vals words;
  Type type = vectorOf(4, i32);
  Val from = k.at(row, first * 16);
  for (unsigned j = 0; j < count; ++j) {
    Val x = loadShared(k.at(from, int64_t(j) * step * 16), type, 16);
    if (int64_t(j + 1) * step > chunks)
      x = k.select(first + (int64_t(j) * step) < k.i32(chunks), x,
                   k.constant(type, 0));
    for (unsigned i = 0; i < 4; ++i)
      words.push_back(k.extract(x, i));
  }
  return words;
}

Vals DecodeTemplate::queryFragments() {
  Vals all;
  Val zero = k.i32(0);
  for (unsigned tile = 0; tile < tiles; ++tile) {
    Val number = g + (int64_t(8) * tile);
    Val real = number < k.i32(p.queries);
    Val row = k.at(shared, k.select(real, number, zero) * (depth * 2) +
                               int64_t(p.query));
    for (Val word : loadChunks(row, keyChunks, 4, t))
      all.push_back(k.select(real, word, zero));
  }
  return all;
}

//===----------------------------------------------------------------------===//
// One unit
//===----------------------------------------------------------------------===//

/// [query tile][4]: keys g and g + 8, queries 2 t and 2 t + 1.
Vals DecodeTemplate::unitScores(Val stage, llvm::ArrayRef<Val> query) {
  Val row = k.at(stage, g * (depth * 2));
  Vals low = loadChunks(row, keyChunks, 4, t);
  Vals high = loadChunks(k.at(row, 8 * depth * 2), keyChunks, 4, t);
  Vals result;
  unsigned perTile = 4 * keyChunks;
  for (unsigned tile = 0; tile < tiles; ++tile) {
    // Two chains: half the latency.
    Vals even(4, k.f32(0)), odd(4, k.f32(0));
    for (unsigned j = 0; j < perTile; j += 2) {
      Vals &chain = j % 4 ? odd : even;
      const Val *q = query.data() + tile * perTile + j;
      chain =
          mma16x8x16(k, element, chain,
                     {low[j], high[j], low[j + 1], high[j + 1]}, q[0], q[1]);
    }
    for (unsigned i = 0; i < 4; ++i)
      result.push_back(even[i] + odd[i]);
  }
  return result;
}

/// Scores of a tile become weights; sums shrink where a maximum grew.
void DecodeTemplate::softmax(Sums &sums, llvm::MutableArrayRef<Val> score,
                             unsigned tile) {
  Vals top;
  for (unsigned q = 0; q < 2; ++q) {
    Val m = maximum(k, score[q], score[2 + q]);
    for (unsigned mask = 4; mask < 32; mask *= 2)
      m = maximum(k, m, shuffleXor(k, m, mask));
    top.push_back(maximum(k, m, sums.top[2 * tile + q]));
  }
  Val *oldTop = sums.top.data() + 2 * tile,
      *weight = sums.weight.data() + 2 * tile;
  Val grew = voteAny(k, greater(k, top[0], oldTop[0]) ||
                            greater(k, top[1], oldTop[1]));
  unsigned perTile = sums.out.size() / tiles;
  llvm::MutableArrayRef<Val> out(sums.out.data() + tile * perTile, perTile);
  Vals kept(out.begin(), out.end());
  kept.push_back(weight[0]);
  kept.push_back(weight[1]);
  Vals scaled = choose(
      k, grew,
      [&] {
        Vals factor;
        for (unsigned q = 0; q < 2; ++q)
          factor.push_back(exp2Fast(k, oldTop[q] - top[q]));
        Vals next;
        for (auto [i, v] : llvm::enumerate(kept))
          next.push_back(v * factor[i % 2]);
        return next;
      },
      [&] { return kept; });
  std::copy(scaled.begin(), scaled.begin() + perTile, out.begin());
  for (unsigned q = 0; q < 2; ++q) {
    oldTop[q] = top[q];
    for (unsigned i : {q, 2 + q})
      score[i] = exp2Fast(k, score[i] - top[q]);
    weight[q] = scaled[perTile + q] + (score[q] + score[2 + q]);
  }
}

/// weights: [query tile][2] fragments of P^T.
void DecodeTemplate::addValues(Sums &sums, Val stage,
                               llvm::ArrayRef<Val> weights) {
  SmallVector<Vals> rows;
  for (int64_t row : {0, 1, 8, 9})
    rows.push_back(
        loadChunks(k.at(stage, (t * 2 + (row + kDecodeUnit)) * (depth * 2)),
                   valueChunks, 8, g));
  unsigned perTile = sums.out.size() / tiles;
  for (unsigned i = 0; i < 4 * valueChunks; ++i) {
    Vals v{permute(k, rows[0][i], rows[1][i], 0x5410),
           permute(k, rows[0][i], rows[1][i], 0x7632),
           permute(k, rows[2][i], rows[3][i], 0x5410),
           permute(k, rows[2][i], rows[3][i], 0x7632)};
    for (unsigned tile = 0; tile < tiles; ++tile) {
      Val *out = sums.out.data() + tile * perTile + 4 * i;
      Vals next = mma16x8x16(k, element, llvm::ArrayRef<Val>(out, 4), v,
                             weights[2 * tile], weights[2 * tile + 1]);
      std::copy(next.begin(), next.end(), out);
    }
  }
}

/// Rows that were not copied: those of this step, and behind the last key
/// zeros, since values there are whatever the ring held, and NaN times zero is
/// NaN.
void DecodeTemplate::finishStage(Val stage, Val position) {
  Val valid = keys - position;
  Val values = k.at(stage, int64_t(kDecodeUnit * depth * 2));
  Type type = vectorOf(4, i32);
  k.when(copied - position < int64_t(kDecodeUnit), [&] {
    if (a.appendKey)
      k.loop(lane, k.i32(p.rows * chunks), k.i32(32), [&](Val i) {
        Val row = copied - position + dividedBy(i, chunks);
        Val here = !(row < 0) && row < int64_t(kDecodeUnit);
        k.when(here, [&] {
          Val from = k.at(shared, i * 16 + int64_t(p.fresh));
          Val to = row * (depth * 2) + remainder(i, chunks) * 16;
          Val key = loadShared(from, type, 16);
          Val value = loadShared(k.at(from, p.rows * depth * 2), type, 16);
          k.store(key, k.at(stage, to), k.i64(0), {16, false});
          k.store(value, k.at(values, to), k.i64(0), {16, false});
        });
      });
    k.loop(max(valid, k.i32(0)) * chunks + lane, k.i32(kDecodeUnit * chunks),
           k.i32(32), [&](Val i) {
             k.store(k.constant(type, 0), k.at(values, i * 16), k.i64(0),
                     {16, false});
           });
    fenceForAsync(k);
    syncWarp(k);
  });
}

void DecodeTemplate::addUnit(Sums &sums, Val stage, Val position,
                             const Item &item, llvm::ArrayRef<Val> query) {
  finishStage(stage, position);
  Vals s = unitScores(stage, query);
  Vals weights;
  for (unsigned tile = 0; tile < tiles; ++tile) {
    llvm::MutableArrayRef<Val> mine(s.data() + 4 * tile, 4);
    for (unsigned i = 0; i < 4; ++i) {
      Val number = t * 2 + (int64_t(8) * tile + i % 2);
      AttentionScores::Place at;
      at.batch = item.batch;
      at.head = item.head * a.group + dividedBy(number, p.rows);
      at.row = remainder(number, p.rows);
      if (p.queries % 8) // lanes without a query read any
        at.head = k.min(at.head, k.i32(a.heads - 1));
      at.key = position + g + (int64_t(8) * (i / 2));
      mine[i] = scores.masked(mine[i], at, kLowest);
    }
    softmax(sums, mine, tile);
    for (unsigned half = 0; half < 2; ++half)
      weights.push_back(transpose8x8(
          k, pack2(k, element, mine[2 * half], mine[2 * half + 1])));
  }
  addValues(sums, stage, weights);
}

//===----------------------------------------------------------------------===//
// One part
//===----------------------------------------------------------------------===//

DecodeTemplate::Sums DecodeTemplate::noSums() {
  Sums sums;
  sums.out.assign(tiles * 16 * valueChunks, k.f32(0));
  sums.top.assign(2 * tiles, k.f32(kLowest));
  sums.weight.assign(2 * tiles, k.f32(0));
  return sums;
}

Vals DecodeTemplate::pack(const Sums &sums) const {
  Vals all = sums.out;
  all.append(sums.top);
  all.append(sums.weight);
  return all;
}

DecodeTemplate::Sums DecodeTemplate::unpack(llvm::ArrayRef<Val> v) const {
  Sums sums;
  size_t n = tiles * 16 * valueChunks, m = 2 * tiles;
  sums.out.assign(v.begin(), v.begin() + n);
  sums.top.assign(v.begin() + n, v.begin() + n + m);
  sums.weight.assign(v.begin() + n + m, v.begin() + n + 2 * m);
  return sums;
}

DecodeTemplate::Ahead DecodeTemplate::runItem(const Item &item, Val number,
                                              const Ahead &ahead, Val &used) {
  loadQueries(item);
  if (a.appendKey)
    loadFresh(item);
  k.barrier();
  Vals query = queryFragments();
  Vals carried = pack(noSums());
  size_t count = carried.size();
  carried.append(ahead.flat());
  carried.push_back(used);
  Vals done =
      k.loop(item.first + warp, item.last, k.i32(p.warps), carried,
             [&](Val unit, llvm::ArrayRef<Val> v) {
               IndexBuilder::Scope scope(ix);
               Sums sums = unpack(v.take_front(count));
               Val used = v.back();
               ring->wait(used);
               addUnit(sums, ring->slot(used), unit * kDecodeUnit, item, query);
               syncWarp(k);
               Ahead next = copyAhead(Ahead::from(v.drop_front(count)));
               Vals result = pack(sums);
               result.append(next.flat());
               result.push_back(used + 1);
               return result;
             });
  Sums sums = unpack(llvm::ArrayRef<Val>(done).take_front(count));
  used = done.back();
  finishPart(item, number, sums);
  return Ahead::from(llvm::ArrayRef<Val>(done).drop_front(count));
}

//===----------------------------------------------------------------------===//
// The launch
//===----------------------------------------------------------------------===//

void DecodeTemplate::build() {
  bool programmatic = kernels::isProgrammatic(f.kernel);
  if (programmatic)
    k.releaseNext();
  setUp();
  // What an append in this kernel leaves is older than the step.
  if (programmatic && !a.appendKey)
    k.waitForPrevious();
  Val block = k.block();
  Ahead ahead = startAt(block);
  ahead.count = k.i32(0);
  // A first item without a unit for this warp is passed over.
  Vals first = ahead.flat();
  ahead = Ahead::from(choose(
      k, ahead.unit < ahead.last, [&] { return first; },
      [&] { return nextItem(ahead).flat(); }));
  for (unsigned i = 0; i < p.stages; ++i)
    ahead = copyAhead(ahead);
  if (programmatic && a.appendKey)
    k.waitForPrevious();
  Vals carried = ahead.flat();
  carried.push_back(k.i32(0));
  k.loop(block, items, blocks, carried, [&](Val number, llvm::ArrayRef<Val> v) {
    IndexBuilder::Scope scope(ix);
    Item item = itemAt(number);
    Vals init(v.begin(), v.end());
    return choose(
        k, item.part < item.used,
        [&] {
          IndexBuilder::Scope scope(ix);
          Val used = init.back();
          Vals next = runItem(item, number, Ahead::from(init), used).flat();
          next.push_back(used);
          return next;
        },
        [&] { return init; });
  });
  if (p.parts == 1)
    return;
  k.loop(block, items, blocks, [&](Val number) {
    IndexBuilder::Scope scope(ix);
    Item item = itemAt(number);
    k.when((item.part < item.used) && (k.i32(1) < item.used), [&] {
      IndexBuilder::Scope scope(ix);
      combineParts(item, number);
    });
  });
}

void hopper::buildAttentionDecode(KernelFunction &f) {
  std::string reason;
  auto parameters = kernels::getDecodeAttention(*f.kernel.getBlock(), reason);
  if (!parameters)
    return f.fail(reason);
  DecodeTemplate(f, *parameters).build();
}
