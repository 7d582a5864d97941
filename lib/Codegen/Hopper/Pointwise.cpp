//===- Pointwise.cpp - Template: one element in, one element out ----------===//
//
// Every result has as many elements as the iteration space, in the same order.
// A thread computes one vector of neighbouring elements. Views, broadcasts and
// gathers are index arithmetic of the emitter; what lies in memory as the
// iteration space does is addressed by the flat position, without divisions.
//
//===----------------------------------------------------------------------===//

#include "KernelFunction.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;

namespace {

class PointwiseTemplate {
public:
  PointwiseTemplate(KernelFunction &f, unsigned vector)
      : f(f), k(f.k), ix(f.ix()), group(f.group()), vector(vector),
        elements(
            numElements(f.kernel.getYield().getValues().front().getType())) {}
  void build();

private:
  void storeAt(Value start);
  void provideFlat(Value value);
  Indices indicesOf(Value value);

  KernelFunction &f;
  KernelBuilder &k;
  IndexBuilder &ix;
  BodyEmitter &group;
  unsigned vector;
  SymExpr elements;
  Index flat;
  SmallVector<Value> provided; ///< values that may be read by the flat position
};

Indices PointwiseTemplate::indicesOf(Value value) {
  SymShape shape = getSymShape(value);
  if (auto indices = ix.delinearize(flat, shape, vector))
    return *indices;
  f.fail("a vector crosses the end of an axis");
  return Indices(shape.size(), ix.index(0));
}

/// Reads `value` by the flat position where it is asked for at that position.
void PointwiseTemplate::provideFlat(Value value) {
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

void PointwiseTemplate::storeAt(Value start) {
  auto &target = static_cast<CardTarget &>(group.getTarget());
  flat = ix.index(start, vector == 1 ? 0 : 1, vector);
  auto results = f.kernel.getYield().getValues();
  // Loads of what lies alike first, all of them in flight before the first use.
  SymShape shape = getSymShape(results.front());
  for (Value value : provided)
    if (isa<BlockArgument>(value) && getSymShape(value) == shape)
      group.emit(value, indicesOf(value));
  SmallVector<Val> values;
  for (Value result : results)
    values.push_back(k.wrap(group.emitVector(result, indicesOf(result))));
  for (auto [number, value] : llvm::enumerate(values))
    target.store(group, value, number, flat);
}

void PointwiseTemplate::build() {
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

  int64_t perBlock = int64_t(f.launch.stages[0].threads) * vector;
  Val begin =
      k.toIndex(k.block()) * perBlock + k.toIndex(k.thread()) * int64_t(vector);
  // As many turns as the grid leaves: one when it was made for these sizes.
  Val step = k.toIndex(k.blocks()) * perBlock;
  Val end = k.wrap(ix.size(elements));
  k.loop(begin, end, step, [&](Val start) {
    IndexBuilder::Scope scope(ix);
    storeAt(start);
  });
  for (Value value : provided)
    group.withdraw(value);
}

} // namespace

void hopper::buildPointwise(KernelFunction &f) {
  if (f.kernel.getConfig().getParams().get("programmatic")) {
    f.k.releaseNext();
    f.k.waitForPrevious();
  }
  auto fast = [&] { PointwiseTemplate(f, f.launch.vector).build(); };
  if (f.launch.vector == 1)
    return fast();
  f.whenAligned(fast, [&] { PointwiseTemplate(f, 1).build(); });
}
