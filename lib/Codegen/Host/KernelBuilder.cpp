//===- KernelBuilder.cpp - One host kernel under construction
//----------------===//

#include "KernelBuilder.h"

#include "fusion/Artifact/HostABI.h"
#include "fusion/Codegen/Common/NarrowFloat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::codegen::host;

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

/// The result of an in-place append is its argument's memory.
static bool mayAlias(KernelOp kernel) {
  return llvm::any_of(*kernel.getBlock(), [](Operation &op) {
    auto append = dyn_cast<KvAppendOp>(op);
    return append && hasStorage(append.getPast().getType());
  });
}

// Two functions: the exported one fetches the pointers, the inner one has them
// as arguments that are known not to alias.
KernelBuilder::KernelBuilder(ModuleOp module, KernelOp kernel, bool strict)
    : kernel(kernel), builder(module.getContext()), loc(kernel.getLoc()) {
  builder.setInsertionPointToEnd(module.getBody());
  Type ptr = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type();
  Type none = LLVM::LLVMVoidType::get(builder.getContext());
  unsigned count = kernel.getBlock()->getNumArguments() +
                   kernel.getYield().getValues().size();
  SmallVector<Type> outerTypes{ptr, ptr, ptr, i64, i64};
  auto outer =
      LLVM::LLVMFuncOp::create(builder, loc, kernel.getSymName(),
                               LLVM::LLVMFunctionType::get(none, outerTypes));
  SmallVector<Type> innerTypes{ptr, ptr, i64, i64};
  innerTypes.append(count, ptr);
  auto inner = LLVM::LLVMFuncOp::create(
      builder, loc, (kernel.getSymName() + ".body").str(),
      LLVM::LLVMFunctionType::get(none, innerTypes), LLVM::Linkage::Internal);
  inner.setNoInline(true);
  if (!mayAlias(kernel))
    for (unsigned i = 4; i < innerTypes.size(); ++i)
      inner.setArgAttr(i, "llvm.noalias", builder.getUnitAttr());

  Block *entry = outer.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  SmallVector<Value> arguments{entry->getArgument(0), entry->getArgument(2),
                               entry->getArgument(3), entry->getArgument(4)};
  for (unsigned i = 0; i < count; ++i) {
    Value slot =
        LLVM::GEPOp::create(builder, loc, ptr, ptr, entry->getArgument(1),
                            ArrayRef<LLVM::GEPArg>{int32_t(i)});
    arguments.push_back(LLVM::LoadOp::create(builder, loc, ptr, slot));
  }
  LLVM::CallOp::create(builder, loc, inner, arguments);
  LLVM::ReturnOp::create(builder, loc, ValueRange());

  Block *block = inner.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  context = block->getArgument(0);
  sizes = block->getArgument(1);
  for (unsigned i = 0; i < count; ++i)
    pointers.push_back(block->getArgument(4 + i));
  Type indexType = builder.getIndexType();
  begin = arith::IndexCastOp::create(builder, loc, indexType,
                                     block->getArgument(2));
  end = arith::IndexCastOp::create(builder, loc, indexType,
                                   block->getArgument(3));
  scratchBase = contextField(offsetof(HostContext, scratch), ptr);
  sgemmFunction = contextField(offsetof(HostContext, sgemm), ptr);
  status = contextField(offsetof(HostContext, status), ptr);
  index.emplace(builder, loc, [this](unsigned number) -> Value {
    if (number >= this->kernel.getNumSizes()) {
      this->kernel.emitError("no code can be generated: a size of the body is "
                             "not among the kernel's ")
          << this->kernel.getNumSizes() << " sizes";
      return c(0);
    }
    Value value = loadVector(sizes, builder.getI64Type(), c(number), 1);
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                      value);
  });
  body.emplace(*index, *this, strict);
}

LogicalResult KernelBuilder::finish() {
  LLVM::ReturnOp::create(builder, loc, ValueRange());
  return success(!hasFailed && !body->failed());
}

Value KernelBuilder::contextField(int64_t byteOffset, Type type) {
  Type ptr = LLVM::LLVMPointerType::get(builder.getContext());
  Value slot =
      LLVM::GEPOp::create(builder, loc, ptr, builder.getI8Type(), context,
                          ArrayRef<LLVM::GEPArg>{int32_t(byteOffset)});
  return LLVM::LoadOp::create(builder, loc, type, slot);
}

