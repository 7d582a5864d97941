//===- KernelBuilder.cpp - A thin layer for writing kernels ---------------===//

#include "KernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/Twine.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::hopper;

namespace {

bool isFloat(Type type) { return isa<FloatType>(getElementTypeOrSelf(type)); }

/// Fused multiply-add is allowed; nothing else is.
constexpr arith::FastMathFlags kContract = arith::FastMathFlags::contract;

/// Gives both operands the same type: a scalar meets a vector as a splat.
std::pair<Val, Val> unify(Val a, Val b) {
  auto va = dyn_cast<VectorType>(a.type()), vb = dyn_cast<VectorType>(b.type());
  if (va && !vb)
    b = b.builder()->splat(b, va.getNumElements());
  else if (vb && !va)
    a = a.builder()->splat(a, vb.getNumElements());
  assert(a.type() == b.type() && "operands of one operator have one type");
  return {a, b};
}

template <typename FloatOp, typename IntOp>
Val binary(Val x, Val y) {
  auto [a, b] = unify(x, y);
  KernelBuilder *k = a.builder();
  if (isFloat(a.type()))
    return k->wrap(
        FloatOp::create(k->builder(), Value(a), Value(b), kContract));
  return k->wrap(IntOp::create(k->builder(), Value(a), Value(b)));
}

Val like(Val a, int64_t constant) {
  return a.builder()->constant(a.type(), constant);
}

} // namespace

Val hopper::operator+(Val a, Val b) {
  return binary<arith::AddFOp, arith::AddIOp>(a, b);
}
Val hopper::operator-(Val a, Val b) {
  return binary<arith::SubFOp, arith::SubIOp>(a, b);
}
Val hopper::operator*(Val a, Val b) {
  return binary<arith::MulFOp, arith::MulIOp>(a, b);
}
Val hopper::operator/(Val a, Val b) {
  return binary<arith::DivFOp, arith::DivSIOp>(a, b);
}
Val hopper::operator%(Val a, Val b) {
  return binary<arith::RemFOp, arith::RemSIOp>(a, b);
}
Val hopper::operator+(Val a, int64_t b) { return b ? a + like(a, b) : a; }
Val hopper::operator-(Val a, int64_t b) { return b ? a - like(a, b) : a; }
Val hopper::operator*(Val a, int64_t b) { return b == 1 ? a : a * like(a, b); }
Val hopper::operator/(Val a, int64_t b) { return b == 1 ? a : a / like(a, b); }
Val hopper::operator%(Val a, int64_t b) { return a % like(a, b); }

Val hopper::operator<(Val x, Val y) {
  auto [a, b] = unify(x, y);
  KernelBuilder *k = a.builder();
  if (isFloat(a.type()))
    return k->wrap(
        arith::CmpFOp::create(k->builder(), arith::CmpFPredicate::OLT, a, b));
  return k->wrap(
      arith::CmpIOp::create(k->builder(), arith::CmpIPredicate::slt, a, b));
}

Val hopper::operator==(Val x, Val y) {
  auto [a, b] = unify(x, y);
  KernelBuilder *k = a.builder();
  if (isFloat(a.type()))
    return k->wrap(
        arith::CmpFOp::create(k->builder(), arith::CmpFPredicate::OEQ, a, b));
  return k->wrap(
      arith::CmpIOp::create(k->builder(), arith::CmpIPredicate::eq, a, b));
}

Val hopper::operator<(Val a, int64_t b) { return a < like(a, b); }
Val hopper::operator==(Val a, int64_t b) { return a == like(a, b); }

Val hopper::operator!=(Val x, Val y) {
  auto [a, b] = unify(x, y);
  KernelBuilder *k = a.builder();
  if (isFloat(a.type()))
    return k->wrap(
        arith::CmpFOp::create(k->builder(), arith::CmpFPredicate::UNE, a, b));
  return k->wrap(
      arith::CmpIOp::create(k->builder(), arith::CmpIPredicate::ne, a, b));
}

