//===- BodyEmitter.cpp - A group's body as scalar or vector code ----------===//

#include "fusion/Codegen/Common/BodyEmitter.h"
#include "fusion/Codegen/Common/NarrowFloat.h"
#include "fusion/Kernels/StridedView.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::kernels;

Value EmitterTarget::round(BodyEmitter &emitter, Value value, Type element,
                           bool saturate) {
  return roundThrough(emitter.b(), emitter.loc(), value, element, saturate);
}

BodyEmitter::BodyEmitter(IndexBuilder &index, EmitterTarget &target,
                         bool strict)
    : ix(index), target(target), mathBuilder(index.b(), index.loc()),
      strict(strict) {}

void BodyEmitter::provide(Value tensor, Provider provider) {
  providers[tensor] = std::move(provider);
}

Value BodyEmitter::unsupported(Operation *op, const Twine &reason) {
  if (!hasFailed)
    op->emitError("no code can be generated: ") << reason;
  hasFailed = true;
  Type type = computeType(elementType(op->getResult(0)));
  return arith::ConstantOp::create(b(), loc(), b().getZeroAttr(type));
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

Value BodyEmitter::broadcast(Value value) {
  if (lanes == 1 || isa<VectorType>(value.getType()))
    return value;
  IndexBuilder::Key key{"broadcast", value.getAsOpaquePointer(),
                        reinterpret_cast<const void *>(uintptr_t(lanes))};
  if (Value known = ix.find(key))
    return known;
  Value result = vector::BroadcastOp::create(
      b(), loc(), vectorOf(value.getType(), lanes), value);
  ix.remember(key, result);
  return result;
}

void BodyEmitter::unify(SmallVectorImpl<Value> &values) {
  if (llvm::any_of(values,
                   [](Value v) { return isa<VectorType>(v.getType()); }))
    for (Value &v : values)
      v = broadcast(v);
}

Value BodyEmitter::positions(const Index &index) {
  if (index.lane == 0 || lanes == 1)
    return index.base;
  auto type = cast<VectorType>(vectorOf(b().getIndexType(), lanes));
  SmallVector<Attribute> values;
  for (unsigned lane = 0; lane < lanes; ++lane)
    values.push_back(b().getIndexAttr(lane * index.lane));
  Value step = arith::ConstantOp::create(b(), loc(),
                                         DenseElementsAttr::get(type, values));
  return arith::AddIOp::create(b(), loc(), broadcast(index.base), step);
}

// One lane after another: always right, never fast.
Value BodyEmitter::emitLanes(Value tensor, IndexRef indices) {
  ++laneFallbacks;
  unsigned width = lanes;
  lanes = 1;
  SmallVector<Value> elements;
  for (unsigned lane = 0; lane < width; ++lane) {
    Indices at;
    for (const Index &i : indices)
      at.push_back(ix.index(ix.add(i.base, ix.constant(i.lane * lane))));
    elements.push_back(emit(tensor, at));
  }
  lanes = width;
  return vector::FromElementsOp::create(
      b(), loc(), cast<VectorType>(vectorOf(elements.front().getType(), width)),
      elements);
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

Value BodyEmitter::emitVector(Value tensor, IndexRef indices) {
  return broadcast(emit(tensor, indices));
}

Value BodyEmitter::emit(Value tensor, IndexRef given) {
  auto type = cast<RankedTensorType>(tensor.getType());
  assert(int64_t(given.size()) == type.getRank() && "one index an axis");
  Indices indices(given);
  IndexBuilder::Key key{"element", tensor.getAsOpaquePointer(),
                        reinterpret_cast<const void *>(uintptr_t(lanes))};
  for (auto [axis, i] : llvm::enumerate(indices)) {
    if (type.getDimSize(axis) == 1 || lanes == 1)
      i.lane = 0;
    if (type.getDimSize(axis) == 1)
      i = ix.index(0);
    key.push_back(i.base.getAsOpaquePointer());
    key.push_back(reinterpret_cast<const void *>(i.lane));
  }
  if (Value known = ix.find(key))
    return known;
  Value value = emitNew(tensor, indices);
  ix.remember(key, value);
  return value;
}

static bool producesRounding(Operation *op) {
  auto fusable = dyn_cast<FusableOpInterface>(op);
  if (!fusable)
    return false;
  switch (fusable.getOpClass()) {
  case OpClass::Constant:
  case OpClass::View:
  case OpClass::Gather:
  case OpClass::Append:
    return false;
  default:
    return true;
  }
}

Value BodyEmitter::emitNew(Value tensor, IndexRef indices) {
  if (auto it = providers.find(tensor); it != providers.end())
    if (Value value = it->second(indices))
      return value;
  // Views of an argument that are views of nothing else on the way: a load.
  bool provided = false;
  for (Value v = tensor; Operation *op = v.getDefiningOp();
       v = op->getOperand(0)) {
    if (!isa<ReshapeOp, TransposeOp, ExpandOp, SliceOp>(op))
      break;
    provided |= providers.contains(op->getOperand(0));
  }
  if (!provided)
    if (auto view = getStridedView(tensor)) {
      Index offset = ix.index(ix.size(view->offset));
      for (auto [i, stride] : llvm::zip(indices, view->strides)) {
        if (i.lane != 0 && !stride.isConstant())
          return emitLanes(tensor, indices);
        offset = ix.add(offset, ix.scale(i, stride));
      }
      if (offset.lane != 0 && offset.lane != 1)
        return emitLanes(tensor, indices);
      return emitLoad(view->argument, offset);
    }
  Operation *op = tensor.getDefiningOp();
  Value value = emitOp(op, indices);
  if (strict && producesRounding(op))
    value = target.round(*this, value, elementType(tensor), true);
  return value;
}

Value BodyEmitter::emitLoad(BlockArgument argument, const Index &offset) {
  unsigned width = offset.lane ? lanes : 1;
  IndexBuilder::Key key{"load", argument.getAsOpaquePointer(),
                        offset.base.getAsOpaquePointer(),
                        reinterpret_cast<const void *>(uintptr_t(width))};
  if (Value known = ix.find(key))
    return known;
  Value value = target.load(*this, argument, offset, width);
  ix.remember(key, value);
  return value;
}

Indices BodyEmitter::broadcastIndices(Value operand, IndexRef indices) {
  size_t rank = cast<RankedTensorType>(operand.getType()).getRank();
  return Indices(indices.take_back(rank));
}

Value BodyEmitter::emitElementwise(Operation *op, IndexRef indices) {
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(emit(operand, broadcastIndices(operand, indices)));
  return apply(op, operands);
}

Value BodyEmitter::emitOp(Operation *op, IndexRef indices) {
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](ConstantOp o) { return emitConstant(o, indices); })
      .Case([&](ShapeValueOp o) { return emitShapeValue(o, indices); })
      .Case([&](IotaOp o) { return emitIota(o, indices); })
      .Case([&](TriluOp o) { return emitTrilu(o, indices); })
      .Case([&](ReshapeOp o) { return emitReshape(o, indices); })
      .Case([&](SliceOp o) { return emitSlice(o, indices); })
      .Case([&](TransposeOp o) {
        Indices in(indices);
        for (auto [k, axis] : llvm::enumerate(o.getPerm()))
          in[axis] = indices[k];
        return emit(o.getInput(), in);
      })
      .Case([&](ExpandOp o) {
        return emit(o.getInput(), broadcastIndices(o.getInput(), indices));
      })
      .Case([&](ConcatOp o) {
        return emitPieces(o, llvm::to_vector(o.getInputs()), o.getAxis(),
                          indices);
      })
      .Case([&](KvAppendOp o) { return emitAppend(o, indices); })
      .Case([&](PadOp o) { return emitPad(o, indices); })
      .Case([&](TileOp o) { return emitTile(o, indices); })
      .Case([&](GatherOp o) { return emitGather(o, indices); })
      .Case([&](GatherElementsOp o) { return emitGatherElements(o, indices); })
      .Case([&](GatherNdOp o) { return emitGatherNd(o, indices); })
      .Case([&](DequantizeOp o) { return emitDequantize(o, indices); })
      .Case([&](RopeOp o) { return emitRope(o, indices); })
      .Case<ReduceSumOp, ReduceMeanOp, ReduceMaxOp, ReduceMinOp, ReduceProdOp,
            ReduceAndOp, ReduceOrOp>(
          [&](auto o) { return emitReduction(o, indices); })
      .Case([&](ArgMaxOp o) { return emitArgMax(o, indices); })
      .Case([&](SoftmaxOp o) { return emitSoftmax(o, indices); })
      .Case([&](RmsNormOp o) { return emitRmsNorm(o, indices); })
      .Case([&](LayerNormOp o) { return emitLayerNorm(o, indices); })
      .Case([&](MatmulOp o) { return emitMatmul(o, indices); })
      .Case([&](CumSumOp o) { return emitCumSum(o, indices); })
      .Case([&](AttentionOp o) { return emitAttention(o, indices); })
      .Case(
          [&](ScatterElementsOp o) { return emitScatterElements(o, indices); })
      .Case([&](ScatterNdOp o) { return emitScatterNd(o, indices); })
      .Default([&](Operation *o) -> Value {
        auto fusable = dyn_cast<FusableOpInterface>(o);
        if (fusable && fusable.getOpClass() == OpClass::Elementwise)
          return emitElementwise(o, indices);
        return unsupported(o, "'" + o->getName().getStringRef() +
                                  "' computes no single element");
      });
}
