//===- LowBitStream.cpp - Packed weights past one row of lhs --------------===//

#include "LowBitStream.h"

#include "fusion/Codegen/Common/NarrowFloat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <map>

using namespace mlir;
using namespace fusion;
using namespace fusion::hopper;
using kernels::LowBitWeight;
using kernels::SkinnyBundle;
using kernels::SkinnyShape;

/// Lhs in bf16 is this many binary places higher, so that products with
/// subnormal codes are normal fp32 numbers.
static constexpr int kRaisedBf16 = 64;

//===----------------------------------------------------------------------===//
// Codes
//===----------------------------------------------------------------------===//

/// Where the magnitude of a float code has to start in a 16-bit float, and the
/// exponent that its value then lacks.
static std::pair<int, int> floatPlace(Type code, Type element) {
  bool half = element.isF16();
  if (isa<Float4E2M1FNType>(code))
    return half ? std::pair(9, -14) : std::pair(6, -126);
  if (isa<Float8E4M3FNType>(code))
    return half ? std::pair(7, -8) : std::pair(4, -120);
  return half ? std::pair(8, 0) : std::pair(5, -112);
}

Val CodeFragments::take(KernelBuilder &k, Val word, unsigned slot) const {
  unsigned bits = code.getIntOrFloatBitWidth(), sign = 1u << (bits - 1);
  std::map<int, unsigned> masks; // of what lands in its place, by the shift
  for (kernels::BitMove move : kernels::getCodeMoves(code, slot)) {
    int wanted = int(bits * slot % 8);
    if (isa<FloatType>(code))
      wanted =
          move.mask == sign ? 16 - int(bits) : floatPlace(code, element).first;
    masks[wanted - move.left] |= move.mask << wanted;
  }
  Val result;
  for (auto [left, mask] : masks) {
    Val moved = left < 0 ? word >> -left : left > 0 ? word << left : word;
    Val part = moved & int64_t(int32_t(mask * 0x10001u));
    result = result ? result | part : part;
  }
  return result;
}