template <typename OpT>
static Val bitwise(Val x, Val y) {
  auto [a, b] = unify(x, y);
  KernelBuilder *k = a.builder();
  return k->wrap(OpT::create(k->builder(), Value(a), Value(b)));
}

Val hopper::operator&(Val a, Val b) { return bitwise<arith::AndIOp>(a, b); }
Val hopper::operator|(Val a, Val b) { return bitwise<arith::OrIOp>(a, b); }
Val hopper::operator^(Val a, Val b) { return bitwise<arith::XOrIOp>(a, b); }
Val hopper::operator&(Val a, int64_t b) { return a & like(a, b); }
Val hopper::operator|(Val a, int64_t b) { return b ? a | like(a, b) : a; }
Val hopper::operator^(Val a, int64_t b) { return b ? a ^ like(a, b) : a; }
Val hopper::operator<<(Val a, int64_t bits) {
  return bits ? bitwise<arith::ShLIOp>(a, like(a, bits)) : a;
}
Val hopper::operator>>(Val a, int64_t bits) {
  return bits ? bitwise<arith::ShRUIOp>(a, like(a, bits)) : a;
}

Val hopper::operator&&(Val a, Val b) {
  KernelBuilder *k = a.builder();
  return k->wrap(arith::AndIOp::create(k->builder(), Value(a), Value(b)));
}

Val hopper::operator||(Val a, Val b) {
  KernelBuilder *k = a.builder();
  return k->wrap(arith::OrIOp::create(k->builder(), Value(a), Value(b)));
}

Val hopper::operator!(Val a) {
  KernelBuilder *k = a.builder();
  return k->wrap(arith::XOrIOp::create(k->builder(), Value(a),
                                       Value(k->constant(a.type(), 1))));
}

//===----------------------------------------------------------------------===//
// Constants and conversions
//===----------------------------------------------------------------------===//

Val KernelBuilder::i32(int64_t value) {
  return constant(b.getI32Type(), value);
}
Val KernelBuilder::i64(int64_t value) {
  return constant(b.getI64Type(), value);
}

Val KernelBuilder::f32(double value) {
  return wrap(arith::ConstantOp::create(b, b.getF32FloatAttr(float(value))));
}

Val KernelBuilder::constant(Type type, int64_t value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attr;
  if (isa<FloatType>(element))
    attr = b.getFloatAttr(element, double(value));
  else
    attr = b.getIntegerAttr(element, value);
  if (auto vector = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vector, Attribute(attr));
  return wrap(arith::ConstantOp::create(b, attr));
}

Val KernelBuilder::toI64(Val value) {
  if (value.type().isInteger(64))
    return value;
  if (value.type().isIndex())
    return wrap(arith::IndexCastOp::create(b, b.getI64Type(), value));
  return wrap(arith::ExtSIOp::create(b, b.getI64Type(), value));
}

Val KernelBuilder::toIndex(Val value) {
  if (value.type().isIndex())
    return value;
  return wrap(arith::IndexCastOp::create(b, b.getIndexType(), value));
}

Val KernelBuilder::toI32(Val value) {
  if (value.type().isInteger(32))
    return value;
  if (value.type().isIndex())
    return wrap(arith::IndexCastOp::create(b, b.getI32Type(), value));
  return wrap(arith::TruncIOp::create(b, b.getI32Type(), value));
}

Val KernelBuilder::splat(Val value, unsigned lanes) {
  return wrap(vector::BroadcastOp::create(
      b, VectorType::get({lanes}, value.type()), value));
}

Val KernelBuilder::bitcast(Val value, Type type) {
  return value.type() == type
             ? value
             : wrap(LLVM::BitcastOp::create(b, type, Value(value)));
}

Val KernelBuilder::toInteger(Val pointer) {
  return wrap(LLVM::PtrToIntOp::create(b, b.getI64Type(), Value(pointer)));
}

