//===- PrefillSoftmax.cpp - Prefill attention: scores to weights ----------===//

#include "AttentionPrefill.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;

//===----------------------------------------------------------------------===//
// Consumers: softmax
//===----------------------------------------------------------------------===//

/// Scores that the rows do not see become minus infinity.
void PrefillTemplate::limit(llvm::MutableArrayRef<Val> s, const Tile &tile,
                            const Half &half, Val block) {
  Val column = block * int64_t(p.blockKeys) + ((k.lane() & 3) << 1);
  if (p.general) {
    for (auto [i, v] : llvm::enumerate(s)) {
      AttentionScores::Place at{tile.batch, half.head,
                                half.myRow + (int64_t(8) * rowOf(i)),
                                column + int64_t(columnOf(i))};
      v = scores.masked(v, at, kLowest);
    }
    return;
  }
  Val never = k.f32(-INFINITY);
  for (unsigned r : {0, 1}) {
    // An opaque copy: the comparisons stay in the loop.
    Val end = opaque(k, half.end[r] - column);
    Val begin;
    if (scores.limitsLeft())
      begin = opaque(k, half.begin[r] - column);
    for (unsigned i = 0; i < s.size(); ++i) {
      if (rowOf(i) != r)
        continue;
      Val here = k.i32(columnOf(i)), seen = here < end;
      if (begin)
        seen = seen && !(here < begin);
      s[i] = k.select(seen, s[i], never);
    }
  }
}

Vals PrefillTemplate::rowMaximum(llvm::ArrayRef<Val> s) {
  // Four chains a row.
  Val chain[2][4];
  for (auto [i, v] : llvm::enumerate(s)) {
    Val &m = chain[rowOf(i)][(i >> 2 & 1) * 2 + (i & 1)];
    m = m ? maximum(k, m, v) : v;
  }
  Vals result;
  for (auto &c : chain) {
    Val m = maximum(k, maximum(k, c[0], c[1]), maximum(k, c[2], c[3]));
    for (unsigned mask : {1, 2})
      m = maximum(k, m, shuffleXor(k, m, mask));
    result.push_back(m);
  }
  return result;
}

/// Scores become weights relative to `top`; their sums in this thread.
void PrefillTemplate::exponentials(llvm::MutableArrayRef<Val> s,
                                   llvm::ArrayRef<Val> top, Vals &sums) {
  Val scale = k.f32(factor());
  Vals minus;
  for (Val m : top)
    minus.push_back(negate(k, m) * scale);
  Val chain[2][4];
  for (auto [i, v] : llvm::enumerate(s)) {
    v = exp2Fast(k, fma(k, v, scale, minus[rowOf(i)]));
    Val &sum = chain[rowOf(i)][(i >> 2 & 1) * 2 + (i & 1)];
    sum = sum ? sum + v : v;
  }
  sums.clear();
  for (auto &c : chain)
    sums.push_back((c[0] + c[1]) + (c[2] + c[3]));
}

/// Scores become weights relative to the maximum so far; `factor` is what the
/// sums before shrink by, empty when there are none.
void PrefillTemplate::softmax(llvm::MutableArrayRef<Val> s, Sums &sums,
                              Vals &factor) {
  Vals top = rowMaximum(s), shift, total;
  factor.clear();
  Val never = k.f32(-INFINITY);
  for (unsigned r : {0, 1}) {
    if (!sums.top.empty())
      top[r] = maximum(k, top[r], sums.top[r]);
    // Of a row that has seen nothing yet: subtract 0.
    shift.push_back(k.select(top[r] == never, k.f32(0), top[r]));
    if (!sums.top.empty())
      factor.push_back(
          exp2Fast(k, (sums.top[r] - shift[r]) * k.f32(this->factor())));
  }
  exponentials(s, shift, total);
  for (unsigned r : {0, 1})
    if (!factor.empty())
      total[r] = fma(k, sums.total[r], factor[r], total[r]);
  sums.top = top;
  sums.total = total;
}

//===----------------------------------------------------------------------===//
// Consumers: softmax without a maximum
//===----------------------------------------------------------------------===//

constexpr double kGrown = 256, kLost = 1e18;