Type KernelBuilder::vf32(unsigned width) { return vectorOf(f32(), width); }

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

void KernelBuilder::columns(Value lower, Value upper,
                            llvm::function_ref<void(Index)> body) {
  reduceColumns(
      lower, upper, {},
      [&](Index column, ValueRange) {
        body(column);
        return Carried();
      },
      [](unsigned, Value, Value) { return Value(); });
}

/// A multiple of kLanes, as far as its spelling tells.
static bool isAligned(Value value) {
  if (auto constant = IndexBuilder::asConstant(value))
    return *constant % kLanes == 0;
  auto product = value.getDefiningOp<arith::MulIOp>();
  if (!product)
    return false;
  return llvm::any_of(product->getOperands(), [](Value v) {
    auto constant = IndexBuilder::asConstant(v);
    return constant && *constant % kLanes == 0;
  });
}

/// Vectors that are put together lane by lane are a lot of code; beyond this
/// many operations single elements are as fast.
constexpr int64_t kMaxVectorLoop = 1500;

KernelBuilder::Carried KernelBuilder::reduceColumns(
    Value lower, Value upper, ValueRange neutral,
    llvm::function_ref<Carried(Index, ValueRange)> body, Combine combine) {
  unsigned outerWidth = e().width();
  Value count = ix().sub(upper, lower);
  Value whole = ix().mul(ix().div(count, c(kLanes)), c(kLanes));
  Value split = ix().add(lower, whole);
  auto known = IndexBuilder::asConstant(count);
  Carried result(neutral);
  bool vectors = !known || *known >= kLanes;
  if (vectors) {
    unsigned fallbacks = e().numLaneFallbacks();
    e().setWidth(kLanes);
    Carried init;
    for (Value v : neutral)
      init.push_back(e().broadcast(v));
    int64_t divisor = isAligned(lower) ? kLanes : 1;
    Carried found = ix().loop(
        lower, split, kLanes, init, [&](Value iv, ValueRange carried) {
          Carried next = body(ix().index(iv, 1, divisor), carried);
          for (Value &v : next)
            v = e().broadcast(v);
          return next;
        });
    Operation *loop = &*std::prev(builder.getInsertionPoint());
    int64_t count = 0, loops = 0;
    loop->walk([&](Operation *op) {
      ++count;
      loops += isa<scf::ForOp>(op);
    });
    bool large = count > kMaxVectorLoop || loops > 1;
    if (e().numLaneFallbacks() > fallbacks && large) {
      loop->erase();
      vectors = false;
    } else {
      for (unsigned i = 0; i < found.size(); ++i)
        result[i] = horizontal(
            found[i], [&](Value a, Value b) { return combine(i, a, b); });
    }
  }
  if (!vectors)
    split = lower;
  if (!vectors || !known || *known % kLanes != 0) {
    e().setWidth(1);
    result =
        ix().loop(split, upper, 1, result, [&](Value iv, ValueRange carried) {
          return body(ix().index(iv), carried);
        });
  }
  e().setWidth(outerWidth);
  return result;
}

Value KernelBuilder::horizontal(
    Value vector, llvm::function_ref<Value(Value, Value)> combine) {
  auto type = cast<VectorType>(vector.getType());
  for (int64_t width = type.getDimSize(0); width > 1; width /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < width / 2; ++i) {
      low.push_back(i);
      high.push_back(i + width / 2);
    }
    Value a = vector::ShuffleOp::create(builder, loc, vector, vector, low);
    Value b = vector::ShuffleOp::create(builder, loc, vector, vector, high);
    vector = combine(a, b);
  }
  return vector::ExtractOp::create(builder, loc, vector, ArrayRef<int64_t>{0});
}

