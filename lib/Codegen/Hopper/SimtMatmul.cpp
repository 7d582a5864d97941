//===- SimtMatmul.cpp - Template: products by fused multiply-adds ---------===//
//
// Any element types, layouts, prologues and epilogues, accurate to the
// accumulator's type. A block computes a tile of the result (kernels::SimtTile)
// from tiles of both operands in shared memory, which lie there with the
// contracted axis outermost. While one pair of tiles is multiplied, the next
// is on its way in registers. Sums return through shared memory, so that the
// epilogue runs over whole rows, with its code emitted once.
//
// Few rows: several blocks share K. Each leaves its sums in the workspace; the
// last one to arrive adds them up in the order of K, whichever it is.
//
//===----------------------------------------------------------------------===//

#include "Epilogue.h"

#include "fusion/Codegen/Common/NarrowFloat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using kernels::ProductShape;
using kernels::SimtTile;

namespace {

using Vals = KernelBuilder::Vals;

/// A vector of an operand's tile that a thread carries.
struct Slot {
  Val position, depth; ///< within the tile, i32
  Val active;          ///< null: always
  Indices lead;        ///< lhs: batch and row
  Index column;        ///< rhs
};

/// An operand on its way to shared memory.
struct Operand {
  Value tensor;
  bool isLhs;
  unsigned extent; ///< of the tile beside K
  unsigned vector;
  bool alongDepth; ///< the vector's direction
  Val memory;      ///< two tiles, [depth][pitch]
  SmallVector<Slot> slots;
  unsigned pitch() const { return extent + 4; }
};

class SimtMatmul {
public:
  SimtMatmul(KernelFunction &f, const ProductShape &shape);
  void build();

private:
  // Where things are.
  Operand describe(Value tensor, bool isLhs, bool transposed, unsigned extent,
                   const SymExpr &beside);
  Indices leading(Val row);
  Indices lhsAt(const Slot &slot, const Index &depth);
  Indices rhsAt(const Slot &slot, const Index &depth);
  void prepareSlots(Operand &operand, Val origin, Val limit);

  // Operands.
  Val load(const Operand &operand, const Slot &slot, Val k0);
  Vals loadTiles(Val k0, Val end);
  void storeTiles(ArrayRef<Val> values, Val k0, Val end, Val buffer);
  Vals multiply(ArrayRef<Val> sums, Val buffer);
  Vals sumOver(Val begin, Val end);

  // Results.
  void forElements(unsigned rows,
                   llvm::function_ref<void(Val row, Val column)> body);
  void finish(Val row, Val column,
              llvm::function_ref<Val(unsigned product)> sum);
  void storeSums(ArrayRef<Val> sums);
  void shareSums(ArrayRef<Val> sums, Val split, Val columnTile);
  void tileAt(Val item);

  Val zero(unsigned lanes = 1) { return k.constant(vectorOf(type, lanes), 0); }
  Val fma(Val a, Val b, Val c);
  unsigned numSums() const {
    return products * tile.repeatRows * tile.repeatColumns * 16;
  }
  /// Of product p: repetition h, g and element i, j of the thread's 4 x 4.
  unsigned sumAt(unsigned p, unsigned h, unsigned i, unsigned g,
                 unsigned j) const {
    return (((p * tile.repeatRows + h) * 4 + i) * tile.repeatColumns + g) * 4 +
           j;
  }

