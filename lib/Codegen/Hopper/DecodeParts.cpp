//===- DecodeParts.cpp - Decode attention: warps and parts meet -----------===//

#include "AttentionDecode.h"
#include "Warpgroup.h"

#include "fusion/Artifact/HostABI.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;

//===----------------------------------------------------------------------===//
// Warps meet
//===----------------------------------------------------------------------===//

/// The warp's sums into shared memory, [warp][query][D] and [warp][query].
void DecodeTemplate::finishPart(const Item &item, Val number, Sums &sums) {
  // The words of the part before have been read.
  k.barrier();
  for (Val &w : sums.weight)
    for (unsigned mask = 4; mask < 32; mask *= 2)
      w = w + shuffleXor(k, w, mask);
  ImplicitLocOpBuilder &b = k.builder();
  Val mine = warp * (p.queries * depth * 4);
  unsigned perTile = 16 * valueChunks;
  for (unsigned tile = 0; tile < tiles; ++tile)
    for (unsigned q = 0; q < 2; ++q) {
      Val number = t * 2 + (int64_t(8) * tile + q);
      k.when(number < k.i32(p.queries), [&] {
        Val row =
            k.at(shared, mine + number * (depth * 4) + int64_t(p.partials));
        for (unsigned j = 0; j < valueChunks; ++j) {
          Val chunk = g + (int64_t(8) * j);
          auto store = [&] {
            Val to = k.at(row, chunk * 32);
            for (unsigned half = 0; half < 2; ++half) {
              SmallVector<Value> four;
              for (unsigned i : {0, 1})
                for (unsigned high : {0, 2})
                  four.push_back(
                      sums.out[tile * perTile + 4 * (4 * j + 2 * half + i) +
                               high + q]);
              Val v = k.wrap(vector::FromElementsOp::create(
                  b, cast<VectorType>(vectorOf(4, f32)), four));
              k.store(v, k.at(to, 16 * half), k.i64(0), {16, false});
            }
          };
          if ((int64_t(8) * (j + 1)) <= chunks)
            store();
          else
            k.when(chunk < k.i32(chunks), store);
        }
        k.when(g == k.i32(0), [&] {
          Val to = k.at(shared, (warp * (int64_t(8) * tiles) + number) * 8 +
                                    int64_t(p.maxima));
          SmallVector<Value> two{sums.top[2 * tile + q],
                                 sums.weight[2 * tile + q]};
          Val v = k.wrap(vector::FromElementsOp::create(
              b, cast<VectorType>(vectorOf(2, f32)), two));
          k.store(v, to, k.i64(0), {8, false});
        });
      });
    }
  k.barrier();
  combineWarps(item, number);
}

/// Word w: results 2 w and 2 w + 1 of [query][D].
void DecodeTemplate::combineWarps(const Item &item, Val number) {
  Type pair = vectorOf(2, f32);
  k.loop(thread, k.i32(p.words), k.i32(p.warps * 32), [&](Val word) {
    IndexBuilder::Scope scope(ix);
    Val query = dividedBy(word, depth / 2);
    Vals stats;
    Val top = k.f32(kLowest);
    for (unsigned w = 0; w < p.warps; ++w) {
      Val s = loadShared(k.at(shared, (query + (int64_t(w) * 8 * tiles)) * 8 +
                                          int64_t(p.maxima)),
                         pair, 8);
      stats.push_back(s);
      top = maximum(k, top, k.extract(s, 0));
    }
    Val weight = k.f32(0), x = k.f32(0), y = k.f32(0);
    for (unsigned w = 0; w < p.warps; ++w) {
      Val factor = exp2Fast(k, k.extract(stats[w], 0) - top);
      Val v =
          loadShared(k.at(shared, word * 8 + int64_t(w * p.queries * depth * 4 +
                                                     p.partials)),
                     pair, 8);
      weight = fma(k, factor, k.extract(stats[w], 1), weight);
      x = fma(k, factor, k.extract(v, 0), x);
      y = fma(k, factor, k.extract(v, 1), y);
    }
    Val blind = weight == k.f32(0);
    Val instead = scores.blindValue();
    x = k.select(blind, instead, divideFast(k, x, weight));
    y = k.select(blind, instead, divideFast(k, y, weight));
    auto whole = [&] { storePair(item, word, x, y); };
    if (p.parts == 1)
      return whole();
    Val lse = k.select(blind, k.f32(-INFINITY), top + log2Fast(k, weight));
    k.whenElse(item.used == k.i32(1), whole, [&] {
      Val none = k.f32(0);
      publish(number, word, k.select(blind, none, x), k.select(blind, none, y),
              lse);
    });
  });
}