Value KernelBuilder::sum(Value vector) {
  return horizontal(vector, [&](Value a, Value b) { return math().add(a, b); });
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value KernelBuilder::toI64(Value value) {
  return arith::IndexCastOp::create(builder, loc, builder.getI64Type(), value);
}

Value KernelBuilder::pointer(BlockArgument argument) {
  return pointers[argument.getArgNumber()];
}
Value KernelBuilder::resultPointer(unsigned result) {
  return pointers[kernel.getBlock()->getNumArguments() + result];
}

Value KernelBuilder::at(Value pointer, Type element, Value offset) {
  if (auto constant = IndexBuilder::asConstant(offset); constant && !*constant)
    return pointer;
  return LLVM::GEPOp::create(builder, loc, pointer.getType(), element, pointer,
                             ArrayRef<LLVM::GEPArg>{toI64(offset)});
}

static unsigned bytesOf(Type element) {
  return element.getIntOrFloatBitWidth() / 8;
}

Value KernelBuilder::loadVector(Value pointer, Type element, Value offset,
                                unsigned width) {
  return LLVM::LoadOp::create(builder, loc, vectorOf(element, width),
                              at(pointer, element, offset), bytesOf(element));
}

void KernelBuilder::storeVector(Value pointer, Type element, Value offset,
                                Value value) {
  LLVM::StoreOp::create(builder, loc, value, at(pointer, element, offset),
                        bytesOf(element));
}

Value KernelBuilder::loadF32(Value base, Value offset, unsigned width) {
  return loadVector(base, f32(), offset, width);
}
void KernelBuilder::storeF32(Value base, Value offset, Value value) {
  storeVector(base, f32(), offset, value);
}

Value KernelBuilder::scratch(const SymExpr &byteOffset) {
  return ix().hoisted(
      [&] { return at(scratchBase, builder.getI8Type(), size(byteOffset)); });
}

void KernelBuilder::prefetch(Value pointer) {
  LLVM::Prefetch::create(builder, loc, pointer, /*rw=*/0, /*hint=*/3,
                         /*cache=*/1);
}

Index KernelBuilder::offsetOf(ArrayRef<Index> indices, const SymShape &strides,
                              const SymExpr &start) {
  Index offset = ix().index(size(start));
  for (auto [i, stride] : llvm::zip(indices, strides)) {
    Index scaled = ix().scale(i, stride);
    // A symbolic distance between lanes: no vector lies there.
    if (i.lane != 0 && !stride.isConstant())
      scaled.lane = INT32_MAX;
    offset = ix().add(offset, scaled);
  }
  return offset;
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

Value KernelBuilder::loadNibbles(Value base, const Index &offset,
                                 unsigned width, bool isSigned) {
  Type i8 = builder.getI8Type();
  auto low = [&](Value bytes) -> Value {
    Value four = math().integer(4, bytes);
    if (!isSigned)
      return arith::AndIOp::create(builder, loc, bytes,
                                   math().integer(15, bytes));
    Value up = arith::ShLIOp::create(builder, loc, bytes, four);
    return arith::ShRSIOp::create(builder, loc, up, four);
  };
  auto high = [&](Value bytes) -> Value {
    Value four = math().integer(4, bytes);
    if (isSigned)
      return arith::ShRSIOp::create(builder, loc, bytes, four);
    return arith::ShRUIOp::create(builder, loc, bytes, four);
  };
  Value byte = ix().div(offset.base, c(2));
  if (width > 1 && offset.divisor % 2 == 0) {
    Value bytes = loadVector(base, i8, byte, width / 2);
    return vector::InterleaveOp::create(builder, loc, low(bytes), high(bytes));
  }
  if (width > 1) {
    SmallVector<Value> lanes;
    for (unsigned lane = 0; lane < width; ++lane)
      lanes.push_back(loadNibbles(
          base, ix().index(ix().add(offset.base, c(lane))), 1, isSigned));
    return vector::FromElementsOp::create(
        builder, loc, cast<VectorType>(vectorOf(i8, width)), lanes);
  }
  Value bytes = loadVector(base, i8, byte, 1);
  Value odd = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                    ix().rem(offset.base, c(2)), c(0));
  return math().select(odd, high(bytes), low(bytes));
}

Value KernelBuilder::loadPairs(Value base, const Index &offset, unsigned width,
                               bool isSigned) {
  Type i8 = builder.getI8Type();
  if (width > 1) {
    SmallVector<Value> lanes;
    for (unsigned lane = 0; lane < width; ++lane)
      lanes.push_back(loadPairs(
          base, ix().index(ix().add(offset.base, c(lane))), 1, isSigned));
    return vector::FromElementsOp::create(
        builder, loc, cast<VectorType>(vectorOf(i8, width)), lanes);
  }
  Value byte = loadVector(base, i8, ix().div(offset.base, c(4)), 1);
  Value up = arith::ShLIOp::create(builder, loc, byte,
                                   pairShift(offset.base, /*fromTop=*/true));
  Value six = math().integer(6, byte);
  if (isSigned)
    return arith::ShRSIOp::create(builder, loc, up, six);
  return arith::ShRUIOp::create(builder, loc, up, six);
}

Value KernelBuilder::pairShift(Value offset, bool fromTop) {
  Value place = ix().rem(offset, c(4));
  if (fromTop)
    place = ix().sub(c(3), place);
  return arith::IndexCastOp::create(builder, loc, builder.getI8Type(),
                                    ix().mul(place, c(2)));
}

Value KernelBuilder::load(BodyEmitter &emitter, BlockArgument argument,
                          const Index &offset, unsigned width) {
  return loadElements(pointer(argument), elementType(argument.getType()),
                      offset, width);
}

Value KernelBuilder::loadElements(Value base, Type element, const Index &offset,
                                  unsigned width) {
  unsigned bits = element.getIntOrFloatBitWidth();
  if (bits == 1) {
    Value byte = loadVector(base, builder.getI8Type(), offset.base, width);
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, byte,
                                 math().integer(0, byte));
  }
  if (bits == 4) {
    bool isSigned = isa<IntegerType>(element) && !isUnsigned(element);
    Value raw = loadNibbles(base, offset, width, isSigned);
    return isa<IntegerType>(element) ? raw
                                     : decodeFloat(builder, loc, raw, element);
  }
  if (bits == 2)
    return loadPairs(base, offset, width, !isUnsigned(element));
  bool narrow = isa<FloatType>(element) && bits < 32;
  Type storage = narrow || isa<IntegerType>(element)
                     ? Type(builder.getIntegerType(bits))
                     : element;
  Value raw = loadVector(base, storage, offset.base, width);
  return narrow ? decodeFloat(builder, loc, raw, element) : raw;
}

