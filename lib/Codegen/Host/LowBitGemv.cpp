//===- LowBitGemv.cpp - Products of a few rows with packed weights --------===//
//
// Weights of 4 or 8 bits in blocks along K. With z a block's zero point, s its
// scale and q its codes,
//
//     sum over blocks of s * (dot(q, x) - z * sum(x)),
//
// so codes are only converted, and the sums of x over blocks are made once. The
// 16 bytes of 32 nibbles become two vectors, of the even and of the odd
// elements: x lies in scratch in that order. Rows are walked one after another,
// so that codes, scales and zero points are three streams in the order of
// memory.
//
//===----------------------------------------------------------------------===//

#include "Matmul.h"

#include "fusion/Codegen/Common/NarrowFloat.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::codegen;
using namespace fusion::codegen::host;
using namespace fusion::kernels;

/// Weights treated at once.
constexpr int64_t kChunk = 32;
/// Bytes of codes fetched ahead of use.
constexpr int64_t kAhead = 1536;

void host::prepareLowBit(MatmulKernel &mk, Value panel, Value blockSums) {
  KernelBuilder &k = mk.k;
  IndexBuilder &ix = k.ix();
  const HostLowBitWeight &weight = mk.s.lowBit[0];
  int64_t depth = *mk.s.k.asConstant(), blocks = depth / weight.block;
  Value stride = k.size(mk.paddedDepth);
  ix.loop(k.c(0), mk.m, 1, [&](Value row) {
    Value x = ix.mul(row, stride);
    ix.loop(k.c(0), k.c(blocks), 1, [&](Value b) {
      Value total;
      for (int64_t at = 0; at < weight.block; at += kChunk) {
        Value where = ix.add(x, ix.add(ix.mul(b, k.c(weight.block)), k.c(at)));
        Value second = ix.add(where, k.c(kLanes));
        Value v0 = k.loadF32(panel, where, kLanes);
        Value v1 = k.loadF32(panel, second, kLanes);
        Value both = k.math().add(v0, v1);
        total = total ? k.math().add(total, both) : both;
        if (weight.bits != 4)
          continue;
        SmallVector<int64_t> even, odd;
        for (int64_t i = 0; i < kLanes; ++i) {
          even.push_back(2 * i);
          odd.push_back(2 * i + 1);
        }
        k.storeF32(panel, where,
                   vector::ShuffleOp::create(k.builder, k.loc, v0, v1, even));
        k.storeF32(panel, second,
                   vector::ShuffleOp::create(k.builder, k.loc, v0, v1, odd));
      }
      Value to = ix.add(ix.mul(row, k.c(blocks)), b);
      k.storeF32(blockSums, to, k.sum(total));
    });
  });
}

namespace {
struct LowBitRows {
  MatmulKernel &mk;
  const HostLowBitWeight &weight;
  Value panel, blockSums;
  KernelBuilder &k = mk.k;
  IndexBuilder &ix = k.ix();
  int64_t depth = *mk.s.k.asConstant();
  int64_t blocks = depth / weight.block;
  bool isSigned = !isUnsigned(elementType(weight.codes.getType()));

  /// Two vectors of codes, in the order in which x lies.
  std::pair<Value, Value> codesAt(Value row, Value element) {
    OpBuilder &b = k.builder;
    Type i8 = b.getI8Type();
    Value base = k.pointer(weight.codes);
    int64_t perByte = 8 / weight.bits;
    Value byte = ix.add(ix.mul(row, k.c(depth / perByte)),
                        ix.div(element, k.c(perByte)));
    Type wide = VectorType::get({kLanes}, b.getI32Type());
    auto extend = [&](Value bytes) -> Value {
      if (isSigned && weight.bits == 8)
        return arith::ExtSIOp::create(b, k.loc, wide, bytes);
      return arith::ExtUIOp::create(b, k.loc, wide, bytes);
    };
    Value first = extend(k.loadVector(base, i8, byte, kLanes));
    if (weight.bits == 8) {
      Value second = k.loadVector(base, i8, ix.add(byte, k.c(kLanes)), kLanes);
      return {asFloat(first), asFloat(extend(second))};
    }
    auto number = [&](int64_t n) { return k.math().integer(n, first); };
    if (!isSigned) {
      Value low = arith::AndIOp::create(b, k.loc, first, number(15));
      Value high = arith::ShRUIOp::create(b, k.loc, first, number(4));
      return {asFloat(low), asFloat(high)};
    }
    auto field = [&](int64_t up) -> Value {
      Value top = arith::ShLIOp::create(b, k.loc, first, number(up));
      return arith::ShRSIOp::create(b, k.loc, top, number(28));
    };
    return {asFloat(field(28)), asFloat(field(24))};
  }

