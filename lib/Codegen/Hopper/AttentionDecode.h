//===- AttentionDecode.h - Template: few queries over a long cache -*- C++
//-*-===//
//
// The state of the decode template while it is built: AttentionDecode.cpp has
// who does what and the loop over units, DecodeParts.cpp how warps and parts
// meet.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_ATTENTIONDECODE_H
#define FUSION_LIB_CODEGEN_HOPPER_ATTENTIONDECODE_H

#include "AttentionScores.h"
#include "KernelFunction.h"
#include "WarpRing.h"

#include "fusion/Kernels/CardAttention.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace fusion::hopper {

/// Polls before a launch is given up: seconds.
inline constexpr int64_t kPatience = 1 << 23;

class DecodeTemplate {
public:
  DecodeTemplate(KernelFunction &f, const kernels::DecodeAttention &p)
      : f(f), k(f.k), ix(f.ix()), group(f.group()), p(p), a(p.group),
        op(p.group.op), element(elementType(op.getKey())), depth(p.group.depth),
        chunks(p.group.depth / 8), keyChunks((chunks + 3) / 4),
        valueChunks((chunks + 7) / 8), tiles(p.queryTiles), scores(f, p.group) {
  }
  void build();

private:
  /// The units of one part, and whose they are.
  struct Item {
    Val segment, batch, head, part, used; ///< used: parts that have work
    Val first, last;                      ///< units
  };
  /// Where the warp reads ahead.
  struct Ahead {
    Val item, unit, last, key, value, count;
    Vals flat() const { return {item, unit, last, key, value, count}; }
    static Ahead from(llvm::ArrayRef<Val> v) {
      return {v[0], v[1], v[2], v[3], v[4], v[5]};
    }
  };
  /// What the warp has summed of its part.
  struct Sums {
    Vals out;         ///< [query tile][16 rows of D][4]
    Vals top, weight; ///< [query tile][2]
  };

  void setUp();
  Item itemAt(Val item);
  Ahead startAt(Val item);
  Ahead nextItem(const Ahead &at);
  Ahead copyAhead(const Ahead &at);
  void copyRows(const Ahead &at, Val slot, Val rows);
  void loadQueries(const Item &item);
  Vals queryFragments();
  Vals loadChunks(Val row, unsigned count, unsigned step, Val firstChunk);
  Vals unitScores(Val stage, llvm::ArrayRef<Val> query);
  void addUnit(Sums &sums, Val stage, Val position, const Item &item,
               llvm::ArrayRef<Val> query);
  void softmax(Sums &sums, llvm::MutableArrayRef<Val> scores, unsigned tile);
  void addValues(Sums &sums, Val stage, llvm::ArrayRef<Val> weights);
  void loadFresh(const Item &item);
  void finishStage(Val stage, Val position);
  Sums noSums();
  Vals pack(const Sums &sums) const;
  Sums unpack(llvm::ArrayRef<Val> values) const;
  Ahead runItem(const Item &item, Val number, const Ahead &ahead, Val &used);
  void finishPart(const Item &item, Val number, Sums &sums);
  void combineWarps(const Item &item, Val number);
  void publish(Val number, Val word, Val x, Val y, Val weight);
  void combineParts(const Item &item, Val number);
  Val poll(Val pointer, Val expected);
  void storePair(const Item &item, Val word, Val x, Val y);
  void reportStall();

  Val dividedBy(Val a, int64_t b) {
    return k.wrap(mlir::arith::DivUIOp::create(k.builder(), mlir::Value(a),
                                               mlir::Value(k.i32(b))));
  }
  Val remainder(Val a, int64_t b) {
    return k.wrap(mlir::arith::RemUIOp::create(k.builder(), mlir::Value(a),
                                               mlir::Value(k.i32(b))));
  }
  Val dividedBy(Val a, Val b) {
    return k.wrap(mlir::arith::DivUIOp::create(k.builder(), mlir::Value(a),
                                               mlir::Value(b)));
  }
  Val remainder(Val a, Val b) {
    return k.wrap(mlir::arith::RemUIOp::create(k.builder(), mlir::Value(a),
                                               mlir::Value(b)));
  }
  Val max(Val x, Val y) {
    return k.wrap(mlir::arith::MaxSIOp::create(k.builder(), mlir::Value(x),
                                               mlir::Value(y)));
  }
  Val size(const SymExpr &e) { return k.toI32(k.wrap(ix.size(e))); }
  codegen::Index index(Val v) { return ix.index(mlir::Value(k.toIndex(v))); }
  Val loadShared(Val pointer, mlir::Type type, unsigned alignment) {
    return k.load(pointer, k.i64(0), type, {alignment, false});
  }
  mlir::Type vectorOf(unsigned n, mlir::Type type) {
    return mlir::VectorType::get({int64_t(n)}, type);
  }

  KernelFunction &f;
  KernelBuilder &k;
  codegen::IndexBuilder &ix;
  codegen::BodyEmitter &group;
  const kernels::DecodeAttention &p;
  const kernels::AttentionGroup &a;
  AttentionOp op;
  mlir::Type element;
  const int64_t depth, chunks;
  const unsigned keyChunks, valueChunks, tiles;
  AttentionScores scores;

  mlir::Type i32, f32;
  Val thread, warp, lane, g, t; ///< lane = 4 g + t
  Val shared, keys, copied, segments, parts, items, blocks, epoch;
  Val keyPointer, valuePointer, aligned;
  std::optional<WarpRing> ring;
};

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_ATTENTIONDECODE_H
