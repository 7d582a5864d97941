//===- TileEpilogue.cpp - From accumulators to results --------------------===//

#include "TileEpilogue.h"
#include "Pipeline.h"
#include "Warpgroup.h"
#include "Wgmma.h"

#include "fusion/Kernels/WgmmaMatmul.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;

static constexpr unsigned kPieceColumns = 8;

TileEpilogue::TileEpilogue(KernelFunction &f, const TileSpace &space,
                           Val staging, Val barrier)
    : f(f), k(f.k), ix(f.ix()), group(f.group()), space(space),
      staging(staging), barrier(barrier), width(space.columns % 2 ? 1 : 2) {
  OperandRange results = f.kernel.getYield().getValues();
  for (unsigned number = 0; number < results.size(); ++number) {
    auto view = kernels::getStridedOutput(results[number], space.shape);
    if (!view) {
      f.fail("a result does not lie over the product");
      return;
    }
    outputs.push_back({number, *view, false});
    outputs.back().staged = canStage(outputs.back());
  }
}

/// Rows of whole 16-byte pieces.
bool TileEpilogue::canStage(const Output &output) const {
  Type element = elementType(f.kernel.getYield().getValues()[output.number]);
  if (!element.isBF16() && !element.isF16())
    return false;
  const SymShape &strides = output.view.strides;
  return space.columns % kPieceColumns == 0 && strides.back() == SymExpr(1) &&
         llvm::all_of(ArrayRef(strides).drop_back(), [](const SymExpr &s) {
           return bool(s.exactDiv(SymExpr(int64_t(kPieceColumns))));
         });
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

/// Positions along all axes but the last; rows past the end give the last one.
Indices TileEpilogue::leading(const Indices &batch, Val row) {
  Value last = ix.sub(ix.size(space.rows), ix.constant(1));
  Index i = ix.index(ix.min(k.toIndex(row), last));
  if (space.flat)
    return *ix.delinearize(i, ArrayRef(space.shape).drop_back(), 1);
  Indices lead(batch);
  lead.push_back(i);
  return lead;
}

Index TileEpilogue::offsetOf(const Indices &at, const SymShape &strides) {
  Index offset = ix.index(0);
  for (auto [i, stride] : llvm::zip(at, strides))
    offset = ix.add(offset, ix.scale(i, stride));
  return offset;
}

Value TileEpilogue::emitAt(Value value, unsigned block, unsigned half,
                           unsigned element) {
  Value column = k.toIndex(firstColumn);
  column = ix.add(column, ix.constant(8 * block + element));
  // Columns past the end give the last ones.
  if (!whole)
    column = ix.min(column, ix.constant(space.columns - width));
  at = lead[half];
  at.push_back(ix.index(column, width == 2 ? 1 : 0, width));
  firstRegister = 4 * block + 2 * half + element;
  return group.emitVector(value, at);
}

void TileEpilogue::provideProducts() {
  for (auto [number, product] : llvm::enumerate(space.products)) {
    Value result = MatmulOp(product).getResult();
    unsigned base = number * perProduct;
    group.provide(result, [this, result, base](ArrayRef<Index> asked) -> Value {
      auto type = cast<RankedTensorType>(result.getType());
      for (auto [axis, a, b] : llvm::enumerate(asked, at))
        if (type.getDimSize(axis) != 1 &&
            (a.base != b.base || a.lane != b.lane))
          return nullptr;
      Value x = registers[base + firstRegister];
      if (width == 2)
        x = vector::FromElementsOp::create(
            k.builder(), VectorType::get({2}, x.getType()),
            ValueRange{x, registers[base + firstRegister + 1]});
      if (group.isStrict())
        x = f.target->round(group, x, type.getElementType(), true);
      return x;
    });
  }
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void TileEpilogue::writeFragments(const Output &output, Chunk chunk,
                                  Val buffer) {
  Type element = elementType(f.kernel.getYield().getValues()[output.number]);
  for (unsigned block = 0; block < chunk.columns / 8; block += 2) {
    SmallVector<Val, 4> pairs;
    for (unsigned i = 0; i < 4; ++i) {
      Val value = k.wrap(emitAt(output.view.anchor,
                                chunk.first / 8 + block + i / 2, i % 2, 0));
      Val rounded = k.round(value, element);
      pairs.push_back(k.wrap(LLVM::BitcastOp::create(
          k.builder(), k.builder().getI32Type(), rounded)));
    }
    storeFragment(k, fragmentPointer(k, buffer, block), pairs);
  }
}

/// By one thread, which waits for it only when the buffer is needed again.
void TileEpilogue::sendBox(const Output &output, Chunk chunk, Val buffer) {
  Val column = column0 + int64_t(chunk.first);
  SmallVector<Val, 4> to = {column, row0};
  for (unsigned axis : llvm::reverse(space.boxes[output.number].batchAxes))
    to.push_back(k.toI32(k.wrap(batch[axis].base)));
  Val some = row0 < rowCount;
  if (!whole)
    some = some && column < k.i32(space.columns);
  k.when(some, [&] { storeTile(k, space.maps[output.number], buffer, to); });
}

void TileEpilogue::finish() {
  if (sends())
    k.when(threadInGroup(k) == 0, [&] { waitStores(k, 0, /*done=*/true); });
}

/// Columns through shared memory.
void TileEpilogue::stage(const Output &output, Chunk chunk) {
  bool box = sends() && chunk.columns == kernels::kResultBoxColumns;
  Val first = threadInGroup(k) == 0;
  // Two buffers. Threads that copy have left one at the barrier of the chunk
  // between; a box has left it when all but the last are under way. (The boxes
  // of an earlier tile have had its products' time.)
  unsigned pending = stagedChunks == 0 ? 0 : 1;
  Val buffer =
      k.at(staging, int64_t(stagedChunks++ % 2) * kernels::kStagingBytes);
  if (sends()) {
    k.when(first, [&] { waitStores(k, pending); });
    meet(k, barrier, kWarpgroup);
  }
  writeFragments(output, chunk, buffer);
  if (box)
    fenceForAsync(k);
  meet(k, barrier, kWarpgroup);
  if (!box)
    copyOut(output, chunk, buffer);
  if (sends())
    k.when(first, [&] {
      if (box)
        sendBox(output, chunk, buffer);
      commitStores(k);
    });
}

/// Whole rows of the chunk, 16 bytes a thread.
void TileEpilogue::copyOut(const Output &output, Chunk chunk, Val buffer) {
  Type element = elementType(f.kernel.getYield().getValues()[output.number]);
  Val thread = threadInGroup(k);
  unsigned pieces = chunk.columns / kPieceColumns; // of a row: a power of two
  unsigned rows = kWarpgroup / pieces;             // at a time
  Val piece = thread & int64_t(pieces - 1);
  Val row = thread >> int64_t(llvm::Log2_32(pieces));
  Val source = k.at(buffer, (row << 7) + ((piece ^ (row & 7)) << 4));
  Val column = column0 + int64_t(chunk.first) + (piece << 3);
  Type vector = VectorType::get({kPieceColumns}, element);
  Val pointer =
      f.target
          ->pointers[f.kernel.getBlock()->getNumArguments() + output.number];
  Val fits = column < k.i32(space.columns);
  for (unsigned done = 0; done < kernels::kWgmmaRows; done += rows) {
    Val mine = row0 + row + int64_t(done);
    Indices to = leading(batch, mine);
    to.push_back(ix.index(k.toIndex(column), 1, kPieceColumns));
    Index offset = offsetOf(to, output.view.strides);
    Val inside = mine < rowCount;
    k.when(whole ? inside : inside && fits, [&] {
      Val value = k.load(k.at(source, int64_t(done) * kernels::kTileRowBytes),
                         k.i32(0), vector, {16, false});
      k.store(value, pointer, k.wrap(offset.base), {16, false});
    });
  }
}

/// From the fragments: elements as they lie.
void TileEpilogue::storeDirect(const Output &output, Chunk chunk) {
  bool together = output.view.strides.back() == SymExpr(1);
  for (unsigned block = chunk.first / 8;
       block < (chunk.first + chunk.columns) / 8; ++block)
    for (unsigned half = 0; half < 2; ++half)
      for (unsigned element = 0; element < 2; element += width) {
        Value value = emitAt(output.view.anchor, block, half, element);
        Val column = firstColumn + (int64_t(8) * block + element);
        Val fits = inside[half];
        if (!whole)
          fits = fits && (column < k.i32(space.columns));
        SmallVector<Index, 2> offsets;
        for (unsigned lane = 0; lane < (together ? 1 : width); ++lane) {
          Indices to(at);
          if (!together)
            to.back() =
                ix.index(ix.add(at.back().base, ix.constant(int64_t(lane))));
          offsets.push_back(offsetOf(to, output.view.strides));
        }
        k.when(fits, [&] {
          IndexBuilder::Scope scope(ix);
          for (auto [lane, offset] : llvm::enumerate(offsets)) {
            Val part = k.wrap(value);
            if (!together && width == 2)
              part = k.extract(part, lane);
            f.target->store(group, part, output.number, offset);
          }
        });
      }
}

void TileEpilogue::store(ArrayRef<Val> accumulators, unsigned columns,
                         bool allInside, const Indices &batchAt, Val firstRow,
                         Val column) {
  IndexBuilder::Scope scope(ix);
  group.setWidth(width);
  registers = accumulators;
  perProduct = accumulators.size() / space.products.size();
  whole = allInside;
  batch = batchAt;
  row0 = firstRow;
  column0 = column;
  rowCount = k.toI32(k.wrap(ix.size(space.rows)));
  firstColumn = column0 + ((k.lane() & 3) << 1);
  Val row = row0 + (warpInGroup(k) << 4) + (k.lane() >> 2);
  for (unsigned half = 0; half < 2; ++half) {
    Val mine = row + (int64_t(8) * half);
    inside[half] = mine < rowCount;
    lead[half] = leading(batch, mine);
  }
  provideProducts();
  assert(columns % 16 == 0 && "chunks are at least 16 columns");
  for (Chunk chunk{0, 0}; chunk.first < columns; chunk.first += chunk.columns) {
    chunk.columns = std::min(64u, llvm::bit_floor(columns - chunk.first));
    for (const Output &output : outputs) {
      if (output.staged)
        stage(output, chunk);
      else
        storeDirect(output, chunk);
    }
  }
  // An odd number of chunks: the next tile starts with the first buffer again.
  if (!sends() && stagedChunks % 2)
    meet(k, barrier, kWarpgroup);
  stagedChunks = 0;
  for (MatmulOp product : space.products)
    group.withdraw(product.getResult());
}
