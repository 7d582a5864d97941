//===- Pulled.cpp - Template: results pulled element by element -----------===//
//
// Takes every body. A thread computes one vector of neighbouring elements of
// each result of a class (kernels::getPulledClasses). Views, broadcasts and
// gathers are index arithmetic of the emitter; what lies in memory as the
// iteration space does is addressed by the flat position, without divisions.
//
//===----------------------------------------------------------------------===//

#include "KernelFunction.h"

#include "fusion/Codegen/Common/NarrowFloat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;
using kernels::PulledClass;
using kernels::PulledResult;

namespace {

class PulledTemplate {
public:
  PulledTemplate(KernelFunction &f, const PulledClass &results, unsigned vector)
      : f(f), k(f.k), ix(f.ix()), group(f.group()), results(results),
        vector(vector),
        elements(numElements(results.front().source.getType())) {}
  void build();

private:
  void forEach(const SymExpr &count, int64_t step,
               llvm::function_ref<void(Val)> body);
  void storeAt(Val start);
  void storeByte(Val byte);
  void provideFlat(Value value);
  Indices indicesOf(Value value);
  Index placeOf(const PulledResult &result);

  KernelFunction &f;
  KernelBuilder &k;
  IndexBuilder &ix;
  BodyEmitter &group;
  const PulledClass &results;
  unsigned vector;
  SymExpr elements;
  Index flat;
  SmallVector<Value> provided; ///< values that may be read by the flat position
};

Indices PulledTemplate::indicesOf(Value value) {
  SymShape shape = getSymShape(value);
  if (auto indices = ix.delinearize(flat, shape, vector))
    return *indices;
  f.fail("a vector crosses the end of an axis");
  return Indices(shape.size(), ix.index(0));
}

/// Where the source's element at the flat position goes.
Index PulledTemplate::placeOf(const PulledResult &result) {
  if (result.dense)
    return flat;
  // What divides the offset lets whole vectors be stored.
  int64_t divisor = vector;
  while (!result.offset.exactDiv(SymExpr(divisor)))
    divisor /= 2;
  Index place = ix.index(ix.size(result.offset), 0, divisor);
  Indices indices = indicesOf(result.source);
  for (auto [at, stride] : llvm::zip(indices, result.strides))
    place = ix.add(place, ix.scale(at, stride));
  if (KvAppendOp append = result.append) {
    Value start = group.appendStart(append, indices.front());
    place = ix.add(place,
                   ix.scale(ix.index(start), result.strides[append.getAxis()]));
  }
  return place;
}

/// Reads `value` by the flat position where it is asked for at that position.
void PulledTemplate::provideFlat(Value value) {
  group.provide(value, [this, value](ArrayRef<Index> indices) -> Value {
    auto mine = ix.delinearize(flat, getSymShape(value), vector);
    if (!mine || group.width() != vector)
      return nullptr;
    for (auto [a, b] : llvm::zip(*mine, indices))
      if (a.base != b.base || a.lane != b.lane)
        return nullptr;
    if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
      auto input =
          ix.delinearize(flat, getSymShape(reshape.getInput()), vector);
      return input ? group.emit(reshape.getInput(), *input) : nullptr;
    }
    return group.getTarget().load(group, cast<BlockArgument>(value), flat,
                                  vector);
  });
}

void PulledTemplate::storeAt(Val start) {
  auto &target = static_cast<CardTarget &>(group.getTarget());
  flat = ix.index(start, vector == 1 ? 0 : 1, vector);
  // Loads of what lies alike first, all of them in flight before the first use.
  SymShape shape = getSymShape(results.front().source);
  for (Value value : provided)
    if (isa<BlockArgument>(value) && getSymShape(value) == shape)
      group.emit(value, indicesOf(value));
  SmallVector<Val> values;
  for (const PulledResult &result : results)
    values.push_back(
        k.wrap(group.emitVector(result.source, indicesOf(result.source))));
  if (waitsLate(f))
    k.waitForPrevious();
  for (auto [result, value] : llvm::zip(results, values))
    target.store(group, value, result.number, placeOf(result));
}

