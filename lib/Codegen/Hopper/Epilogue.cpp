//===- Epilogue.cpp - What follows a hero, at its elements ----------------===//

#include "Epilogue.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::hopper;

Epilogue::Epilogue(KernelFunction &f, const SymShape &space) : f(f) {
  OperandRange results = f.kernel.getYield().getValues();
  for (unsigned number = 0; number < results.size(); ++number) {
    if (auto output = kernels::getStridedOutput(results[number], space))
      outputs.push_back({number, *output});
    else
      rest.push_back(number);
  }
}

void Epilogue::place(unsigned number, const kernels::StridedOutput &output,
                     ArrayRef<Index> at, Val value) {
  IndexBuilder &ix = f.ix();
  auto offset = [&](ArrayRef<Index> indices) {
    Index sum = ix.index(0);
    for (auto [i, stride] : llvm::zip(indices, output.strides))
      sum = ix.add(sum, ix.scale(i, stride));
    return sum;
  };
  unsigned width = f.group().width();
  if (width == 1 || output.strides.back() == SymExpr(1))
    return f.target->store(f.group(), value, number, offset(at));
  for (unsigned lane = 0; lane < width; ++lane) {
    Indices one(at);
    one.back() =
        ix.index(ix.add(at.back().base, ix.constant(lane * at.back().lane)));
    f.target->store(f.group(), f.k.extract(value, lane), number, offset(one));
  }
}

void Epilogue::store(ArrayRef<Index> at, ArrayRef<Element> elements) {
  BodyEmitter &group = f.group();
  for (const Element &element : elements) {
    Value hero = element.hero, value = element.value;
    if (group.isStrict() && isa<FloatType>(elementType(hero)))
      value = group.getTarget().round(group, value, elementType(hero), true);
    group.provide(hero, [=](ArrayRef<Index> indices) -> Value {
      return isSameElement(hero, indices, at) ? value : nullptr;
    });
  }
  SmallVector<Val> values;
  for (const auto &[number, output] : outputs)
    values.push_back(f.k.wrap(group.emitVector(output.anchor, at)));
  for (const auto &[output, value] : llvm::zip(outputs, values))
    place(output.first, output.second, at, value);
  for (const Element &element : elements)
    group.withdraw(element.hero);
}

bool hopper::roundsAllResults(KernelOp kernel) {
  return llvm::all_of(kernel.getYield().getValues(), [](Value result) {
    Type type = elementType(result);
    return type.isBF16() || type.isF16();
  });
}