  // Codes stand in i32 and are small: the signed conversion is one instruction.
  Value asFloat(Value codes) {
    return arith::SIToFPOp::create(k.builder, k.loc, k.vf32(), codes);
  }

  /// Scale, or zero point, of a block.
  Value parameter(Value tensor, Value row, Value block) {
    size_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
    Indices at{ix.index(row), ix.index(block)};
    Value x = k.e().emit(tensor, ArrayRef(at).take_back(rank));
    return k.e().convert(x, elementType(tensor), k.f32());
  }

  /// Fetches codes that will be needed soon; past the end is harmless.
  void fetchAhead(Value row, Value element) {
    int64_t perByte = 8 / weight.bits;
    Value byte = ix.add(ix.mul(row, k.c(depth / perByte)),
                        ix.div(element, k.c(perByte)));
    k.prefetch(k.at(k.pointer(weight.codes), k.builder.getI8Type(),
                    ix.add(byte, k.c(kAhead))));
  }

  /// Adds a block's product to `sum` and its part of the zero point's to
  /// `correction`.
  void block(Value row, Value x, Value sumsAt, Value number, Value &sum,
             Value &correction) {
    MathBuilder &m = k.math();
    Value dot;
    for (int64_t at = 0; at < weight.block; at += kChunk) {
      Value element = ix.add(ix.mul(number, k.c(weight.block)), k.c(at));
      Value where = ix.add(x, element);
      auto [q0, q1] = codesAt(row, element);
      Value x0 = k.loadF32(panel, where, kLanes);
      Value x1 = k.loadF32(panel, ix.add(where, k.c(kLanes)), kLanes);
      dot = dot ? m.fma(q0, x0, dot) : m.mul(q0, x0);
      dot = m.fma(q1, x1, dot);
    }
    DequantizeOp op = weight.op;
    Value scale = parameter(op.getScale(), row, number);
    sum = m.fma(dot,
                vector::BroadcastOp::create(k.builder, k.loc, k.vf32(), scale),
                sum);
    Value factor = scale;
    if (Value zero = op.getZeroPoint())
      factor = m.mul(scale, parameter(zero, row, number));
    else if (op.getImplicitZeroPoint() == 0)
      return;
    Value total = k.loadF32(blockSums, ix.add(sumsAt, number), 1);
    correction = m.fma(factor, total, correction);
  }

  /// sums[..][j] for the weights' row column0 + j. Pairs of blocks, so that two
  /// sums are under way.
  void run(Value column0, Value j, Value sums) {
    MathBuilder &m = k.math();
    int64_t unroll = blocks % 2 == 0 ? 2 : 1;
    Value zero = arith::ConstantOp::create(k.builder, k.loc,
                                           k.builder.getF32FloatAttr(0));
    Value zeros = vector::BroadcastOp::create(k.builder, k.loc, k.vf32(), zero);
    SmallVector<Value> init(unroll, zeros);
    init.append(unroll, zero);
    Value row = ix.add(column0, j);
    ix.loop(k.c(0), mk.m, 1, [&](Value r) {
      Value x = ix.mul(r, k.size(mk.paddedDepth));
      Value sumsAt = ix.mul(r, k.c(blocks));
      auto found = ix.loop(k.c(0), k.c(blocks), unroll, init,
                           [&](Value number, ValueRange carried) {
                             SmallVector<Value> next(carried);
                             fetchAhead(row, ix.mul(number, k.c(weight.block)));
                             for (int64_t u = 0; u < unroll; ++u)
                               block(row, x, sumsAt, ix.add(number, k.c(u)),
                                     next[u], next[unroll + u]);
                             return next;
                           });
      Value sum = found[0], correction = found[unroll];
      if (unroll == 2) {
        sum = m.add(sum, found[1]);
        correction = m.add(correction, found[3]);
      }
      DequantizeOp op = weight.op;
      if (!op.getZeroPoint())
        correction =
            m.mul(correction, m.real(double(op.getImplicitZeroPoint()), zero));
      k.storeF32(sums, ix.add(ix.mul(r, k.c(kHostGemvColumns)), j),
                 m.sub(k.sum(sum), correction));
    });
  }
};
} // namespace

void host::lowBitGemv(MatmulKernel &mk, unsigned product, Value panel,
                      Value blockSums, Value column0, Value count, Value sums) {
  LowBitRows rows{mk, mk.s.lowBit[product], panel, blockSums};
  KernelBuilder &k = mk.k;
  IndexBuilder &ix = k.ix();
  ix.loop(k.c(0), count, 1, [&](Value j) { rows.run(column0, j, sums); });
}