/// All elements of one byte of a packed result, the first in its low bits.
void PulledTemplate::storeByte(Val byte) {
  ImplicitLocOpBuilder &b = k.builder();
  const PulledResult &result = results.front();
  Type element = elementType(result.source);
  unsigned bits = element.getIntOrFloatBitWidth();
  int64_t perByte = 8 / bits;
  Val last = k.wrap(ix.size(elements)) - 1;
  Val packed = k.constant(b.getI8Type(), 0);
  for (int64_t i = 0; i < perByte; ++i) {
    // Beyond the last element the byte repeats it.
    flat = ix.index(Value(k.min(byte * perByte + i, last)));
    Value x = group.emit(result.source, indicesOf(result.source));
    if (isa<FloatType>(element))
      x = encodeFloat(b, b.getLoc(), x, element);
    x = arith::AndIOp::create(
        b, x, Value(k.constant(b.getI8Type(), (1 << bits) - 1)));
    x = arith::ShLIOp::create(b, x, Value(k.constant(b.getI8Type(), i * bits)));
    packed = packed || k.wrap(x);
  }
  if (waitsLate(f))
    k.waitForPrevious();
  Val pointer =
      static_cast<CardTarget &>(group.getTarget())
          .pointers[f.kernel.getBlock()->getNumArguments() + result.number];
  k.store(packed, pointer, byte, {});
}

/// As many turns as the grid leaves: one when it was made for these sizes.
void PulledTemplate::forEach(const SymExpr &count, int64_t step,
                             llvm::function_ref<void(Val)> body) {
  int64_t perBlock = int64_t(f.stage.threads) * step;
  Val begin = k.toIndex(k.block()) * perBlock + k.toIndex(k.thread()) * step;
  Val stride = k.toIndex(k.blocks()) * perBlock;
  k.loop(begin, k.wrap(ix.size(count)), stride, [&](Val at) {
    IndexBuilder::Scope scope(ix);
    body(at);
  });
}

void PulledTemplate::build() {
  unsigned bits = elementType(results.front().source).getIntOrFloatBitWidth();
  if (bits > 1 && bits < 8) {
    int64_t perByte = 8 / bits;
    vector = 1;
    group.setWidth(1);
    if (!results.front().dense)
      return f.fail("a packed result that is not dense");
    forEach(*SymExpr::floorDiv(elements + SymExpr(perByte - 1), perByte), 1,
            [&](Val byte) { storeByte(byte); });
    return;
  }
  group.setWidth(vector);
  for (BlockArgument argument : f.kernel.getBlock()->getArguments())
    if (numElements(argument.getType()) == elements &&
        !hasStorage(argument.getType()))
      provided.push_back(argument);
  for (Operation &op : *f.kernel.getBlock())
    if (isa<ReshapeOp>(op) &&
        numElements(op.getResult(0).getType()) == elements)
      provided.push_back(op.getResult(0));
  for (Value value : provided)
    provideFlat(value);
  forEach(elements, vector, [&](Val start) { storeAt(start); });
  for (Value value : provided)
    group.withdraw(value);
}

} // namespace

void hopper::emitPulled(KernelFunction &f, ArrayRef<unsigned> results,
                        unsigned vector) {
  for (const PulledClass &c : kernels::getPulledClasses(f.kernel, results))
    PulledTemplate(f, c, vector).build();
}

void hopper::waitIfProgrammatic(KernelFunction &f) {
  if (!kernels::isProgrammatic(f.kernel))
    return;
  f.k.releaseNext();
  f.k.waitForPrevious();
}

bool hopper::waitsLate(const KernelFunction &f) {
  KernelOp kernel = f.kernel;
  return kernels::isProgrammatic(kernel) &&
         llvm::all_of(
             kernel.getBlock()->getArguments(), [&](BlockArgument argument) {
               return kernels::isStepInvariant(kernel, argument.getArgNumber());
             });
}

void hopper::buildPulled(KernelFunction &f) {
  if (waitsLate(f))
    f.k.releaseNext();
  else
    waitIfProgrammatic(f);
  SmallVector<unsigned> results;
  for (unsigned i = 0; i < f.kernel.getYield().getNumOperands(); ++i)
    results.push_back(i);
  auto fast = [&] { emitPulled(f, results, f.launch.vector); };
  if (f.launch.vector == 1)
    fast();
  else
    f.whenAligned(fast, [&] { emitPulled(f, results, 1); });
  // Those without elements, too: the kernel ends behind its predecessor.
  if (waitsLate(f))
    f.k.waitForPrevious();
}
