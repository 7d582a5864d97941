//===- CardAttention.h - Attention templates of the card --------*- C++ -*-===//
//
// Which attention groups the fast templates of sm_90a take, and their
// parameters: pure functions that CardLaunch.h and Codegen/Hopper share.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_KERNELS_CARDATTENTION_H
#define FUSION_KERNELS_CARDATTENTION_H

#include "fusion/Kernels/CardLaunch.h"
#include "fusion/Kernels/StridedView.h"

namespace fusion::kernels {

/// What all templates need to know of an attention group.
struct AttentionGroup {
  AttentionOp op;
  StridedView key, value; ///< of 16-bit block arguments, rows contiguous
  SymExpr batch, keys;    ///< keys: T
  SymExpr rows;           ///< S
  int64_t heads, kvHeads, group, depth;
  /// Where the kernel itself appends the rows of this step to the caches:
  /// the appends, the numbers of their results, and the keys that were there
  /// before. `key` and `value` are then the caches.
  KvAppendOp appendKey, appendValue;
  unsigned keyResult = 0, valueResult = 0;
  SymExpr past;
  /// Results that are views of the attention's result, with their numbers.
  llvm::SmallVector<std::pair<unsigned, StridedOutput>> outputs;

  bool limitsRight() const;
  /// Each query sees a key, whatever the data.
  bool everyRowSees() const;
};
std::optional<AttentionGroup> getAttentionGroup(mlir::Block &body,
                                                std::string &reason);

/// Positions that a warp of the decode template treats at once.
constexpr int64_t kDecodeUnit = 16;
/// Blocks of a decode launch, at most: all of them are resident at once.
constexpr int64_t kDecodeBlocks = 132;
/// Parts that the keys of one KV head are split into, at most.
constexpr int64_t kDecodeParts = 64;

/// Few query rows a sequence over a long cache. The keys of each (sequence, KV
/// head) are split into parts, one a block; within a block, warps take units of
/// 16 keys in turn through rings of their own. The queries of a KV head are the
/// narrow side of the tensor-core products. Parts meet through words that carry
/// the run's number.
struct DecodeAttention {
  AttentionGroup group;
  int64_t rows;        ///< query rows, S
  int64_t queries;     ///< of one KV head: group * rows
  unsigned queryTiles; ///< of 8 queries
  unsigned warps, stages;
  unsigned parts;  ///< of a segment, at most; 0: known when the batch is
  int64_t words;   ///< of 16 bytes and two results each, that a part publishes
  bool contiguous; ///< the 16 rows of a unit are one block of memory
  SymExpr blocks;

  // Dynamic shared memory, offsets in bytes.
  unsigned partials, maxima, query, fresh, barriers, ring, sharedBytes;
  unsigned stageBytes() const {
    return unsigned(2 * kDecodeUnit * group.depth * 2);
  }
};
/// `body` is that of a kernel or of a group.
std::optional<DecodeAttention> getDecodeAttention(mlir::Block &body,
                                                  std::string &reason);

/// Many query rows: flash attention with wgmma. A tile is 64 rows of two heads
/// of one KV head, or 128 rows of one head; each half belongs to one consumer
/// warp group. Blocks of keys and values come by TMA from a producer warp, last
/// block first. Blocks of the grid take tiles in turn, longest first, forth and
/// back.
struct PrefillAttention {
  AttentionGroup group;
  bool pairs; ///< the two halves of a tile are heads, else rows
  /// Scores need data, a cap, or the lowest finite number: element by element.
  bool general;
  unsigned blockKeys;   ///< keys of a block
  unsigned columnBoxes; ///< of 64 columns, in a row of D
  unsigned queryBuffers;
  unsigned stages; ///< of keys, and of values

  // Dynamic shared memory, offsets in bytes.
  unsigned query, key, value, barriers, sharedBytes;
  unsigned halfBytes() const { return columnBoxes * 64 * 128; }
  unsigned blockBytes() const { return columnBoxes * blockKeys * 128; }
  unsigned tileRows() const { return pairs ? 64 : 128; }
  unsigned tileHeads() const { return pairs ? 2 : 1; }
};
std::optional<PrefillAttention> getPrefillAttention(mlir::Block &body,
                                                    std::string &reason);

/// Blocks of a prefill launch: one on each multiprocessor.
constexpr int64_t kPrefillBlocks = 132;

} // namespace fusion::kernels

#endif // FUSION_KERNELS_CARDATTENTION_H