void KernelBuilder::report(BodyEmitter &emitter, Value condition,
                           int32_t code) {
  ix().when(condition, [&] {
    Type i32 = builder.getI32Type();
    Value old = loadVector(status, i32, c(0), 1);
    Value zero = math().integer(0, old);
    Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq,
                                        old, zero);
    Value next = math().select(first, math().integer(code, old), old);
    storeVector(status, i32, c(0), next);
  });
}

// Two elements a byte, the first in the low bits. Vectors that begin at a byte
// are packed; a single element replaces its half of the byte.
void KernelBuilder::storeNibbles(Value base, const Index &offset, Value value) {
  Type i8 = builder.getI8Type();
  auto half = [&](Value v) -> Value {
    return arith::AndIOp::create(builder, loc, v, math().integer(15, v));
  };
  auto up = [&](Value v) -> Value {
    return arith::ShLIOp::create(builder, loc, v, math().integer(4, v));
  };
  auto join = [&](Value a, Value b) -> Value {
    return arith::OrIOp::create(builder, loc, a, b);
  };
  unsigned width = offset.lane == 0 ? 1 : e().width();
  if (width == 1) {
    Value byte = ix().div(offset.base, c(2));
    Value old = loadVector(base, i8, byte, 1);
    Value odd = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne,
                                      ix().rem(offset.base, c(2)), c(0));
    Value low = join(
        arith::AndIOp::create(builder, loc, old, math().integer(0xf0, old)),
        half(value));
    Value high = join(half(old), up(value));
    storeVector(base, i8, byte, math().select(odd, high, low));
    return;
  }
  value = e().broadcast(value);
  if (offset.lane == 1 && offset.divisor % 2 == 0) {
    SmallVector<int64_t> even, odd;
    for (unsigned i = 0; i < width; i += 2) {
      even.push_back(i);
      odd.push_back(i + 1);
    }
    Value low = vector::ShuffleOp::create(builder, loc, value, value, even);
    Value high = vector::ShuffleOp::create(builder, loc, value, value, odd);
    storeVector(base, i8, ix().div(offset.base, c(2)),
                join(half(low), up(high)));
    return;
  }
  for (unsigned lane = 0; lane < width; ++lane) {
    Value one =
        vector::ExtractOp::create(builder, loc, value, ArrayRef<int64_t>{lane});
    Value where = ix().add(offset.base, c(lane * offset.lane));
    storeNibbles(base, ix().index(where), one);
  }
}