  KernelFunction &f;
  KernelBuilder &k;
  IndexBuilder &ix;
  BodyEmitter &group;
  ProductShape s;
  SimtTile tile;
  unsigned splits, products, threads;
  Type type; ///< of sums and of what lies in shared memory
  unsigned bytes;
  Epilogue epilogue;
  SmallVector<Operand, 3> operands; ///< lhs, then one a product
  Val m, n, depth;                  ///< sizes, index
  Val aligned;                      ///< all pointers are, i1
  Val myRow, myColumn;              ///< of the thread in the tile's pattern
  unsigned outVector;
  // Of the current tile.
  Indices batch;
  Val row0, column0;
};

SimtMatmul::SimtMatmul(KernelFunction &f, const ProductShape &shape)
    : f(f), k(f.k), ix(f.ix()), group(f.group()), s(shape), tile(f.launch.tile),
      splits(f.launch.splits), products(shape.products.size()),
      threads(tile.threads()),
      type(computeType(elementType(s.products.front().getResult()))),
      bytes(type.getIntOrFloatBitWidth() / 8), epilogue(f, shape.space) {
  m = k.wrap(ix.size(s.m));
  n = k.wrap(ix.size(s.n));
  depth = k.wrap(ix.size(s.k));
  MatmulOp first = s.products.front();
  operands.push_back(describe(first.getLhs(), true, first.getTransposeLhs(),
                              tile.rows(), s.flat ? SymExpr(1) : s.m));
  for (MatmulOp product : s.products)
    operands.push_back(describe(product.getRhs(), false,
                                !product.getTransposeRhs(), tile.columns(),
                                s.n));
  unsigned offset = 0;
  for (Operand &operand : operands) {
    operand.memory = k.dynamicShared(offset);
    offset += 2 * tile.depth * operand.pitch() * bytes;
  }
  Val lane = k.lane(), warp = k.warp();
  myRow = warp / int64_t(tile.warpColumns) * 16 + lane / 8 * 4;
  myColumn = warp % int64_t(tile.warpColumns) * 32 + lane % 8 * 4;
  outVector = s.n.exactDiv(SymExpr(4)) ? 4 : 1;
}

/// `transposed`: K is the axis before the last. `beside`: size of the tile's
/// other axis, as far as a vector may run along it.
Operand SimtMatmul::describe(Value tensor, bool isLhs, bool transposed,
                             unsigned extent, const SymExpr &beside) {
  Operand operand{tensor, isLhs, extent, 1, true, Val(), {}};
  int64_t last = cast<RankedTensorType>(tensor.getType()).getRank() - 1;
  auto axis = kernels::getContiguousAxis(tensor);
  if (!axis || *axis < last - 1)
    return operand;
  operand.alongDepth = (*axis == last) != transposed;
  const SymExpr &size = operand.alongDepth ? s.k : beside;
  // 16 bytes of the narrowest operand, as far as axes hold whole vectors.
  unsigned bits = 32;
  Value leaf = tensor;
  while (Operation *op = leaf.getDefiningOp())
    leaf = op->getOperand(0);
  bits = elementBits(elementType(leaf));
  for (unsigned v = bits <= 16 ? 8 : bits == 32 ? 4 : 2; v > 1; v /= 2)
    if (size.exactDiv(SymExpr(int64_t(v)))) {
      operand.vector = v;
      break;
    }
  return operand;
}

Indices SimtMatmul::leading(Val row) {
  Index i = ix.index(Value(row));
  if (s.flat)
    return *ix.delinearize(i, ArrayRef(s.space).drop_back(), 1);
  Indices lead(batch);
  lead.push_back(i);
  return lead;
}

Indices SimtMatmul::lhsAt(const Slot &slot, const Index &at) {
  MatmulOp op = s.products.front();
  size_t rank = cast<RankedTensorType>(op.getLhs().getType()).getRank();
  Indices r(ArrayRef(slot.lead).drop_back().take_back(rank - 2));
  r.push_back(op.getTransposeLhs() ? at : slot.lead.back());
  r.push_back(op.getTransposeLhs() ? slot.lead.back() : at);
  return r;
}

Indices SimtMatmul::rhsAt(const Slot &slot, const Index &at) {
  MatmulOp op = s.products.front();
  size_t rank = cast<RankedTensorType>(op.getRhs().getType()).getRank();
  Indices r(rank - 2, ix.index(0));
  if (!s.flat)
    r = Indices(ArrayRef(batch).take_back(rank - 2));
  r.push_back(op.getTransposeRhs() ? slot.column : at);
  r.push_back(op.getTransposeRhs() ? at : slot.column);
  return r;
}

/// Which vectors of the tile that begins at `origin` a thread loads. Beyond
/// the operand's end the last ones are read again.
void SimtMatmul::prepareSlots(Operand &operand, Val origin, Val limit) {
  operand.slots.clear();
  int64_t v = operand.vector;
  int64_t count = int64_t(operand.extent) * tile.depth / v;
  for (int64_t begin = 0; begin < count; begin += threads) {
    Slot slot;
    Val number = k.thread() + begin;
    if (begin + int64_t(threads) > count) {
      slot.active = number < k.i32(count);
      number = k.min(number, k.i32(count - 1));
    }
    int64_t inner = (operand.alongDepth ? tile.depth : operand.extent) / v;
    Val along = number % inner * v, across = number / inner;
    slot.position = operand.alongDepth ? across : along;
    slot.depth = operand.alongDepth ? along : across;
    int64_t lanes = operand.alongDepth ? 1 : v;
    Val at = k.min(origin + k.toIndex(slot.position), limit - lanes);
    Index index = ix.index(Value(at), lanes > 1, lanes);
    if (!operand.isLhs) {
      slot.column = index;
    } else {
      slot.lead = leading(at);
      slot.lead.back().lane = index.lane;
      slot.lead.back().divisor = std::max(slot.lead.back().divisor, lanes);
    }
    operand.slots.push_back(std::move(slot));
  }
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

Val SimtMatmul::load(const Operand &operand, const Slot &slot, Val k0) {
  int64_t lanes = operand.alongDepth ? operand.vector : 1;
  Val at = k0 + k.toIndex(slot.depth);
  if (!s.k.exactDiv(SymExpr(int64_t(tile.depth))))
    at = k.min(at, depth - lanes);
  Index index = ix.index(Value(at), lanes > 1, lanes);
  group.setWidth(operand.vector);
  Value x = group.emitVector(
      operand.tensor, operand.isLhs ? lhsAt(slot, index) : rhsAt(slot, index));
  x = group.convert(x, elementType(operand.tensor),
                    elementType(s.products.front().getResult()));
  return k.wrap(x);
}

/// The tiles from k0 on, in registers; zeros where k0 is at the end.
Vals SimtMatmul::loadTiles(Val k0, Val end) {
  bool vectors = false;
  Vals nothing;
  for (const Operand &operand : operands) {
    vectors |= operand.vector > 1;
    nothing.append(operand.slots.size(), zero(operand.vector));
  }
  auto all = [&](bool isAligned) {
    IndexBuilder::Scope scope(ix);
    f.target->aligned = isAligned;
    Vals values;
    for (const Operand &operand : operands)
      for (const Slot &slot : operand.slots)
        values.push_back(load(operand, slot, k0));
    f.target->aligned = false;
    return values;
  };
  return k.choose(
      k0 < end,
      [&] {
        if (!vectors)
          return all(false);
        return k.choose(
            aligned, [&] { return all(true); }, [&] { return all(false); });
      },
      [&] { return nothing; });
}

void SimtMatmul::storeTiles(ArrayRef<Val> values, Val k0, Val end, Val buffer) {
  const Val *next = values.begin();
  for (const Operand &operand : operands)
    for (const Slot &slot : operand.slots) {
      Val value = *next++;
      if (splits > 1 || !s.k.exactDiv(SymExpr(int64_t(tile.depth))))
        value = k.select(k0 + k.toIndex(slot.depth) < end, value,
                         zero(operand.vector));
      auto store = [&] {
        Val at = (buffer * int64_t(tile.depth) + slot.depth) *
                     int64_t(operand.pitch()) +
                 slot.position;
        if (!operand.alongDepth || operand.vector == 1)
          return k.store(value, operand.memory, at,
                         {operand.vector > 1 ? 16u : 0u, false});
        for (unsigned lane = 0; lane < operand.vector; ++lane)
          k.store(k.extract(value, lane), operand.memory,
                  at + int64_t(lane) * operand.pitch(), {});
      };
      if (slot.active)
        k.when(slot.active, store);
      else
        store();
    }
}

Val SimtMatmul::fma(Val a, Val b, Val c) {
  if (isa<FloatType>(type))
    return k.wrap(
        math::FmaOp::create(k.builder(), Value(a), Value(b), Value(c)));
  return a * b + c;
}

/// Adds the product of the tiles in `buffer`.
Vals SimtMatmul::multiply(ArrayRef<Val> init, Val buffer) {
  constexpr int64_t kUnroll = 4;
  Type four = VectorType::get({4}, type);
  auto fragments = [&](const Operand &operand, Val at, Val mine,
                       unsigned repeats, unsigned pattern) {
    Vals result;
    Val line = (buffer * int64_t(tile.depth) + at) * int64_t(operand.pitch());
    for (unsigned r = 0; r < repeats; ++r) {
      Val v = k.load(operand.memory, line + mine + int64_t(r) * pattern, four,
                     {16, false});
      for (unsigned lane = 0; lane < 4; ++lane)
        result.push_back(k.extract(v, lane));
    }
    return result;
  };
  return k.loop(k.i32(0), k.i32(tile.depth), k.i32(kUnroll), init,
                [&](Val from, ArrayRef<Val> carried) {
                  Vals sums(carried.begin(), carried.end());
                  for (int64_t u = 0; u < kUnroll; ++u) {
                    Vals a = fragments(operands[0], from + u, myRow,
                                       tile.repeatRows, tile.patternRows());
                    for (unsigned p = 0; p < products; ++p) {
                      Vals b =
                          fragments(operands[1 + p], from + u, myColumn,
                                    tile.repeatColumns, tile.patternColumns());
                      for (unsigned x = 0; x < a.size(); ++x)
                        for (unsigned y = 0; y < b.size(); ++y) {
                          Val &sum = sums[sumAt(p, x / 4, x % 4, y / 4, y % 4)];
                          sum = fma(a[x], b[y], sum);
                        }
                    }
                  }
                  return sums;
                });
}

/// The thread's sums over [begin, end) of K.
Vals SimtMatmul::sumOver(Val begin, Val end) {
  Vals init(numSums(), zero());
  Vals first = loadTiles(begin, end);
  init.append(first.begin(), first.end());
  init.push_back(k.i32(0));
  Val step = k.wrap(ix.constant(tile.depth));
  Vals found =
      k.loop(begin, end, step, init, [&](Val k0, ArrayRef<Val> carried) {
        IndexBuilder::Scope scope(ix);
        Val buffer = carried.back();
        auto tiles = carried.drop_back().drop_front(numSums());
        storeTiles(tiles, k0, end, buffer);
        k.barrier();
        Vals next = loadTiles(k0 + int64_t(tile.depth), end);
        Vals sums = multiply(carried.take_front(numSums()), buffer);
        sums.append(next.begin(), next.end());
        sums.push_back(k.i32(1) - buffer);
        return sums;
      });
  k.barrier();
  return Vals(ArrayRef(found).take_front(numSums()));
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Vectors of `rows` rows of a tile, shared among the threads; positions in
/// the tile, index.
void SimtMatmul::forElements(unsigned rows,
                             llvm::function_ref<void(Val, Val)> body) {
  int64_t perRow = tile.columns() / outVector;
  k.loop(k.toIndex(k.thread()), k.wrap(ix.constant(perRow * rows)),
         k.wrap(ix.constant(threads)), [&](Val number) {
           IndexBuilder::Scope scope(ix);
           body(number / perRow, number % perRow * int64_t(outVector));
         });
}

/// Runs the epilogue at a position of the tile, if there is such an element.
void SimtMatmul::finish(Val row, Val column,
                        llvm::function_ref<Val(unsigned)> sum) {
  Val r = row0 + row, c = column0 + column;
  ix.when((r < m) && (c < n), [&] {
    group.setWidth(outVector);
    Indices at = leading(r);
    at.push_back(ix.index(Value(c), outVector > 1, outVector));
    SmallVector<Epilogue::Element> elements;
    for (auto [p, product] : llvm::enumerate(s.products))
      elements.push_back({product.getResult(), sum(p)});
    epilogue.store(at, elements);
  });
}

/// Through shared memory to the epilogue, one repetition of rows at a time.
void SimtMatmul::storeSums(ArrayRef<Val> sums) {
  int64_t pitch = tile.columns() + 4;
  int64_t size = pitch * tile.patternRows();
  Val memory = operands[0].memory;
  auto repetition =
      [&](Val h,
          llvm::function_ref<Val(unsigned, unsigned, unsigned, unsigned)> sum) {
        Type four = VectorType::get({4}, type);
        for (unsigned p = 0; p < products; ++p)
          for (unsigned i = 0; i < 4; ++i)
            for (unsigned g = 0; g < tile.repeatColumns; ++g) {
              Val v = k.constant(four, 0);
              for (unsigned j = 0; j < 4; ++j)
                v = k.insert(sum(p, i, g, j), v, j);
              Val at = (myRow + int64_t(i)) * pitch + myColumn +
                       (p * size + g * tile.patternColumns());
              k.store(v, memory, at, {16, false});
            }
        k.barrier();
        forElements(tile.patternRows(), [&](Val row, Val column) {
          Val inTile = row + k.toIndex(h) * int64_t(tile.patternRows());
          finish(inTile, column, [&](unsigned p) {
            return k.load(memory, row * pitch + column + int64_t(p) * size,
                          vectorOf(type, outVector),
                          {outVector * std::min(bytes, 4u), false});
          });
        });
        k.barrier();
      };
  if (tile.repeatRows == 1)
    return repetition(k.i32(0),
                      [&](unsigned p, unsigned i, unsigned g, unsigned j) {
                        return sums[sumAt(p, 0, i, g, j)];
                      });
  k.loop(k.i32(0), k.i32(2), k.i32(1), [&](Val h) {
    IndexBuilder::Scope scope(ix);
    Val first = h == k.i32(0);
    repetition(h, [&](unsigned p, unsigned i, unsigned g, unsigned j) {
      return k.select(first, sums[sumAt(p, 0, i, g, j)],
                      sums[sumAt(p, 1, i, g, j)]);
    });
  });
}

/// Through the workspace to the block of this tile that arrives last.
void SimtMatmul::shareSums(ArrayRef<Val> sums, Val split, Val columnTile) {
  int64_t size = int64_t(tile.rows()) * tile.columns();
  int64_t tiles = f.launch.counterBytes / 4;
  // [split][product][tile][row][column]
  auto start = [&](Val split, unsigned p) {
    return ((split * int64_t(products) + int64_t(p)) * tiles + columnTile) *
           size;
  };
  Type four = VectorType::get({4}, type);
  for (unsigned p = 0; p < products; ++p)
    for (unsigned h = 0; h < tile.repeatRows; ++h)
      for (unsigned i = 0; i < 4; ++i)
        for (unsigned g = 0; g < tile.repeatColumns; ++g) {
          Val v = k.constant(four, 0);
          for (unsigned j = 0; j < 4; ++j)
            v = k.insert(sums[sumAt(p, h, i, g, j)], v, j);
          Val row = k.toIndex(myRow) + (int64_t(h) * tile.patternRows() + i);
          Val at = row * int64_t(tile.columns()) + k.toIndex(myColumn) +
                   int64_t(g) * tile.patternColumns();
          k.store(v, f.workspace, start(split, p) + at, {16, false});
        }
  Val last = k.arriveLast(f.counters, columnTile, splits);
  ix.when(last, [&] {
    forElements(tile.rows(), [&](Val row, Val column) {
      finish(row, column, [&](unsigned p) {
        Val at = row * int64_t(tile.columns()) + column;
        Val total;
        for (unsigned i = 0; i < splits; ++i) {
          Val part = k.load(f.workspace, start(k.wrap(ix.constant(i)), p) + at,
                            vectorOf(type, outVector),
                            {outVector * std::min(bytes, 4u), false});
          total = total ? total + part : part;
        }
        return total;
      });
    });
  });
}

void SimtMatmul::tileAt(Val item) {
  auto div = [&](Val a, Val b) { return k.wrap(ix.div(a, b)); };
  auto rem = [&](Val a, Val b) { return k.wrap(ix.rem(a, b)); };
  Val columnTiles = k.wrap(ix.ceilDiv(n, tile.columns()));
  Val rowTiles = k.wrap(ix.ceilDiv(m, tile.rows()));
  Val count = k.wrap(ix.constant(splits));
  Val split = rem(item, count), rest = div(item, count);
  Val columnTile = rem(rest, columnTiles);
  rest = div(rest, columnTiles);
  Val rowTile = rem(rest, rowTiles);
  if (!s.flat)
    batch = *ix.delinearize(ix.index(Value(div(rest, rowTiles))),
                            ArrayRef(s.space).drop_back(2), 1);
  row0 = rowTile * int64_t(tile.rows());
  column0 = columnTile * int64_t(tile.columns());
  prepareSlots(operands[0], row0, m);
  for (unsigned p = 0; p < products; ++p)
    prepareSlots(operands[1 + p], column0, n);
  Val none = k.wrap(ix.constant(0));
  if (splits == 1)
    return storeSums(sumOver(none, depth));
  int64_t chunk = (*s.k.asConstant() + splits - 1) / splits;
  chunk = (chunk + tile.depth - 1) / tile.depth * tile.depth;
  Val begin = split * chunk;
  Val end = k.wrap(ix.min(depth, begin + chunk));
  Val fits = k.wrap(ix.less(rowTiles, ix.constant(2)));
  // More rows than were expected: the first block does all of K.
  Val all = k.select(split == none, depth, none);
  begin = k.select(fits, begin, none);
  end = k.select(fits, end, all);
  Vals sums = sumOver(begin, end);
  ix.when(
      fits, [&] { shareSums(sums, split, columnTile); },
      [&] { ix.when(split == none, [&] { storeSums(sums); }); });
}

void SimtMatmul::build() {
  waitIfProgrammatic(f);
  if (!epilogue.others().empty())
    emitPulled(f, epilogue.others(), 1);
  aligned = f.allAligned();
  Val columnTiles = k.wrap(ix.ceilDiv(n, tile.columns()));
  Val rowTiles = k.wrap(ix.ceilDiv(m, tile.rows()));
  Val items =
      rowTiles * columnTiles * k.wrap(ix.size(s.batch)) * int64_t(splits);
  k.loop(k.toIndex(k.block()), items, k.toIndex(k.blocks()), [&](Val item) {
    IndexBuilder::Scope scope(ix);
    tileAt(item);
  });
}

} // namespace

void hopper::buildSimtMatmul(KernelFunction &f) {
  auto shape = kernels::getProductShape(f.kernel);
  SimtMatmul(f, *shape).build();
}