VectorType KernelBuilder::vectorType(unsigned lanes, unsigned bits) {
  return VectorType::get({int64_t(lanes)}, b.getIntegerType(bits));
}

Val KernelBuilder::vector(llvm::ArrayRef<Val> elements) {
  SmallVector<Value> values(elements.begin(), elements.end());
  return wrap(vector::FromElementsOp::create(
      b, VectorType::get({int64_t(values.size())}, values[0].getType()),
      values));
}

static Type withElement(Type type, Type element) {
  if (auto vector = dyn_cast<VectorType>(type))
    return VectorType::get(vector.getShape(), element);
  return element;
}

Val KernelBuilder::extend(Val value) {
  if (getElementTypeOrSelf(value.type()).isF32())
    return value;
  return wrap(arith::ExtFOp::create(
      b, withElement(value.type(), b.getF32Type()), Value(value)));
}

Val KernelBuilder::round(Val value, Type element) {
  if (getElementTypeOrSelf(value.type()) == element)
    return value;
  return wrap(arith::TruncFOp::create(b, withElement(value.type(), element),
                                      Value(value)));
}

//===----------------------------------------------------------------------===//
// Where the thread is
//===----------------------------------------------------------------------===//

Val KernelBuilder::thread() {
  return wrap(NVVM::ThreadIdXOp::create(b, b.getI32Type()));
}
Val KernelBuilder::block() {
  return wrap(NVVM::BlockIdXOp::create(b, b.getI32Type()));
}
Val KernelBuilder::blocks() {
  return wrap(NVVM::GridDimXOp::create(b, b.getI32Type()));
}

Val KernelBuilder::lane() {
  return wrap(arith::AndIOp::create(b, Value(thread()), Value(i32(31))));
}

Val KernelBuilder::warp() {
  return wrap(arith::ShRUIOp::create(b, Value(thread()), Value(i32(5))));
}

//===----------------------------------------------------------------------===//
// Choices and loops
//===----------------------------------------------------------------------===//

Val KernelBuilder::select(Val condition, Val x, Val y) {
  auto [a, c] = unify(x, y);
  return wrap(arith::SelectOp::create(b, condition, a, c));
}

Val KernelBuilder::min(Val x, Val y) {
  return wrap(arith::MinSIOp::create(b, Value(x), Value(y)));
}

void KernelBuilder::when(Val condition, llvm::function_ref<void()> then) {
  auto ifOp = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  then();
}