// Four elements a byte, one after another.
void KernelBuilder::storePairs(Value base, const Index &offset, Value value) {
  Type i8 = builder.getI8Type();
  unsigned width = offset.lane == 0 ? 1 : e().width();
  if (width > 1)
    value = e().broadcast(value);
  for (unsigned lane = 0; lane < width; ++lane) {
    Value one = width == 1 ? value
                           : Value(vector::ExtractOp::create(
                                 builder, loc, value, ArrayRef<int64_t>{lane}));
    Value where = ix().add(offset.base, c(lane * offset.lane));
    Value byte = ix().div(where, c(4));
    Value shift = pairShift(where, /*fromTop=*/false);
    auto place = [&](Value v) -> Value {
      return arith::ShLIOp::create(builder, loc, v, shift);
    };
    Value old = loadVector(base, i8, byte, 1);
    Value three = math().integer(3, old);
    Value kept = arith::XOrIOp::create(builder, loc, place(three),
                                       math().integer(-1, old));
    kept = arith::AndIOp::create(builder, loc, old, kept);
    Value fresh = arith::AndIOp::create(builder, loc, one, three);
    storeVector(base, i8, byte,
                arith::OrIOp::create(builder, loc, kept, place(fresh)));
  }
}

void KernelBuilder::storeResult(unsigned result, Index offset, Value value) {
  Type element = elementType(kernel.getYield().getValues()[result].getType());
  Value base = resultPointer(result);
  unsigned bits = element.getIntOrFloatBitWidth();
  // Casts have rounded to narrow floats already, and what they leave infinite
  // stays so.
  auto encoded = [&] {
    return encodeFloat(builder, loc, value, element, /*saturate=*/false);
  };
  if (bits == 4)
    return storeNibbles(base, offset,
                        isa<FloatType>(element) ? encoded() : value);
  if (bits == 2)
    return storePairs(base, offset, value);
  Value stored = value;
  Type storage = element;
  if (isa<FloatType>(element) && bits < 32) {
    storage = builder.getIntegerType(bits);
    stored = encoded();
  } else if (bits == 1) {
    storage = builder.getI8Type();
    Type type = storage;
    if (auto vector = dyn_cast<VectorType>(value.getType()))
      type = VectorType::get(vector.getShape(), storage);
    stored = arith::ExtUIOp::create(builder, loc, type, value);
  } else if (isa<IntegerType>(element)) {
    storage = builder.getIntegerType(bits);
  }
  if (e().width() == 1 || offset.lane == 0) {
    storeVector(base, storage, offset.base, stored);
    return;
  }
  stored = e().broadcast(stored);
  if (offset.lane == 1) {
    storeVector(base, storage, offset.base, stored);
    return;
  }
  for (unsigned lane = 0; lane < e().width(); ++lane) {
    Value one = vector::ExtractOp::create(builder, loc, stored,
                                          ArrayRef<int64_t>{lane});
    Value where = ix().add(offset.base, c(lane * offset.lane));
    storeVector(base, storage, where, one);
  }
}

//===----------------------------------------------------------------------===//
// BLAS
//===----------------------------------------------------------------------===//

void KernelBuilder::sgemm(Value m, Value n, Value k, const Matrix &a,
                          const Matrix &b, const Matrix &cm) {
  Type ptr = LLVM::LLVMPointerType::get(builder.getContext());
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
  SmallVector<Type> types{i32, i32, i64, i64,   i64, f32(), ptr,
                          i64, ptr, i64, f32(), ptr, i64};
  auto flag = [&](bool set) -> Value {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getI32IntegerAttr(set));
  };
  auto real = [&](float x) -> Value {
    return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(x));
  };
  // A stride of at least 1 pleases BLAS where a single row has none.
  auto stride = [&](const Matrix &x) {
    return toI64(ix().max(x.stride, c(1)));
  };
  SmallVector<Value> operands{
      sgemmFunction, flag(a.transposed), flag(b.transposed),
      toI64(m),      toI64(n),           toI64(k),
      real(1),       a.pointer,          stride(a),
      b.pointer,     stride(b),          real(0),
      cm.pointer,    stride(cm)};
  LLVM::CallOp::create(
      builder, loc,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  types),
      operands);
}