/// The same relative to the maximum of earlier blocks, for rows that have seen
/// a key. Whether a maximum grew in the warp; only then `factor` is not 1.
Val PrefillTemplate::guard(llvm::SmallVectorImpl<Val> &s, Sums &sums,
                           Vals &factor, Val buffer) {
  Vals part;
  exponentials(s, sums.top, part);
  auto above = [&](double limit) {
    Val bound = k.f32(limit);
    return voteAny(k, !((part[0] < bound) && (part[1] < bound)));
  };
  Val grew = above(kGrown);
  Vals result = choose(
      k, grew,
      [&] {
        return choose(
            k, above(kLost), [&] { return again(sums, buffer); },
            [&] { return raise(s, sums, part); });
      },
      [&] {
        Vals same(s.begin(), s.end());
        same.append(sums.top);
        for (unsigned r : {0, 1})
          same.push_back(sums.total[r] + part[r]);
        same.append(2, k.f32(1));
        return same;
      });
  llvm::ArrayRef<Val> all(result);
  s.assign(all.begin(), all.end() - 6);
  all = all.take_back(6);
  sums.top.assign(all.begin(), all.begin() + 2);
  sums.total.assign(all.begin() + 2, all.begin() + 4);
  factor.assign(all.begin() + 4, all.end());
  return grew;
}

/// The maximum grows by the exponent of the block's sum.
Vals PrefillTemplate::raise(llvm::ArrayRef<Val> s, const Sums &sums,
                            llvm::ArrayRef<Val> part) {
  ImplicitLocOpBuilder &b = k.builder();
  Val scale = k.f32(factor());
  Vals top, total, shrink;
  for (unsigned r : {0, 1}) {
    Val largest = part[r];
    for (unsigned mask : {1, 2})
      largest = maximum(k, largest, shuffleXor(k, largest, mask));
    Val exponent = (bitcast(k, largest, b.getI32Type()) >> 23) - 127;
    Val grown = k.wrap(arith::SIToFPOp::create(b, b.getF32Type(), exponent));
    grown = sums.top[r] + divideFast(k, grown, scale);
    top.push_back(k.select(largest < k.f32(kGrown), sums.top[r], grown));
    shrink.push_back(exp2Fast(k, (sums.top[r] - top[r]) * scale));
    total.push_back((sums.total[r] + part[r]) * shrink[r]);
  }
  Vals result;
  for (auto [i, v] : llvm::enumerate(s))
    result.push_back(v * shrink[rowOf(i)]);
  result.append(top);
  result.append(total);
  result.append(shrink);
  return result;
}

/// From the scores themselves, whose exponentials overflowed.
Vals PrefillTemplate::again(const Sums &sums, Val buffer) {
  wgmmaWait(k, 0);
  llvm::SmallVector<Val> s = scoresAgain(buffer, sums.count);
  Sums next = sums;
  Vals shrink;
  softmax(s, next, shrink);
  Vals result(s.begin(), s.end());
  result.append(next.top);
  result.append(next.total);
  result.append(shrink);
  return result;
}

/// The warp's 16 rows of Q K^T, placed as wgmma places them.
llvm::SmallVector<Val> PrefillTemplate::scoresAgain(Val buffer, Val count) {
  // Seldom needed: no address of it is worth a register of the loop.
  Val thread = opaque(k, threadInGroup(k)),
      steps = opaque(k, k.i32(depth / 16));
  Val lane = thread & 31, low = lane & 7, high = lane >> 4;
  Val middle = (lane >> 3) & 1;
  Val query = k.at(queryBase(buffer, consumer),
                   ((thread >> 5) << 11) + ((lane & 15) << 7));
  Val key = k.at(k.dynamicShared(p.key), slot(count) * int64_t(p.blockBytes()));
  Val f0 = k.f32(0);
  llvm::SmallVector<Val> scores;
  for (unsigned block = 0; block < p.blockKeys / 16; ++block) {
    Val row = k.at(key, (((high << 3) + low + (int64_t(16) * block)) << 7));
    Vals sum = k.loop(
        k.i32(0), steps, k.i32(1), Vals(8, f0),
        [&](Val i, llvm::ArrayRef<Val> d) {
          Val box = i >> 2, piece = (i & 3) << 1;
          Val at = (box << 13) + (((piece + high) ^ low) << 4);
          Vals q = loadFragment(k, k.at(query, at));
          at = box * (int64_t(p.blockKeys) * 128) +
               (((piece + middle) ^ low) << 4);
          Vals c = loadFragment(k, k.at(row, at));
          Vals next = mma16x8x16(k, element, d.take_front(4), q, c[0], c[1]);
          next.append(mma16x8x16(k, element, d.drop_front(4), q, c[2], c[3]));
          return next;
        });
    scores.append(sum.begin(), sum.end());
  }
  return scores;
}

Vals PrefillTemplate::packWeights(llvm::ArrayRef<Val> s) {
  Vals packed;
  for (size_t i = 0; i < s.size(); i += 2)
    packed.push_back(pack2(k, element, s[i], s[i + 1]));
  return packed;
}