void KernelBuilder::whenElse(Val condition, llvm::function_ref<void()> then,
                             llvm::function_ref<void()> otherwise) {
  auto ifOp = scf::IfOp::create(b, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  then();
  b.setInsertionPointToStart(ifOp.elseBlock());
  otherwise();
}

KernelBuilder::Vals
KernelBuilder::choose(Val condition, llvm::function_ref<Vals()> then,
                      llvm::function_ref<Vals()> otherwise) {
  auto branch = [](llvm::function_ref<Vals()> build) {
    return [build](OpBuilder &b, Location loc) {
      Vals values = build();
      scf::YieldOp::create(b, loc,
                           SmallVector<Value>(values.begin(), values.end()));
    };
  };
  auto op = scf::IfOp::create(b, condition, branch(then), branch(otherwise));
  Vals results;
  for (Value v : op.getResults())
    results.push_back(wrap(v));
  return results;
}

void KernelBuilder::loop(Val begin, Val end, Val step,
                         llvm::function_ref<void(Val)> body) {
  loop(begin, end, step, {}, [&](Val i, llvm::ArrayRef<Val>) {
    body(i);
    return Vals();
  });
}

KernelBuilder::Vals
KernelBuilder::loop(Val begin, Val end, Val step, llvm::ArrayRef<Val> init,
                    llvm::function_ref<Vals(Val, llvm::ArrayRef<Val>)> body) {
  SmallVector<Value> initial(init.begin(), init.end());
  auto forOp = scf::ForOp::create(b, begin, end, step, initial);
  {
    OpBuilder::InsertionGuard guard(b);
    if (init.empty())
      b.setInsertionPoint(forOp.getBody()->getTerminator());
    else
      b.setInsertionPointToEnd(forOp.getBody());
    Vals carried;
    for (Value v : forOp.getRegionIterArgs())
      carried.push_back(wrap(v));
    Vals next = body(wrap(forOp.getInductionVar()), carried);
    if (!init.empty())
      scf::YieldOp::create(b, SmallVector<Value>(next.begin(), next.end()));
  }
  Vals results;
  for (Value v : forOp.getResults())
    results.push_back(wrap(v));
  return results;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Booleans are bytes in memory.
static Type memoryType(Type type) {
  Type element = getElementTypeOrSelf(type);
  if (!element.isInteger(1))
    return type;
  return withElement(type, IntegerType::get(type.getContext(), 8));
}

static Value elementPointer(ImplicitLocOpBuilder &b, Value pointer,
                            Value offset, Type element) {
  return LLVM::GEPOp::create(b, pointer.getType(), element, pointer,
                             LLVM::GEPArg(offset));
}

Val KernelBuilder::load(Val pointer, Val offset, Type type, Access access) {
  Type stored = memoryType(type);
  Value p =
      elementPointer(b, pointer, toI64(offset), getElementTypeOrSelf(stored));
  auto op = LLVM::LoadOp::create(b, stored, p, access.alignment);
  op.setInvariant(access.readOnly);
  if (stored == type)
    return wrap(op);
  Val byte = wrap(op);
  return wrap(arith::CmpIOp::create(b, arith::CmpIPredicate::ne, byte,
                                    constant(stored, 0)));
}

void KernelBuilder::store(Val value, Val pointer, Val offset, Access access) {
  Type stored = memoryType(value.type());
  Value v = value;
  if (stored != value.type())
    v = arith::ExtUIOp::create(b, stored, v);
  Value p =
      elementPointer(b, pointer, toI64(offset), getElementTypeOrSelf(stored));
  LLVM::StoreOp::create(b, v, p, access.alignment);
}

/// Four results of `element` from inline assembly.
static KernelBuilder::Vals callAssembly(KernelBuilder &k, Type element,
                                        ValueRange operands,
                                        const Twine &assembly,
                                        StringRef constraints,
                                        bool hasSideEffects) {
  ImplicitLocOpBuilder &b = k.builder();
  auto type = LLVM::LLVMStructType::getLiteral(
      b.getContext(), {element, element, element, element});
  auto op = LLVM::InlineAsmOp::create(
      b, type, operands, assembly.str(), constraints, hasSideEffects,
      /*is_align_stack=*/false, LLVM::TailCallKind::None,
      LLVM::AsmDialectAttr(), ArrayAttr());
  KernelBuilder::Vals results;
  for (int64_t i = 0; i < 4; ++i)
    results.push_back(k.wrap(LLVM::ExtractValueOp::create(b, op.getRes(), i)));
  return results;
}

static constexpr const char *kZeroUnlessActive =
    "{ .reg .pred p; setp.ne.b32 p, $5, 0; mov.b32 $0, 0; mov.b32 $1, 0; "
    "mov.b32 $2, 0; mov.b32 $3, 0; @p ";

KernelBuilder::Vals KernelBuilder::loadStreamed(Val address, Val active) {
  // The policy of createpolicy.fractional.L2::evict_first for all lines.
  constexpr int64_t kEvictFirst = 0x12F0000000000000;
  Val flag = wrap(arith::ExtUIOp::create(b, b.getI32Type(), Value(active)));
  return callAssembly(*this, b.getI32Type(),
                      {Value(address), Value(flag), Value(i64(kEvictFirst))},
                      kZeroUnlessActive +
                          Twine("ld.global.L1::no_allocate.L2::cache_hint") +
                          ".v4.b32 {$0, $1, $2, $3}, [$4], $6; }",
                      "=&r,=&r,=&r,=&r,l,r,l", /*hasSideEffects=*/true);
}

Val KernelBuilder::loadVolatile(Val pointer, Val offset, Type type) {
  Value p =
      elementPointer(b, pointer, toI64(offset), getElementTypeOrSelf(type));
  return wrap(LLVM::LoadOp::create(b, type, p, 16, /*isVolatile=*/true));
}

Val KernelBuilder::shared(Type element, unsigned count) {
  std::string name = ("shared" + Twine(sharedArrays++)).str();
  auto type = LLVM::LLVMArrayType::get(element, count);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&module->getRegion(0).front());
    LLVM::GlobalOp::create(b, type, /*isConstant=*/false,
                           LLVM::Linkage::Internal, name, Attribute(),
                           /*alignment=*/16, /*addrSpace=*/3);
  }
  auto pointer = LLVM::LLVMPointerType::get(b.getContext(), 3);
  return wrap(LLVM::AddressOfOp::create(b, pointer, name));
}

