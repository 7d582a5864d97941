//===- SimtAttention.cpp - Template: attention by fused multiply-adds -----===//
//
// Online softmax in fp32 for any head sizes, masks, prologues and epilogues.
// A block has a tile of query rows: the rows of all heads that share keys, the
// heads innermost, so that keys and values are read once for all of them. The
// rows stay in shared memory; tiles of keys and values follow each other. A
// thread has 4 x 4 scores, and of the result 4 rows and every (keys)-th group
// of 4 columns. Keys that no row of the tile may see are skipped.
//
// Few rows (decode): several blocks share the keys. Each leaves its sums in the
// workspace; the last one to arrive merges them in the order of the keys.
//
//===----------------------------------------------------------------------===//

#include "Epilogue.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using kernels::AttentionShape;
using kernels::SimtAttentionTile;

namespace {

using Vals = KernelBuilder::Vals;

/// A query row, of the tile or of the whole.
struct QueryRow {
  Index head, position;
};

class SimtAttention {
public:
  SimtAttention(KernelFunction &f, const AttentionShape &shape);
  void build();

private:
  // Where things are.
  QueryRow rowAt(Val row);
  void keyRange();
  void tileAt(Val item);

  // Operands.
  /// Copies rows of a tensor to shared memory: element (row, column) of
  /// `rows` x `columns` goes to `place(row, column)`.
  void copy(Value tensor, unsigned rows, int64_t columns,
            llvm::function_ref<Indices(Val row, const Index &column)> at,
            llvm::function_ref<Val(Val value, Val row)> change,
            llvm::function_ref<void(Val value, Val row, Val column)> put);
  void loadQuery();
  void loadKeys(Val key0);
  void loadValues(Val key0);

  // The loop over keys; its state is 4 maxima, 4 sums, then the results.
  Vals scores();
  void maskScores(Vals &scores, Val key0);
  Vals step(Val key0, ArrayRef<Val> state);
  void addValues(Vals &sums);

  // Results.
  void storeResults(ArrayRef<Val> state);
  void shareResults(ArrayRef<Val> state, Val tile, Val split);
  void finishFrom(llvm::function_ref<Val(Val row, Val column)> value);
  Val whenBlind();

  Val load4(Val offset) {
    return k.load(memory, offset,
                  VectorType::get({4}, k.builder().getF32Type()), {16, false});
  }
  Val fma(Val a, Val b, Val c) {
    return k.wrap(
        math::FmaOp::create(k.builder(), Value(a), Value(b), Value(c)));
  }
  Val maximum(Val a, Val b) {
    return k.wrap(arith::MaximumFOp::create(k.builder(), Value(a), Value(b)));
  }
  Val exp(Val x) { return f.target->exp(x); }
  unsigned repeats() const { return tile.paddedValue(s.dv) / tile.keys; }
  unsigned resultAt(unsigned row, unsigned g, unsigned j) const {
    return 8 + (row * repeats() + g) * 4 + j;
  }