void DecodeTemplate::storePair(const Item &item, Val word, Val x, Val y) {
  Val query = dividedBy(word, depth / 2),
      column = remainder(word, depth / 2) * 2;
  Val head = item.head * a.group + dividedBy(query, p.rows);
  Indices at{index(item.batch), index(head), index(remainder(query, p.rows)),
             ix.index(Value(k.toIndex(column)), 1, 2)};
  Val v = k.wrap(vector::FromElementsOp::create(
      k.builder(), cast<VectorType>(vectorOf(2, f32)), ArrayRef<Value>{x, y}));
  auto store = [&] { scores.store(v, at, 2); };
  f.whenAligned(store, store);
}

//===----------------------------------------------------------------------===//
// Parts meet
//===----------------------------------------------------------------------===//

void DecodeTemplate::publish(Val number, Val word, Val x, Val y, Val weight) {
  Val to = k.at(f.counters, k.toI64(number * p.words + word) * 16);
  ptx(k, {}, "st.relaxed.gpu.global.v4.b32 [$0], {$1,$2,$3,$4};", "l,r,r,r,r",
      {to, bitcast(k, x, i32), bitcast(k, y, i32), bitcast(k, weight, i32),
       epoch});
}

/// The three values of a word, once it carries this run's number.
Val DecodeTemplate::poll(Val pointer, Val expected) {
  auto read = [&] {
    return ptx(k, {i32, i32, i32, i32},
               "ld.relaxed.gpu.global.v4.b32 {$0,$1,$2,$3}, [$4];",
               "=r,=r,=r,=r,l", {pointer});
  };
  Vals init = read();
  init.push_back(k.i32(0));
  Vals found = whileLoop(
      k, init,
      [&](llvm::ArrayRef<Val> v) {
        Val other =
            k.wrap(arith::CmpIOp::create(k.builder(), arith::CmpIPredicate::ne,
                                         Value(v[3]), Value(expected)));
        return other && (v[4] < k.i32(kPatience));
      },
      [&](llvm::ArrayRef<Val> v) {
        Vals next = read();
        next.push_back(v[4] + 1);
        return next;
      });
  k.when(found[4] == k.i32(kPatience), [&] { reportStall(); });
  SmallVector<Value> four(found.begin(), found.begin() + 4);
  return k.wrap(vector::FromElementsOp::create(
      k.builder(), cast<VectorType>(vectorOf(4, i32)), four));
}

void DecodeTemplate::reportStall() {
  Val address = k.load(f.sizes, k.i64(f.kernel.getNumSizes() + 1),
                       k.builder().getI64Type(), {8, true});
  Val pointer = k.wrap(LLVM::IntToPtrOp::create(
      k.builder(), LLVM::LLVMPointerType::get(k.builder().getContext(), 1),
      Value(address)));
  k.store(k.i32(kHostStalled), pointer, k.i64(0), {4, false});
}

/// This part's share of the segment's words, from all parts.
void DecodeTemplate::combineParts(const Item &item, Val number) {
  Val first = dividedBy(item.part * p.words, item.used);
  Val count = dividedBy((item.part + 1) * p.words, item.used) - first;
  Val sequence = number - item.part;
  Val buffer = k.at(shared, p.partials);
  Type four = vectorOf(4, i32);
  k.barrier();
  k.loop(thread, count * item.used, k.i32(p.warps * 32), [&](Val i) {
    Val part = dividedBy(i, count), word = first + remainder(i, count);
    Val from =
        k.at(f.counters, k.toI64((sequence + part) * p.words + word) * 16);
    k.store(poll(from, epoch), k.at(buffer, i * 16), k.i64(0), {16, false});
  });
  k.barrier();
  k.loop(thread, count, k.i32(p.warps * 32), [&](Val i) {
    IndexBuilder::Scope scope(ix);
    auto at = [&](Val part) {
      Val v = loadShared(k.at(buffer, (part * count + i) * 16), four, 16);
      Vals result;
      for (unsigned j = 0; j < 3; ++j)
        result.push_back(bitcast(k, k.extract(v, j), f32));
      return result;
    };
    Val zero = k.f32(0), one = k.i32(1);
    Val top = k.loop(k.i32(0), item.used, one, {k.f32(kLowest)},
                     [&](Val part, llvm::ArrayRef<Val> v) {
                       return Vals{maximum(k, v[0], at(part)[2])};
                     })[0];
    Vals sums = k.loop(k.i32(0), item.used, one, {zero, zero, zero},
                       [&](Val part, llvm::ArrayRef<Val> v) {
                         Vals w = at(part);
                         Val factor = exp2Fast(k, w[2] - top);
                         return Vals{fma(k, factor, w[0], v[0]),
                                     fma(k, factor, w[1], v[1]), v[2] + factor};
                       });
    Val blind = sums[2] == zero;
    Val instead = scores.blindValue();
    storePair(item, first + i,
              k.select(blind, instead, divideFast(k, sums[0], sums[2])),
              k.select(blind, instead, divideFast(k, sums[1], sums[2])));
  });
}