Val KernelBuilder::dynamicShared(unsigned offset) {
  constexpr llvm::StringLiteral name = "dynamic_shared";
  if (!SymbolTable::lookupSymbolIn(module, name)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&module->getRegion(0).front());
    LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), 0),
                           /*isConstant=*/false, LLVM::Linkage::External, name,
                           Attribute(), /*alignment=*/1024, /*addrSpace=*/3);
  }
  auto pointer = LLVM::LLVMPointerType::get(b.getContext(), 3);
  return at(wrap(LLVM::AddressOfOp::create(b, pointer, name)), offset);
}

Val KernelBuilder::at(Val pointer, Val bytes) {
  return wrap(LLVM::GEPOp::create(b, pointer.type(), b.getI8Type(), pointer,
                                  LLVM::GEPArg(Value(bytes))));
}

Val KernelBuilder::at(Val pointer, int64_t bytes) {
  if (bytes == 0)
    return pointer;
  return wrap(LLVM::GEPOp::create(b, pointer.type(), b.getI8Type(), pointer,
                                  LLVM::GEPArg(int32_t(bytes))));
}

void KernelBuilder::barrier() { NVVM::Barrier0Op::create(b); }

Val KernelBuilder::arriveLast(Val counters, Val number, unsigned count) {
  auto fence = [&] {
    LLVM::FenceOp::create(b, LLVM::AtomicOrdering::acq_rel, "device");
  };
  Val answer = shared(b.getI32Type(), 1);
  fence();
  barrier();
  when(thread() == i32(0), [&] {
    Value p = elementPointer(b, counters, toI64(number), b.getI32Type());
    Val before = wrap(
        LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add, p, i32(1),
                                  LLVM::AtomicOrdering::acq_rel, "device"));
    Val last = before == i32(count - 1);
    when(last, [&] { store(i32(0), counters, number, {}); });
    store(select(last, i32(1), i32(0)), answer, i32(0), {});
  });
  barrier();
  fence();
  Val last = load(answer, i32(0), b.getI32Type(), {}) == i32(1);
  barrier();
  return last;
}

void KernelBuilder::waitForPrevious() {
  NVVM::GriddepcontrolOp::create(b, NVVM::GridDepActionKind::wait);
}