  KernelFunction &f;
  KernelBuilder &k;
  IndexBuilder &ix;
  BodyEmitter &group;
  AttentionShape s;
  AttentionOp op;
  SimtAttentionTile tile;
  unsigned splits;
  int64_t heads; ///< that share keys
  Epilogue epilogue;
  Val memory, aligned;
  Val myRow, myKey; ///< of the thread's 4 x 4, i32
  Val rows;         ///< all rows of a kv head, index
  bool uniform;
  unsigned outVector;
  // Of the current tile.
  Index batch, kvHead;
  Val row0, keyBegin, keyEnd;
};

SimtAttention::SimtAttention(KernelFunction &f, const AttentionShape &shape)
    : f(f), k(f.k), ix(f.ix()), group(f.group()), s(shape), op(shape.op),
      tile(f.launch.attention), splits(f.launch.splits),
      heads(*s.heads.asConstant() / *s.kvHeads.asConstant()),
      epilogue(f, getSymShape(op.getResult())) {
  memory = k.dynamicShared();
  int64_t across = tile.keys / 4;
  myRow = k.thread() / across * 4;
  myKey = k.thread() % across * 4;
  rows = k.wrap(ix.size(s.s * SymExpr(heads)));
  uniform = op.getMaskedRows() == "uniform";
  outVector = s.dv % 4 == 0 ? 4 : 1;
}

QueryRow SimtAttention::rowAt(Val row) {
  Val r = k.min(row, rows - 1);
  Value position = ix.div(r, ix.constant(heads));
  Value inGroup = ix.rem(r, ix.constant(heads));
  Value head = ix.add(ix.mul(kvHead.base, ix.constant(heads)), inGroup);
  return {ix.index(head), ix.index(position)};
}

/// Keys that some row of the tile may see.
void SimtAttention::keyRange() {
  Value begin = ix.constant(0), end = ix.size(s.t);
  if (!uniform) {
    group.setWidth(1);
    Value offset = group.queryOffset(op, batch);
    Value first = ix.add(rowAt(row0).position.base, offset);
    Value last =
        ix.add(rowAt(row0 + int64_t(tile.rows - 1)).position.base, offset);
    if (op.getCausal())
      end = ix.min(end, ix.add(last, ix.constant(1)));
    if (op.getWindowRight() >= 0)
      end = ix.min(end, ix.add(last, ix.constant(op.getWindowRight() + 1)));
    if (op.getWindowLeft() >= 0)
      begin = ix.max(begin, ix.sub(first, ix.constant(op.getWindowLeft())));
    if (Value lengths = op.getValidLengths()) {
      group.setWidth(1);
      Val length = k.toIndex(k.wrap(group.emit(lengths, {batch})));
      end = ix.min(end, length);
    }
  }
  keyBegin = k.wrap(begin);
  keyEnd = k.wrap(end);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

void SimtAttention::copy(Value tensor, unsigned count, int64_t columns,
                         llvm::function_ref<Indices(Val, const Index &)> at,
                         llvm::function_ref<Val(Val, Val)> change,
                         llvm::function_ref<void(Val, Val, Val)> put) {
  auto axis = kernels::getContiguousAxis(tensor);
  bool rowsInner = axis && *axis == 2;
  int64_t v = 1;
  if (!axis || *axis == 3) {
    Value leaf = tensor;
    while (Operation *def = leaf.getDefiningOp())
      leaf = def->getOperand(0);
    v = elementBits(elementType(leaf)) <= 16 ? 8 : 4;
    while (columns % v)
      v /= 2;
  }
  int64_t perRow = columns / v, total = int64_t(count) * perRow;
  auto pass = [&](bool isAligned) {
    f.target->aligned = isAligned;
    k.loop(k.thread(), k.i32(total), k.i32(tile.threads()), [&](Val number) {
      IndexBuilder::Scope scope(ix);
      Val row = rowsInner ? number % int64_t(count) : number / perRow;
      Val column = (rowsInner ? number / int64_t(count) : number % perRow) * v;
      Index c = ix.index(Value(k.toIndex(column)), v > 1, v);
      group.setWidth(v);
      Value x = group.emitVector(tensor, at(row, c));
      Val value = k.wrap(
          group.convert(x, elementType(tensor), k.builder().getF32Type()));
      put(change(value, row), row, column);
    });
    f.target->aligned = false;
  };
  if (v == 1)
    return pass(false);
  k.whenElse(aligned, [&] { pass(true); }, [&] { pass(false); });
}

/// Stores lanes of a row side by side over `pitch`: the row is the inner axis.
static void putTransposed(KernelBuilder &k, Val memory, int64_t offset,
                          int64_t pitch, Val value, Val row, Val column) {
  auto vector = dyn_cast<VectorType>(value.type());
  unsigned lanes = vector ? vector.getNumElements() : 1;
  Val at = column * pitch + row + offset;
  for (unsigned lane = 0; lane < lanes; ++lane)
    k.store(vector ? k.extract(value, lane) : value, memory,
            at + int64_t(lane) * pitch, {});
}

void SimtAttention::loadQuery() {
  Val scale = k.f32(op.getScale().convertToFloat());
  copy(
      op.getQuery(), tile.rows, s.d,
      [&](Val row, const Index &column) {
        QueryRow r = rowAt(row0 + k.toIndex(row));
        return Indices{batch, r.head, r.position, column};
      },
      [&](Val value, Val) { return value * scale; },
      [&](Val value, Val row, Val column) {
        putTransposed(k, memory, 0, tile.rows + 4, value, row, column);
      });
}

void SimtAttention::loadKeys(Val key0) {
  Val last = k.wrap(ix.size(s.t)) - 1;
  copy(
      op.getKey(), tile.keys, s.d,
      [&](Val row, const Index &column) {
        Val key = k.min(key0 + k.toIndex(row), last);
        return Indices{batch, kvHead, ix.index(Value(key)), column};
      },
      [&](Val value, Val) { return value; },
      [&](Val value, Val row, Val column) {
        putTransposed(k, memory, tile.keyOffset(s.d), tile.keys + 4, value, row,
                      column);
      });
}

/// Values beyond the last key are zeros: what lies there may be anything.
void SimtAttention::loadValues(Val key0) {
  Val last = k.wrap(ix.size(s.t)) - 1;
  int64_t pitch = tile.paddedValue(s.dv);
  copy(
      op.getValue(), tile.keys, s.dv,
      [&](Val row, const Index &column) {
        Val key = k.min(key0 + k.toIndex(row), last);
        return Indices{batch, kvHead, ix.index(Value(key)), column};
      },
      [&](Val value, Val row) {
        return k.select(key0 + k.toIndex(row) < keyEnd, value,
                        k.constant(value.type(), 0));
      },
      [&](Val value, Val row, Val column) {
        bool wide = isa<VectorType>(value.type()) &&
                    cast<VectorType>(value.type()).getNumElements() % 4 == 0;
        k.store(value, memory, row * pitch + column + tile.valueOffset(s.d),
                {wide ? 16u : 4u, false});
      });
}

//===----------------------------------------------------------------------===//
// The loop over keys
//===----------------------------------------------------------------------===//

/// The thread's 4 x 4 scores, by row.
Vals SimtAttention::scores() {
  Vals init(16, k.f32(0));
  int64_t unroll = s.d % 4 == 0 ? 4 : 1;
  return k.loop(k.i32(0), k.i32(s.d), k.i32(unroll), init,
                [&](Val from, ArrayRef<Val> carried) {
                  Vals sums(carried.begin(), carried.end());
                  for (int64_t u = 0; u < unroll; ++u) {
                    Val d = from + u;
                    Val a = load4(d * (int64_t(tile.rows) + 4) + myRow);
                    Val b = load4(d * (int64_t(tile.keys) + 4) + myKey +
                                  tile.keyOffset(s.d));
                    for (unsigned i = 0; i < 4; ++i)
                      for (unsigned j = 0; j < 4; ++j)
                        sums[4 * i + j] = fma(k.extract(a, i), k.extract(b, j),
                                              sums[4 * i + j]);
                  }
                  return sums;
                });
}

void SimtAttention::maskScores(Vals &scores, Val key0) {
  Val last = k.wrap(ix.size(s.t)) - 1;
  Val nothing = k.f32(-std::numeric_limits<double>::infinity());
  group.setWidth(1);
  for (unsigned i = 0; i < 4; ++i) {
    QueryRow r = rowAt(row0 + k.toIndex(myRow) + int64_t(i));
    for (unsigned j = 0; j < 4; ++j) {
      Val key = key0 + k.toIndex(myKey) + int64_t(j);
      Index at = ix.index(Value(k.min(key, last)));
      Val &score = scores[4 * i + j];
      score =
          k.wrap(group.maskScore(op, score, {batch, r.head, r.position, at}));
      score = k.select(key < keyEnd, score, nothing);
    }
  }
}

void SimtAttention::addValues(Vals &state) {
  int64_t terms = tile.termOffset(s.d, s.dv), values = tile.valueOffset(s.d);
  int64_t pitch = tile.paddedValue(s.dv);
  Vals init(state.begin() + 8, state.end());
  constexpr int64_t kUnroll = 2;
  Vals sums =
      k.loop(k.i32(0), k.i32(tile.keys), k.i32(kUnroll), init,
             [&](Val from, ArrayRef<Val> carried) {
               Vals next(carried.begin(), carried.end());
               for (int64_t u = 0; u < kUnroll; ++u) {
                 Val key = from + u;
                 Val p = load4(key * (int64_t(tile.rows) + 4) + myRow + terms);
                 for (unsigned g = 0; g < repeats(); ++g) {
                   Val v = load4(key * pitch + myKey + int64_t(g) * tile.keys +
                                 values);
                   for (unsigned i = 0; i < 4; ++i)
                     for (unsigned j = 0; j < 4; ++j) {
                       Val &sum = next[resultAt(i, g, j) - 8];
                       sum = fma(k.extract(p, i), k.extract(v, j), sum);
                     }
                 }
               }
               return next;
             });
  std::copy(sums.begin(), sums.end(), state.begin() + 8);
}

/// One tile of keys.
Vals SimtAttention::step(Val key0, ArrayRef<Val> old) {
  k.barrier();
  loadKeys(key0);
  loadValues(key0);
  k.barrier();
  Vals x = scores();
  maskScores(x, key0);
  Vals state(old.begin(), old.end());
  unsigned across = tile.keys / 4;
  Vals top;
  for (unsigned i = 0; i < 4; ++i)
    top.push_back(maximum(maximum(x[4 * i], x[4 * i + 1]),
                          maximum(x[4 * i + 2], x[4 * i + 3])));
  top = k.reduce(top, across, [&](ArrayRef<Val> a, ArrayRef<Val> b) {
    Vals r;
    for (unsigned i = 0; i < 4; ++i)
      r.push_back(maximum(a[i], b[i]));
    return r;
  });
  Val nothing = k.f32(-std::numeric_limits<double>::infinity());
  Vals part;
  for (unsigned i = 0; i < 4; ++i) {
    Val next = maximum(state[i], top[i]);
    // Nothing seen so far: differences would be NaN.
    Val shift = k.select(next == nothing, k.f32(0), next);
    Val scale = exp(state[i] - shift);
    state[i] = next;
    state[4 + i] = state[4 + i] * scale;
    for (unsigned g = 0; g < repeats(); ++g)
      for (unsigned j = 0; j < 4; ++j)
        state[resultAt(i, g, j)] = state[resultAt(i, g, j)] * scale;
    for (unsigned j = 0; j < 4; ++j)
      x[4 * i + j] = exp(x[4 * i + j] - shift);
    part.push_back((x[4 * i] + x[4 * i + 1]) + (x[4 * i + 2] + x[4 * i + 3]));
  }
  part = k.reduce(part, across, [&](ArrayRef<Val> a, ArrayRef<Val> b) {
    Vals r;
    for (unsigned i = 0; i < 4; ++i)
      r.push_back(a[i] + b[i]);
    return r;
  });
  for (unsigned i = 0; i < 4; ++i)
    state[4 + i] = state[4 + i] + part[i];
  // Terms lie with the row as the inner axis, as the next product reads them.
  for (unsigned j = 0; j < 4; ++j) {
    Val column = k.constant(VectorType::get({4}, k.builder().getF32Type()), 0);
    for (unsigned i = 0; i < 4; ++i)
      column = k.insert(x[4 * i + j], column, i);
    k.store(column, memory,
            (myKey + int64_t(j)) * (int64_t(tile.rows) + 4) + myRow +
                tile.termOffset(s.d, s.dv),
            {16, false});
  }
  k.barrier();
  addValues(state);
  return state;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// The result of a row that sees no key.
Val SimtAttention::whenBlind() {
  return k.f32(op.getMaskedRows() == "nan"
                   ? std::numeric_limits<double>::quiet_NaN()
                   : 0.0);
}

/// Runs the epilogue over the tile's elements; rows and columns are i32.
void SimtAttention::finishFrom(llvm::function_ref<Val(Val, Val)> value) {
  int64_t perRow = s.dv / outVector;
  k.loop(k.thread(), k.i32(perRow * tile.rows), k.i32(tile.threads()),
         [&](Val number) {
           IndexBuilder::Scope scope(ix);
           Val row = number / perRow, column = number % perRow * outVector;
           Val all = row0 + k.toIndex(row);
           ix.when(all < rows, [&] {
             QueryRow r = rowAt(all);
             group.setWidth(outVector);
             Indices at{
                 batch, r.head, r.position,
                 ix.index(Value(k.toIndex(column)), outVector > 1, outVector)};
             epilogue.store(at, {{op.getResult(), value(row, column)}});
           });
         });
}

void SimtAttention::storeResults(ArrayRef<Val> state) {
  int64_t pitch = tile.paddedValue(s.dv) + 4;
  k.barrier();
  Type four = VectorType::get({4}, k.builder().getF32Type());
  for (unsigned i = 0; i < 4; ++i) {
    Val blind = state[4 + i] == k.f32(0);
    Val scale = k.f32(1) / state[4 + i];
    for (unsigned g = 0; g < repeats(); ++g) {
      Val v = k.constant(four, 0);
      for (unsigned j = 0; j < 4; ++j)
        v = k.insert(
            k.select(blind, whenBlind(), state[resultAt(i, g, j)] * scale), v,
            j);
      k.store(v, memory,
              (myRow + int64_t(i)) * pitch + myKey + int64_t(g) * tile.keys,
              {16, false});
    }
  }
  k.barrier();
  finishFrom([&](Val row, Val column) {
    Type type = k.builder().getF32Type();
    if (outVector > 1)
      type = four;
    return k.load(memory, row * pitch + column, type, {4 * outVector, false});
  });
  k.barrier();
}

void SimtAttention::shareResults(ArrayRef<Val> state, Val tileNumber,
                                 Val split) {
  int64_t pitch = tile.paddedValue(s.dv), size = tile.partialSize(s.dv);
  int64_t maxima = tile.rows * pitch, sums = maxima + tile.rows;
  auto start = [&](Val part) {
    return (tileNumber * int64_t(splits) + part) * size;
  };
  Type four = VectorType::get({4}, k.builder().getF32Type());
  auto put = [&](ArrayRef<Val> values, Val at) {
    Val v = k.constant(four, 0);
    for (unsigned j = 0; j < 4; ++j)
      v = k.insert(values[j], v, j);
    k.store(v, f.workspace, start(split) + k.toIndex(at), {16, false});
  };
  for (unsigned i = 0; i < 4; ++i)
    for (unsigned g = 0; g < repeats(); ++g)
      put(state.slice(resultAt(i, g, 0), 4),
          (myRow + int64_t(i)) * pitch + myKey + int64_t(g) * tile.keys);
  k.when(myKey == k.i32(0), [&] {
    put(state.slice(0, 4), myRow + maxima);
    put(state.slice(4, 4), myRow + sums);
  });
  Val last = k.arriveLast(f.counters, tileNumber, splits);
  ix.when(last, [&] {
    // What each part's results are multiplied by, a row in each thread.
    Type real = k.builder().getF32Type();
    int64_t factors = tile.factorOffset(s.dv);
    auto of = [&](unsigned part, int64_t offset, Val row) {
      return k.load(f.workspace,
                    start(k.wrap(ix.constant(part))) + k.toIndex(row) + offset,
                    real, {});
    };
    k.when(k.thread() < k.i32(tile.rows), [&] {
      Val row = k.thread(), top, total;
      for (unsigned part = 0; part < splits; ++part) {
        Val m = of(part, maxima, row);
        top = top ? maximum(top, m) : m;
      }
      Val nothing = k.f32(-std::numeric_limits<double>::infinity());
      Val shift = k.select(top == nothing, k.f32(0), top);
      Vals scale;
      for (unsigned part = 0; part < splits; ++part) {
        scale.push_back(exp(of(part, maxima, row) - shift));
        Val term = of(part, sums, row) * scale.back();
        total = total ? total + term : term;
      }
      for (unsigned part = 0; part < splits; ++part)
        k.store(k.select(total == k.f32(0), whenBlind(), scale[part] / total),
                memory, row + (factors + int64_t(part) * tile.rows), {});
    });
    k.barrier();
    finishFrom([&](Val row, Val column) {
      Val total;
      Type type = outVector > 1 ? four : real;
      for (unsigned part = 0; part < splits; ++part) {
        Val x = k.load(f.workspace,
                       start(k.wrap(ix.constant(part))) +
                           k.toIndex(row * pitch + column),
                       type, {4 * outVector, false});
        Val factor = k.load(memory, row + (factors + int64_t(part) * tile.rows),
                            real, {});
        total = total ? total + x * factor : x * factor;
      }
      return total;
    });
  });
}

void SimtAttention::tileAt(Val item) {
  auto div = [&](Val a, Value b) { return k.wrap(ix.div(a, b)); };
  auto rem = [&](Val a, Value b) { return k.wrap(ix.rem(a, b)); };
  Value rowTiles = ix.ceilDiv(rows, tile.rows);
  Val split = rem(item, ix.constant(splits));
  Val rest = div(item, ix.constant(splits));
  row0 = rem(rest, rowTiles) * int64_t(tile.rows);
  Val number = div(rest, rowTiles);
  Value kvHeads = ix.size(s.kvHeads);
  kvHead = ix.index(Value(rem(number, kvHeads)));
  batch = ix.index(Value(div(number, kvHeads)));
  keyRange();
  if (splits > 1) {
    Value width = ix.max(ix.sub(keyEnd, keyBegin), ix.constant(0));
    Value tiles = ix.ceilDiv(width, int64_t(splits) * tile.keys);
    Val chunk = k.wrap(ix.mul(tiles, ix.constant(tile.keys)));
    keyBegin = keyBegin + split * chunk;
    keyEnd = k.min(keyEnd, keyBegin + chunk);
  }
  k.barrier();
  loadQuery();
  Vals init(4, k.f32(-std::numeric_limits<double>::infinity()));
  init.append(4 + 16 * repeats(), k.f32(0));
  Vals state = k.loop(keyBegin, keyEnd, k.wrap(ix.constant(tile.keys)), init,
                      [&](Val key0, ArrayRef<Val> carried) {
                        IndexBuilder::Scope scope(ix);
                        return step(key0, carried);
                      });
  if (splits == 1)
    return storeResults(state);
  shareResults(state, number, split);
}

void SimtAttention::build() {
  waitIfProgrammatic(f);
  if (!epilogue.others().empty())
    emitPulled(f, epilogue.others(), 1);
  aligned = f.allAligned();
  Val items = k.wrap(ix.ceilDiv(rows, tile.rows)) *
              k.wrap(ix.size(s.batch * s.kvHeads)) * int64_t(splits);
  k.loop(k.toIndex(k.block()), items, k.toIndex(k.blocks()), [&](Val item) {
    IndexBuilder::Scope scope(ix);
    tileAt(item);
  });
}

} // namespace

void hopper::buildSimtAttention(KernelFunction &f) {
  auto shape = kernels::getAttentionShape(f.kernel);
  SimtAttention(f, *shape).build();
}