int CodeFragments::exponent(unsigned slot) const {
  if (isa<FloatType>(code))
    return floatPlace(code, element).second;
  int lowest = element.isF16() ? -24 : -133;
  return lowest + int(code.getIntOrFloatBitWidth() * slot % 8);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

LowBitStream::LowBitStream(KernelFunction &f, const SkinnyShape &shape)
    : f(f), k(f.k), group(f.group()),
      target(static_cast<CardTarget &>(group.getTarget())), shape(shape),
      weight(shape.lowBit[0]), element(elementType(shape.lhs)),
      fragments(weight.code(),
                element.isF32() ? k.builder().getF16Type() : element) {}

void LowBitStream::place(Val first, Val end, Val lhsMemory, Val sums) {
  firstStrip = first;
  lhs = lhsMemory;
  lhsSums = k.at(lhs, shape.storedLhsBytes());
  partial = sums;
  high = k.lane() / 4;
  low = k.lane() % 4;
  ownLane = low % int64_t(shape.scaleLanes());
  int64_t warps = shape.threads / 32;
  Val steps = (end - first) * (shape.stepsPerStrip() * shape.productsPerRow);
  firstStep = steps * k.warp() / warps;
  endStep = steps * (k.warp() + 1) / warps;
  bases.resize(3);
  for (unsigned slot = 0; slot < shape.productsPerRow; ++slot) {
    for (auto &list : bases)
      list.emplace_back();
    for (const SkinnyBundle &bundle : shape.bundles) {
      const LowBitWeight &own = shape.lowBit[bundle.products[slot]];
      int64_t before = bundle.firstRow / kernels::kStripRows;
      BlockArgument arguments[] = {own.codes, own.scales, own.zeros};
      for (auto [i, argument] : llvm::enumerate(arguments)) {
        if (!argument || (i && own.oneScale)) {
          bases[i].back().push_back(Val());
          continue;
        }
        int64_t strip = i ? own.groups() * kernels::kStripRows *
                                kernels::stripBytes(elementType(argument))
                          : own.units() * kernels::kUnitBytes;
        Val start = k.toInteger(target.pointers[argument.getArgNumber()]);
        bases[i].back().push_back(start - before * strip);
      }
    }
  }
}

void LowBitStream::clearPartials() {
  int64_t threads = shape.threads;
  k.loop(k.thread(),
         k.i32(shape.rowsPerBlock() * shape.productsPerRow * (threads / 32)),
         k.i32(threads),
         [&](Val at) { k.store(k.f32(0), partial, at, {4, false}); });
}

LowBitStream::Step LowBitStream::at(Val number) {
  Val step = firstStep + number;
  int64_t steps = shape.stepsPerStrip();
  Step result;
  result.exists = step < endStep;
  result.part = step % steps;
  Val row = step / steps;
  result.slot = row % int64_t(shape.productsPerRow);
  result.strip = firstStrip + row / int64_t(shape.productsPerRow);
  return result;
}

Val LowBitStream::base(const Step &step, unsigned operand) {
  Val result;
  for (unsigned slot = 0; slot < shape.productsPerRow; ++slot) {
    Val own = bases[operand][slot][0];
    for (auto [i, bundle] : llvm::enumerate(shape.bundles))
      if (i)
        own =
            k.select(step.strip < k.i32(bundle.firstRow / kernels::kStripRows),
                     own, bases[operand][slot][i]);
    result = slot ? k.select(step.slot == k.i32(slot), own, result) : own;
  }
  return result;
}

/// Number of a group among those of a row, of scale `number` of a step; i32.
Val LowBitStream::scaleIndex(const Step &step, Val number) {
  int64_t columns = shape.stepColumns();
  if (weight.group == weight.k)
    return k.i32(0);
  if (columns % weight.group == 0)
    return step.part * (columns / weight.group) + number;
  int64_t width = shape.scalesPerStep() == 1 ? columns : shape.span;
  return (step.part * columns + number * width) / weight.group;
}

/// `bytes` (2, 4, 8 or 16) at a global address, in an i32 each; where not
/// active (null: always), zeros or whatever (`zeros`). Such loads keep their
/// order, and stay before a wait for the previous kernel.
static Vals loadBytes(KernelBuilder &k, Val address, Val active, unsigned bytes,
                      bool zeros) {
  ImplicitLocOpBuilder &b = k.builder();
  constexpr int64_t kEvictFirst = 0x12F0000000000000;
  Val flag =
      active ? k.wrap(arith::ExtUIOp::create(b, b.getI32Type(), Value(active)))
             : k.i32(1);
  unsigned count = std::max(1u, bytes / 4);
  Vals operands{address, flag};
  std::string outputs, clear, constraints, in = "$" + std::to_string(count);
  for (unsigned i = 0; i < count; ++i) {
    std::string name = "$" + std::to_string(i);
    outputs += (i ? ", " : "") + name;
    clear += "mov.b32 " + name + ", 0; ";
    constraints += "=&r,";
  }
  std::string text = "{ ";
  if (active)
    text += ".reg .pred p; setp.ne.b32 p, $" + std::to_string(count + 1) +
            ", 0; " + (zeros ? clear : "") + "@p ";
  text += "ld.global.L1::no_allocate";
  constraints += "l,r";
  if (bytes == 16) {
    operands.push_back(k.i64(kEvictFirst));
    constraints += ",l";
    text += ".L2::cache_hint.L2::256B.v4.b32 {" + outputs + "}, [" + in +
            "], $" + std::to_string(count + 2) + "; }";
  } else if (bytes == 8) {
    text += ".v2.b32 {" + outputs + "}, [" + in + "]; }";
  } else {
    // Half a word is extended by the load.
    text += (bytes == 4 ? ".b32 " : ".u16 ") + outputs + ", [" + in + "]; }";
  }
  return ptx(k, SmallVector<Type>(count, b.getI32Type()), text, constraints,
             operands);
}

/// Of each group of the step that is this lane's, the elements of its two rows.
void LowBitStream::loadPairs(const Step &step, Type type, unsigned operand,
                             Val exists, Vals &words) {
  int64_t bytes = kernels::stripBytes(type), line = kernels::kStripRows * bytes;
  Val start = base(step, operand) +
              k.toI64(step.strip) * (weight.groups() * line) +
              k.toI64(high) * (2 * bytes);
  for (unsigned i = 0; i < shape.scaleLoads(); ++i) {
    Val number = k.i32(i);
    if (shape.scalesPerStep() > 1 && shape.scaleLanes() > 1)
      number = ownLane + int64_t(i) * shape.scaleLanes();
    Val index = scaleIndex(step, number);
    Val active = exists;
    if (!hasWholeSteps() && shape.scalesPerStep() > 1)
      active = active && index < k.i32(weight.groups());
    words.append(loadBytes(k, start + k.toI64(index) * line, active,
                           unsigned(2 * bytes), !hasWholeSteps()));
  }
}

Vals LowBitStream::loadWords(const Step &step, Val exists) {
  Vals words;
  Val first = step.part * int64_t(shape.pieces);
  Val address = base(step, 0) +
                (k.toI64(step.strip) * weight.units() + k.toI64(first)) *
                    kernels::kUnitBytes +
                k.toI64(k.lane()) * 16;
  for (unsigned i = 0; i < shape.pieces; ++i) {
    Val active = exists;
    if (!hasWholeSteps())
      active = active && first + int64_t(i) < k.i32(weight.units());
    words.append(loadBytes(k, address + int64_t(i) * kernels::kUnitBytes,
                           active, 16, !hasWholeSteps()));
  }
  if (weight.scale() && !weight.oneScale)
    loadPairs(step, weight.scale(), 1, exists, words);
  if (weight.zero())
    loadPairs(step, weight.zero(), 2, exists, words);
  return words;
}

// Words beyond a strip's end have to be zero; those of steps that do not exist
// are not used. To clear registers takes instructions, but in the loop one that
// may keep what it had would be taken for good: there the loads are a branch.
Vals LowBitStream::load(Val number, bool isFirst) {
  Step step = at(number);
  if (isFirst || !hasWholeSteps())
    return loadWords(step, step.exists);
  unsigned count = 4 * shape.pieces;
  for (Type type : {weight.scale(), weight.zero()})
    if (type && !weight.oneScale)
      count +=
          shape.scaleLoads() * (type.getIntOrFloatBitWidth() == 32 ? 2 : 1);
  return k.choose(
      step.exists,
      [&] {
        codegen::IndexBuilder::Scope scope(f.ix());
        return loadWords(step, Val());
      },
      [&] { return Vals(count, k.i32(0)); });
}

//===----------------------------------------------------------------------===//
// Lhs
//===----------------------------------------------------------------------===//

/// A vector of lhs in the order of B fragments: lane % 4 has 16 bytes, of two
/// products together, in fp32 of one. Returns the rounded values.
Val LowBitStream::storeLhs(Val values, Val number) {
  if (element.isF32()) {
    Val place = number / 2 * 16 + number % 2 * 2;
    for (unsigned t = 0; t < 4; ++t)
      k.store(k.slice(values, 2 * t, 2), lhs, place + int64_t(t) * 4,
              {8, false});
    return values;
  }
  if (!element.isF16())
    values = values * k.f32(std::ldexp(1.0, kRaisedBf16));
  Val rounded = k.round(values, element);
  Val words = k.bitcast(rounded, k.vectorType(4, 32));
  Val place = number / 4 * 16 + number % 4;
  for (unsigned t = 0; t < 4; ++t)
    k.store(k.extract(words, t), lhs, place + int64_t(t) * 4, {4, false});
  return rounded;
}

/// The sums of lhs over spans, times what they are multiplied by where they
/// enter a sum of products.
void LowBitStream::storeSums(ArrayRef<Val> rounded, ArrayRef<Val> numbers) {
  double factor = -std::ldexp(1.0, fragments.exponent(0));
  if (!weight.zeros)
    factor *= double(weight.implicitZero);
  Vals sums;
  for (Val vector : rounded)
    sums.push_back(
        k.reduceLanes(k.extend(vector), [](Val a, Val b) { return a + b; }));
  unsigned lanes = unsigned(shape.span / 8);
  if (lanes > 1)
    sums = k.reduce(sums, lanes, [](ArrayRef<Val> a, ArrayRef<Val> b) {
      Vals both;
      for (auto [x, y] : llvm::zip(a, b))
        both.push_back(x + y);
      return both;
    });
  k.when(k.thread() % int64_t(lanes) == k.i32(0), [&] {
    for (auto [sum, number] : llvm::zip(sums, numbers))
      k.store(sum * k.f32(factor), lhsSums, number / int64_t(lanes),
              {4, false});
  });
}

// Loads of several vectors are on their way together.
void LowBitStream::keepLhs(RowTemplate &row) {
  int64_t threads = shape.threads;
  auto columns = row.getColumns();
  for (size_t first = 0; first < columns.size(); first += 4) {
    Vals values, numbers;
    for (size_t i = first; i < std::min(first + 4, columns.size()); ++i) {
      Val vector = row.element(shape.lhs, columns[i]);
      if (columns[i].active)
        vector =
            k.select(columns[i].active, vector, k.constant(vector.type(), 0));
      values.push_back(vector);
      numbers.push_back(k.thread() + int64_t(i) * threads);
    }
    for (auto [vector, number] : llvm::zip(values, numbers))
      vector = storeLhs(vector, number);
    if (shape.needsLhsSums())
      storeSums(values, numbers);
  }
  k.barrier();
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// The two elements of a lane, in fp32.
Vals LowBitStream::pairOf(Type type, ArrayRef<Val> words) {
  Type real = k.f32(0).type();
  Val word = words[0];
  if (type.isF32())
    return {k.bitcast(word, real), k.bitcast(words[1], real)};
  if (type.isBF16())
    return {k.bitcast(word << 16, real), k.bitcast(word & -65536, real)};
  if (type.isF16()) {
    Val pair = k.extend(k.bitcast(word, VectorType::get({2}, type)));
    return {k.extract(pair, 0), k.extract(pair, 1)};
  }
  if (isa<Float8E4M3FNType>(type)) {
    ImplicitLocOpBuilder &b = k.builder();
    Val bytes = k.wrap(arith::TruncIOp::create(b, b.getI16Type(), Value(word)));
    Val both = purePtx(k, {b.getI32Type()}, "cvt.rn.f16x2.e4m3x2 $0, $1;",
                       "=r,h", {bytes})[0];
    return pairOf(b.getF16Type(), {both});
  }
  return floatsOf(type, word & 255, (word >> 8) & 255);
}

/// Elements of 8 bits.
Vals LowBitStream::floatsOf(Type type, Val first, Val second) {
  ImplicitLocOpBuilder &b = k.builder();
  Type real = b.getF32Type();
  Vals result;
  for (Val byte : {first, second}) {
    if (isa<IntegerType>(type)) {
      result.push_back(k.wrap(arith::UIToFPOp::create(b, real, Value(byte))));
    } else {
      Value raw = arith::TruncIOp::create(b, b.getI8Type(), Value(byte));
      result.push_back(k.wrap(codegen::decodeFloat(b, b.getLoc(), raw, type)));
    }
  }
  return result;
}

Val LowBitStream::ownOf(ArrayRef<Vals> sums, unsigned half) {
  if (sums.size() == 1)
    return sums[0][2 * half];
  SmallVector<Val, 4> left;
  Val odd = (low & 1) == k.i32(1);
  for (size_t i = 0; i < sums.size(); i += 2)
    left.push_back(k.select(odd, sums[i + 1][2 * half], sums[i][2 * half]));
  return left.size() == 1 ? left[0]
                          : k.select(low < k.i32(2), left[0], left[1]);
}

/// `own`: sums for rows l/4 and l/4 + 8; `zeros`: the words of their zero
/// points.
void LowBitStream::addZeros(const Step &step, unsigned firstSpan,
                            ArrayRef<Val> zeros, Vals &own) {
  int64_t spans = shape.stepColumns() / shape.span;
  double lower = std::ldexp(1.0, fragments.exponent(1) - fragments.exponent(0));
  Val sum = k.load(lhsSums, step.part * spans + int64_t(firstSpan) + ownLane,
                   k.f32(0).type(), {});
  if (element.isF32()) // the lanes' sums are added up later
    sum = k.select(low == k.i32(0), sum, k.f32(0));
  Val below = lower == 1 ? sum : sum * k.f32(lower);
  if (!weight.zeros) {
    own = {own[0] + sum, own[1] + below};
    return;
  }
  Vals z = pairOf(weight.zero(), zeros);
  if (isa<FloatType>(weight.zero()) && weight.implicitZero)
    for (Val &value : z)
      value = value + k.f32(double(weight.implicitZero));
  own = {fma(k, z[0], sum, own[0]), fma(k, z[1], below, own[1])};
}

/// The same by fused multiply-adds: a lane sums up its own columns.
void LowBitStream::multiplyReal(const Step &step, int64_t number,
                                ArrayRef<Val> words, Vals &sums) {
  Type pairType = VectorType::get({2}, k.builder().getF16Type());
  Val at = (step.part * (shape.stepColumns() / 16) + number) * 4 + low;
  Val x = k.load(lhs, at * 4, VectorType::get({4}, element), {16, false});
  for (unsigned j = 0; j < 4; ++j) {
    Val codes = weight.bits == 4
                    ? fragments.take(k, words[number], j)
                    : fragments.take(k, words[2 * number + j / 2], j % 2);
    Val pair = k.extend(k.bitcast(codes, pairType));
    Val &sum = sums[j % 2 * 2];
    for (unsigned e = 0; e < 2; ++e)
      sum = fma(k, k.extract(pair, e), k.extract(x, j / 2 * 2 + e), sum);
  }
}

/// Products `number` (16 columns each) of a step; `x` has the pairs of B
/// fragments that were loaded.
void LowBitStream::multiplyOnce(const Step &step, int64_t number,
                                ArrayRef<Val> words, SmallVector<Vals> &x,
                                Vals &sums) {
  if (element.isF32())
    return multiplyReal(step, number, words, sums);
  Vals &pair = x[number / 2];
  if (pair.empty()) {
    Val at = (step.part * (shape.stepColumns() / 32) + number / 2) * 4 + low;
    Val loaded = k.load(lhs, at * 4, k.vectorType(4, 32), {16, false});
    for (unsigned word = 0; word < 4; ++word)
      pair.push_back(k.extract(loaded, word));
  }
  Vals a;
  for (unsigned j = 0; j < 4; ++j)
    a.push_back(weight.bits == 4
                    ? fragments.take(k, words[number], j)
                    : fragments.take(k, words[2 * number + j / 2], j % 2));
  unsigned from = number % 2 * 2;
  sums = mma16x8x16(k, element, sums, a, pair[from], pair[from + 1]);
}

/// Adds spans from `firstSpan` on, one a lane that shares them, to the totals.
/// `words`: the step's scales, then its zero points.
void LowBitStream::addSpans(const Step &step, unsigned firstSpan,
                            ArrayRef<Vals> sums, ArrayRef<Val> words,
                            Vals &totals) {
  unsigned loads = shape.scaleLoads();
  unsigned number =
      shape.scalesPerStep() > 1 ? firstSpan / shape.scaleLanes() : 0;
  auto take = [&](Type type) {
    unsigned each = type.getIntOrFloatBitWidth() == 32 ? 2 : 1;
    ArrayRef<Val> own = words.slice(number * each, each);
    words = words.drop_front(loads * each);
    return own;
  };
  bool scaled = weight.scale() && !weight.oneScale;
  ArrayRef<Val> scale = scaled ? take(weight.scale()) : ArrayRef<Val>();
  Vals own = {ownOf(sums, 0), ownOf(sums, 1)};
  if (shape.needsLhsSums())
    addZeros(step, firstSpan,
             weight.zeros ? take(weight.zero()) : ArrayRef<Val>(), own);
  if (!scaled) {
    totals = {totals[0] + own[0], totals[1] + own[1]};
    return;
  }
  Vals s = pairOf(weight.scale(), scale);
  totals = {fma(k, s[0], own[0], totals[0]), fma(k, s[1], own[1], totals[1])};
}

// Four spans of many products take turns, so that products do not wait for each
// other.
void LowBitStream::multiply(Val number, ArrayRef<Val> words, Vals &totals) {
  Step step = at(number);
  ArrayRef<Val> codes = words.take_front(4 * shape.pieces);
  words = words.drop_front(codes.size());
  unsigned spans = unsigned(shape.stepColumns() / shape.span);
  unsigned lanes = shape.scaleLanes();
  int64_t products = shape.span / 16;
  SmallVector<Vals> x(shape.stepColumns() / 32);
  unsigned turns = std::max(lanes, products >= 4 ? 4u : 1u);
  for (unsigned first = 0; first < spans; first += turns) {
    unsigned count = std::min(turns, spans - first);
    SmallVector<Vals> sums(count, Vals(4, k.f32(0)));
    for (int64_t i = 0; i < products; ++i)
      for (unsigned span = 0; span < count; ++span)
        multiplyOnce(step, (first + span) * products + i, codes, x, sums[span]);
    for (unsigned span = 0; span < count; span += lanes)
      addSpans(step, first + span, ArrayRef(sums).slice(span, lanes), words,
               totals);
  }
}

/// Where a row ends, or the warp's steps, its totals go to this warp's place.
void LowBitStream::finish(Val number, Vals &totals) {
  Step step = at(number);
  Val last = step.part == k.i32(shape.stepsPerStrip() - 1) ||
             firstStep + number + 1 == endStep;
  last = last && step.exists;
  int raised = element.isBF16() ? kRaisedBf16 : 0;
  k.when(last, [&] {
    unsigned lanes = element.isF32() ? 4 : shape.scaleLanes();
    Vals sums = k.reduce(totals, lanes, [](ArrayRef<Val> a, ArrayRef<Val> b) {
      return Vals{a[0] + b[0], a[1] + b[1]};
    });
    Val row = (step.strip - firstStrip) * kernels::kStripRows + high;
    Val at = k.warp() * shape.partialStride() +
             step.slot * shape.rowsPerBlock() + row;
    k.when(low == k.i32(0), [&] {
      for (unsigned half = 0; half < 2; ++half) {
        double factor = std::ldexp(1.0, -raised - fragments.exponent(half));
        k.store(sums[half] * k.f32(factor), partial, at + int64_t(8) * half,
                {4, false});
      }
    });
  });
  for (Val &total : totals)
    total = k.select(last, k.f32(0), total);
}

void LowBitStream::stream(Vals first, Vals second) {
  unsigned half = first.size();
  Vals init = first;
  init.append(second);
  init.append(2, k.f32(0));
  Val steps = endStep - firstStep;
  k.loop(k.i32(0), steps, k.i32(2), init, [&](Val step, ArrayRef<Val> state) {
    codegen::IndexBuilder::Scope scope(f.ix());
    Vals totals(state.take_back(2));
    multiply(step, state.take_front(half), totals);
    finish(step, totals);
    Vals next = load(step + 2, /*isFirst=*/false);
    totals = k.choose(
        step + 1 < steps,
        [&] {
          codegen::IndexBuilder::Scope scope(f.ix());
          Vals inner(totals);
          multiply(step + 1, state.slice(half, half), inner);
          finish(step + 1, inner);
          return inner;
        },
        [&] { return totals; });
    next.append(load(step + 3, /*isFirst=*/false));
    next.append(totals);
    return next;
  });
}

Val LowBitStream::scaleOf(unsigned product) {
  const LowBitWeight &own = shape.lowBit[product];
  Val result;
  auto include = [&](Val scale) { result = result ? result * scale : scale; };
  auto loadOne = [&](BlockArgument argument) {
    include(k.wrap(target.load(group, argument, f.ix().index(0), 1)));
  };
  if (own.scales && own.oneScale)
    loadOne(own.scales);
  if (own.globalScale)
    loadOne(own.globalScale);
  if (own.factor != 1)
    include(k.f32(own.factor));
  return result;
}