void KernelBuilder::releaseNext() {
  NVVM::GriddepcontrolOp::create(b, NVVM::GridDepActionKind::launch_dependents);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Val KernelBuilder::extract(Val vector, unsigned lane) {
  return wrap(vector::ExtractOp::create(b, vector, int64_t(lane)));
}

Val KernelBuilder::insert(Val element, Val vector, unsigned lane) {
  return wrap(vector::InsertOp::create(b, Value(element), Value(vector),
                                       int64_t(lane)));
}

Val KernelBuilder::slice(Val vector, unsigned first, unsigned lanes) {
  if (cast<VectorType>(vector.type()).getNumElements() == int64_t(lanes))
    return vector;
  SmallVector<int32_t> mask;
  for (unsigned i = 0; i < lanes; ++i)
    mask.push_back(int32_t(first + i));
  return wrap(
      LLVM::ShuffleVectorOp::create(b, Value(vector), Value(vector), mask));
}

Val KernelBuilder::reduceLanes(Val vector,
                               llvm::function_ref<Val(Val, Val)> combine) {
  auto type = dyn_cast<VectorType>(vector.type());
  if (!type)
    return vector;
  Vals parts;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    parts.push_back(extract(vector, i));
  while (parts.size() > 1) {
    Vals next;
    for (size_t i = 0; i + 1 < parts.size(); i += 2)
      next.push_back(combine(parts[i], parts[i + 1]));
    if (parts.size() % 2)
      next.push_back(parts.back());
    parts = next;
  }
  return parts[0];
}

Val KernelBuilder::shuffleXor(Val value, unsigned mask) {
  Type type = value.type();
  if (type.isInteger(64)) {
    // Two halves: the hardware shuffles 32 bits.
    Type i32Type = b.getI32Type();
    Value low = arith::TruncIOp::create(b, i32Type, value);
    Value shift = i64(32);
    Value high = arith::TruncIOp::create(
        b, i32Type, Value(arith::ShRUIOp::create(b, Value(value), shift)));
    Value l = arith::ExtUIOp::create(b, b.getI64Type(),
                                     Value(shuffleXor(wrap(low), mask)));
    Value h = arith::ExtUIOp::create(b, b.getI64Type(),
                                     Value(shuffleXor(wrap(high), mask)));
    h = arith::ShLIOp::create(b, h, shift);
    return wrap(arith::OrIOp::create(b, l, h));
  }
  if (type.isF64()) {
    Val bits = wrap(arith::BitcastOp::create(b, b.getI64Type(), Value(value)));
    return wrap(
        arith::BitcastOp::create(b, type, Value(shuffleXor(bits, mask))));
  }
  if (type.isInteger() && type.getIntOrFloatBitWidth() < 32) {
    Val wide = wrap(arith::ExtUIOp::create(b, b.getI32Type(), value));
    return wrap(arith::TruncIOp::create(b, type, shuffleXor(wide, mask)));
  }
  return wrap(NVVM::ShflOp::create(b, type, i32(-1), value, i32(mask), i32(31),
                                   NVVM::ShflKind::bfly, UnitAttr()));
}

KernelBuilder::Vals KernelBuilder::reduceWarp(llvm::ArrayRef<Val> partial,
                                              unsigned width, Combine combine) {
  Vals value(partial.begin(), partial.end());
  for (unsigned mask = width / 2; mask; mask /= 2) {
    Vals other;
    for (Val v : value)
      other.push_back(shuffleXor(v, mask));
    value = combine(value, other);
  }
  return value;
}

KernelBuilder::Vals KernelBuilder::reduceBlock(llvm::ArrayRef<Val> partial,
                                               unsigned threads,
                                               Combine combine) {
  unsigned warps = threads / 32;
  Vals value = reduceWarp(partial, 32, combine);
  Vals slots;
  for (Val v : value)
    slots.push_back(shared(v.type(), warps));
  Val first = lane() == i32(0);
  when(first, [&] {
    for (auto [v, slot] : llvm::zip(value, slots))
      store(v, slot, toI64(warp()), {});
  });
  barrier();
  // Every thread adds the warps' results in the same order.
  Vals total;
  for (unsigned w = 0; w < warps; ++w) {
    Vals part;
    for (auto [v, slot] : llvm::zip(value, slots))
      part.push_back(load(slot, i64(w), v.type(), {}));
    total = w ? combine(total, part) : part;
  }
  return total;
}

KernelBuilder::Vals KernelBuilder::reduce(llvm::ArrayRef<Val> partial,
                                          unsigned threads, Combine combine) {
  if (threads <= 32)
    return reduceWarp(partial, threads, combine);
  return reduceBlock(partial, threads, combine);
}
