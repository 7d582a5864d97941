//===- IndexBuilder.cpp - Integers, loops and memory of what is known -----===//

#include "fusion/Codegen/Common/IndexBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

#include <numeric>

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;

bool codegen::isSameElement(Value tensor, ArrayRef<Index> a,
                            ArrayRef<Index> b) {
  auto type = cast<RankedTensorType>(tensor.getType());
  for (int64_t axis = 0; axis < type.getRank(); ++axis)
    if (type.getDimSize(axis) != 1 &&
        (a[axis].base != b[axis].base || a[axis].lane != b[axis].lane))
      return false;
  return true;
}

IndexBuilder::IndexBuilder(OpBuilder &builder, Location loc, SizeFn size)
    : builder(builder), location(loc), sizeFn(std::move(size)), scopes(2) {
  hoistAfter = arith::ConstantIndexOp::create(builder, loc, 0);
  scopes[0][{"constant", nullptr}] = hoistAfter->getResult(0);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value IndexBuilder::find(const Key &key) const {
  // Hoisted code may use hoisted values only.
  size_t end = hoistDepth ? 1 : scopes.size();
  for (size_t i = end; i-- > 0;)
    if (auto it = scopes[i].find(key); it != scopes[i].end())
      return it->second;
  return nullptr;
}

void IndexBuilder::remember(const Key &key, Value value) {
  (hoistDepth ? scopes.front() : scopes.back())[key] = value;
}

Value IndexBuilder::hoisted(llvm::function_ref<Value()> build) {
  if (hoistDepth)
    return build();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfter(hoistAfter);
  ++hoistDepth;
  Value value = build();
  --hoistDepth;
  // The insertion point lies behind everything that was just created.
  Block::iterator point = builder.getInsertionPoint();
  hoistAfter = &*std::prev(point);
  return value;
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

std::optional<int64_t> IndexBuilder::asConstant(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return std::nullopt;
}

Value IndexBuilder::constant(int64_t value) {
  if (value == 0)
    return scopes[0][{"constant", nullptr}];
  Key key{"constant", reinterpret_cast<const void *>(value)};
  if (Value known = find(key))
    return known;
  Value result = hoisted([&]() -> Value {
    return arith::ConstantIndexOp::create(builder, location, value);
  });
  scopes[0][key] = result;
  return result;
}

template <typename OpT>
Value IndexBuilder::binary(Value a, Value b) {
  Key key{OpT::getOperationName().data(), a.getAsOpaquePointer(),
          b.getAsOpaquePointer()};
  if (Value known = find(key))
    return known;
  Value result = OpT::create(builder, location, a, b);
  remember(key, result);
  return result;
}

Value IndexBuilder::add(Value a, Value b) {
  auto ca = asConstant(a), cb = asConstant(b);
  if (ca && cb)
    return constant(*ca + *cb);
  if (ca && *ca == 0)
    return b;
  if (cb && *cb == 0)
    return a;
  return ca ? binary<arith::AddIOp>(b, a) : binary<arith::AddIOp>(a, b);
}

Value IndexBuilder::sub(Value a, Value b) {
  auto ca = asConstant(a), cb = asConstant(b);
  if (ca && cb)
    return constant(*ca - *cb);
  if (a == b)
    return constant(0);
  if (cb)
    return add(a, constant(-*cb));
  return binary<arith::SubIOp>(a, b);
}

Value IndexBuilder::mul(Value a, Value b) {
  auto ca = asConstant(a), cb = asConstant(b);
  if (ca && cb)
    return constant(*ca * *cb);
  if ((ca && *ca == 0) || (cb && *cb == 0))
    return constant(0);
  if (ca && *ca == 1)
    return b;
  if (cb && *cb == 1)
    return a;
  return ca ? binary<arith::MulIOp>(b, a) : binary<arith::MulIOp>(a, b);
}

Value IndexBuilder::min(Value a, Value b) {
  auto ca = asConstant(a), cb = asConstant(b);
  if (ca && cb)
    return constant(std::min(*ca, *cb));
  return a == b ? a : binary<arith::MinSIOp>(a, b);
}

Value IndexBuilder::max(Value a, Value b) {
  auto ca = asConstant(a), cb = asConstant(b);
  if (ca && cb)
    return constant(std::max(*ca, *cb));
  return a == b ? a : binary<arith::MaxSIOp>(a, b);
}

Value IndexBuilder::div(Value a, Value b) {
  auto ca = asConstant(a), cb = asConstant(b);
  if (cb && *cb == 1)
    return a;
  if (ca && (*ca == 0 || (cb && *cb != 0)))
    return constant(*ca == 0 ? 0 : *ca / *cb);
  return binary<arith::DivSIOp>(a, b);
}

Value IndexBuilder::rem(Value a, Value b) {
  auto ca = asConstant(a), cb = asConstant(b);
  if (cb && *cb == 1)
    return constant(0);
  if (ca && (*ca == 0 || (cb && *cb != 0)))
    return constant(*ca == 0 ? 0 : *ca % *cb);
  return binary<arith::RemSIOp>(a, b);
}

Value IndexBuilder::floorDiv(Value a, Value b) {
  // Towards minus infinity: subtract what keeps the remainder non-negative.
  return div(sub(a, mod(a, b)), b);
}

Value IndexBuilder::mod(Value a, Value b) {
  Value r = rem(a, b);
  if (auto c = asConstant(r); c && *c >= 0)
    return r;
  return select(less(r, constant(0)), add(r, b), r);
}

Value IndexBuilder::ceilDiv(Value a, int64_t b) {
  return div(add(a, constant(b - 1)), constant(b));
}

Value IndexBuilder::less(Value a, Value b) {
  Key key{"less", a.getAsOpaquePointer(), b.getAsOpaquePointer()};
  if (Value known = find(key))
    return known;
  auto ca = asConstant(a), cb = asConstant(b);
  Value result;
  if (ca && cb) {
    result = hoisted([&]() -> Value {
      return arith::ConstantOp::create(builder, location,
                                       builder.getBoolAttr(*ca < *cb));
    });
    scopes[0][key] = result;
    return result;
  }
  result =
      arith::CmpIOp::create(builder, location, arith::CmpIPredicate::slt, a, b);
  remember(key, result);
  return result;
}

Value IndexBuilder::select(Value condition, Value a, Value b) {
  if (a == b)
    return a;
  if (auto c = asConstant(condition))
    return *c ? a : b;
  Key key{"select", condition.getAsOpaquePointer(), a.getAsOpaquePointer(),
          b.getAsOpaquePointer()};
  if (Value known = find(key))
    return known;
  Value result = arith::SelectOp::create(builder, location, condition, a, b);
  remember(key, result);
  return result;
}

Value IndexBuilder::size(const SymExpr &expr) {
  if (auto constantSize = expr.asConstant())
    return constant(*constantSize);
  return hoisted([&] { return sizeOf(expr); });
}

Value IndexBuilder::sizeOf(const SymExpr &expr) {
  auto factor = [&](const std::string &name) -> Value {
    if (auto call = SymExpr::splitCall(name)) {
      Value a = sizeOf(call->a), c = sizeOf(call->b);
      if (call->function == "floordiv")
        return floorDiv(a, c);
      if (call->function == "mod")
        return mod(a, c);
      return call->function == "min" ? min(a, c) : max(a, c);
    }
    unsigned number = 0;
    bool known = name.size() > 1 && name[0] == 'd' &&
                 !StringRef(name).drop_front().getAsInteger(10, number);
    if (!known)
      number = ~0u; // the target reports it
    Key key{"symbol", reinterpret_cast<const void *>(uintptr_t(number))};
    if (Value v = find(key))
      return v;
    Value v = sizeFn(number);
    remember(key, v);
    return v;
  };
  Value sum = constant(0);
  for (const auto &[monomial, coefficient] : expr.polynomial()) {
    Value product = constant(coefficient);
    for (const std::string &name : monomial)
      product = mul(product, factor(name));
    sum = add(sum, product);
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

static int64_t knownDivisor(Value base, int64_t divisor) {
  if (auto c = IndexBuilder::asConstant(base))
    return *c == 0 ? int64_t(1) << 30 : std::abs(*c);
  return divisor;
}

Index IndexBuilder::index(int64_t value) { return index(constant(value)); }

Index IndexBuilder::index(Value value, int64_t lane, int64_t divisor) {
  return {value, lane, knownDivisor(value, divisor)};
}

Index IndexBuilder::add(const Index &a, const Index &b) {
  return index(add(a.base, b.base), a.lane + b.lane,
               std::gcd(a.divisor, b.divisor));
}

Index IndexBuilder::scale(const Index &a, const SymExpr &factor) {
  auto c = factor.asConstant();
  // A symbolic factor times a lane is resolved by the caller (lanes apart).
  int64_t lane = c ? a.lane * *c : a.lane;
  int64_t common = 0; // divides the factor
  for (const auto &[monomial, coefficient] : factor.polynomial())
    common = std::gcd(common, coefficient);
  int64_t divisor =
      a.divisor * std::clamp<int64_t>(common, 1, int64_t(1) << 30);
  return index(mul(a.base, size(factor)), lane,
               std::min<int64_t>(divisor, int64_t(1) << 30));
}

std::optional<Indices> IndexBuilder::delinearize(const Index &linear,
                                                 ArrayRef<SymExpr> shape,
                                                 unsigned width) {
  Indices result(shape.size(), index(0));
  Index rest = linear;
  // The outermost axis that is not 1 takes what is left, without a remainder.
  size_t outer = 0;
  while (outer < shape.size() && shape[outer] == SymExpr(1))
    ++outer;
  for (size_t axis = shape.size(); axis-- > outer;) {
    if (axis == outer) {
      result[axis] = rest;
      break;
    }
    if (shape[axis] == SymExpr(1))
      continue;
    auto extent = shape[axis].asConstant();
    if (rest.lane != 0) {
      // All lanes lie in one row when rows hold whole aligned vectors.
      bool whole = extent && rest.lane == 1 && *extent % width == 0 &&
                   rest.divisor % width == 0;
      if (!whole)
        return std::nullopt;
    }
    Value size = this->size(shape[axis]);
    int64_t inner = extent ? std::gcd(rest.divisor, *extent) : 1;
    int64_t outerDivisor = extent && *extent && rest.divisor % *extent == 0
                               ? rest.divisor / *extent
                               : 1;
    result[axis] = index(rem(rest.base, size), rest.lane, inner);
    rest = index(div(rest.base, size), 0, outerDivisor);
  }
  return result;
}

Index IndexBuilder::linearize(ArrayRef<Index> indices,
                              ArrayRef<SymExpr> shape) {
  Index sum = index(0);
  SymExpr stride = 1;
  for (size_t axis = indices.size(); axis-- > 0;) {
    sum = add(sum, scale(indices[axis], stride));
    stride = stride * shape[axis];
  }
  return sum;
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

void IndexBuilder::loop(Value lower, Value upper, int64_t step,
                        llvm::function_ref<void(Value)> body) {
  loop(lower, upper, step, {}, [&](Value iv, ValueRange) {
    body(iv);
    return SmallVector<Value>();
  });
}

SmallVector<Value> IndexBuilder::loop(
    Value lower, Value upper, int64_t step, ValueRange init,
    llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto op =
      scf::ForOp::create(builder, location, lower, upper, constant(step), init,
                         [&](OpBuilder &, Location, Value iv, ValueRange args) {
                           Scope scope(*this);
                           SmallVector<Value> next = body(iv, args);
                           scf::YieldOp::create(builder, location, next);
                         });
  return SmallVector<Value>(op.getResults());
}

void IndexBuilder::when(Value condition, llvm::function_ref<void()> then,
                        llvm::function_ref<void()> otherwise) {
  if (auto c = asConstant(condition)) {
    if (*c)
      then();
    else if (otherwise)
      otherwise();
    return;
  }
  auto op = scf::IfOp::create(builder, location, condition,
                              /*withElseRegion=*/bool(otherwise));
  OpBuilder::InsertionGuard guard(builder);
  {
    Scope scope(*this);
    builder.setInsertionPointToStart(op.thenBlock());
    then();
  }
  if (otherwise) {
    Scope scope(*this);
    builder.setInsertionPointToStart(op.elseBlock());
    otherwise();
  }
}

Value IndexBuilder::choose(Value condition, llvm::function_ref<Value()> then,
                           llvm::function_ref<Value()> otherwise) {
  if (auto c = asConstant(condition))
    return *c ? then() : otherwise();
  auto branch = [&](llvm::function_ref<Value()> build) {
    return [this, build](OpBuilder &, Location) {
      Scope scope(*this);
      Value value = build();
      scf::YieldOp::create(builder, location, value);
    };
  };
  auto op = scf::IfOp::create(builder, location, condition, branch(then),
                              branch(otherwise));
  return op.getResult(0);
}
