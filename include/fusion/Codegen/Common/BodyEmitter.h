//===- BodyEmitter.h - A group's body as scalar or vector code --*- C++ -*-===//
//
// Pull-based: `emit(value, indices)` builds the code that computes one element
// (or one vector of elements) of a tensor value of the body, from the elements
// that it needs, down to loads of the arguments. Views, broadcasts and gathers
// are index arithmetic. A template iterates, asks for elements, and stores
// them; it overrides values that it computes itself (`provide`).
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_CODEGEN_COMMON_BODYEMITTER_H
#define FUSION_CODEGEN_COMMON_BODYEMITTER_H

#include "fusion/Codegen/Common/IndexBuilder.h"
#include "fusion/Codegen/Common/MathBuilder.h"
#include "fusion/Dialect/Fusion/FusionOps.h"

#include "llvm/ADT/DenseMap.h"

namespace fusion::codegen {

class BodyEmitter;

/// What differs between targets.
class EmitterTarget {
public:
  virtual ~EmitterTarget() = default;
  /// Elements `offset.base ... + width - 1` of an argument's memory (in
  /// elements, as if it were row-major by its storage shape), widened to
  /// computeType(): a scalar when `width` is 1, else a vector. `offset.divisor`
  /// is a known alignment of the offset, in elements.
  virtual mlir::Value load(BodyEmitter &emitter, mlir::BlockArgument argument,
                           const Index &offset, unsigned width) = 0;
  /// `condition` (i1) says that something is wrong at run time; `code` is one
  /// of HostStatus. The code that follows does not fault in any case.
  virtual void report(BodyEmitter &emitter, mlir::Value condition,
                      int32_t code) {}
  /// A value of the unary op `op` (fusion.exp, ...) on `x` of f32 or f64, or
  /// null for the default expansion by MathBuilder.
  virtual mlir::Value elementary(BodyEmitter &emitter, mlir::Operation *op,
                                 mlir::Value x) {
    return nullptr;
  }
  /// The value with only the precision of `element`.
  virtual mlir::Value round(BodyEmitter &emitter, mlir::Value value,
                            mlir::Type element, bool saturate);
};

class BodyEmitter {
public:
  /// `strict`: round at every op's result as the ONNX graph does, not only
  /// where values leave the group.
  BodyEmitter(IndexBuilder &index, EmitterTarget &target, bool strict);

  IndexBuilder &index() { return ix; }
  mlir::OpBuilder &b() { return ix.b(); }
  mlir::Location loc() const { return ix.loc(); }
  MathBuilder &math() { return mathBuilder; }

  /// Number of lanes of what emit() builds from now on.
  unsigned width() const { return lanes; }
  void setWidth(unsigned width) { lanes = width; }

  /// The element of `tensor` at `indices` (one an axis), in computeType(). A
  /// scalar when no index has lanes or all lanes are equal, else a vector.
  mlir::Value emit(mlir::Value tensor, llvm::ArrayRef<Index> indices);
  /// The same, always a vector when width() > 1.
  mlir::Value emitVector(mlir::Value tensor, llvm::ArrayRef<Index> indices);
  /// Lanes from a scalar.
  mlir::Value broadcast(mlir::Value value);
  /// The position as a value of index type, or a vector of them.
  mlir::Value positions(const Index &index);

  /// Computes elements of a value in the template's way. Returns null where it
  /// has none; the emitter then goes on as usual.
  using Provider = std::function<mlir::Value(llvm::ArrayRef<Index>)>;
  void provide(mlir::Value tensor, Provider provider);
  void withdraw(mlir::Value tensor) { providers.erase(tensor); }

  /// One step of a reduction's accumulation over f32, f64 or integers; ops are
  /// the reduce_* ops, softmax (maximum) excluded.
  mlir::Value neutral(mlir::Operation *reduction, mlir::Type type);
  mlir::Value accumulate(mlir::Operation *reduction, mlir::Value sum,
                         mlir::Value x);
  /// Division by the number of elements for means.
  mlir::Value finish(mlir::Operation *reduction, mlir::Value sum);

  /// An element that a scatter updates: `reduction` is its attribute.
  mlir::Value update(llvm::StringRef reduction, mlir::Type element,
                     mlir::Value old, mlir::Value x);
  /// What steps 2 to 4 of an attention make of a scaled score of query row
  /// `at[2]` and key `at[3]`; hiddenScore() when the key is not seen.
  mlir::Value maskScore(AttentionOp op, mlir::Value score,
                        llvm::ArrayRef<Index> at);
  /// Minus infinity; or a finite number below all scores, which gives a row
  /// that sees nothing the mean over all keys, when that is what it has to be.
  static double hiddenScore(AttentionOp op);

  /// Values of elementwise op `op` for operand values in computeType().
  mlir::Value apply(mlir::Operation *op, llvm::ArrayRef<mlir::Value> operands);
  /// Conversion between computeTypes of two element types.
  mlir::Value convert(mlir::Value value, mlir::Type from, mlir::Type to,
                      bool saturate = true);

  /// A clamped position from an index tensor's element along `size`.
  mlir::Value gatherPosition(mlir::Value element, const SymExpr &size);
  /// Where the update of sequence `batch` starts along the append's axis.
  mlir::Value appendStart(KvAppendOp op, const Index &batch);
  /// How many keys lie in front of query 0 of sequence `batch`.
  mlir::Value queryOffset(AttentionOp op, const Index &batch);

  /// Reports a body that cannot be emitted, and returns a value to go on with.
  mlir::Value unsupported(mlir::Operation *op, const llvm::Twine &reason);
  bool failed() const { return hasFailed; }
  /// How often a vector had to be put together from its lanes so far.
  unsigned numLaneFallbacks() const { return laneFallbacks; }
  bool isStrict() const { return strict; }
  EmitterTarget &getTarget() { return target; }

private:
  using IndexRef = llvm::ArrayRef<Index>;
  mlir::Value emitNew(mlir::Value tensor, IndexRef indices);
  mlir::Value emitOp(mlir::Operation *op, IndexRef indices);
  mlir::Value emitLanes(mlir::Value tensor, IndexRef indices);
  mlir::Value emitLoad(mlir::BlockArgument argument, const Index &offset);
  mlir::Value emitElementwise(mlir::Operation *op, IndexRef indices);
  mlir::Value emitConstant(ConstantOp op, IndexRef indices);
  mlir::Value emitShapeValue(ShapeValueOp op, IndexRef indices);
  mlir::Value emitTable(llvm::ArrayRef<mlir::Value> values, IndexRef indices,
                        const SymShape &shape);
  mlir::Value emitIota(IotaOp op, IndexRef indices);
  mlir::Value emitTrilu(TriluOp op, IndexRef indices);
  mlir::Value emitReshape(ReshapeOp op, IndexRef indices);
  mlir::Value emitSlice(SliceOp op, IndexRef indices);
  mlir::Value emitPieces(mlir::Operation *op, llvm::ArrayRef<mlir::Value> parts,
                         unsigned axis, IndexRef indices);
  mlir::Value emitPad(PadOp op, IndexRef indices);
  mlir::Value emitTile(TileOp op, IndexRef indices);
  mlir::Value emitGather(GatherOp op, IndexRef indices);
  mlir::Value emitGatherElements(GatherElementsOp op, IndexRef indices);
  mlir::Value emitGatherNd(GatherNdOp op, IndexRef indices);
  mlir::Value emitDequantize(DequantizeOp op, IndexRef indices);
  mlir::Value emitRope(RopeOp op, IndexRef indices);
  mlir::Value emitReduction(mlir::Operation *op, IndexRef indices);
  mlir::Value emitArgMax(ArgMaxOp op, IndexRef indices);
  mlir::Value emitSoftmax(SoftmaxOp op, IndexRef indices);
  mlir::Value emitRmsNorm(RmsNormOp op, IndexRef indices);
  mlir::Value emitLayerNorm(LayerNormOp op, IndexRef indices);
  mlir::Value emitMatmul(MatmulOp op, IndexRef indices);
  mlir::Value emitCumSum(CumSumOp op, IndexRef indices);
  mlir::Value emitAppend(KvAppendOp op, IndexRef indices);
  mlir::Value emitAttention(AttentionOp op, IndexRef indices);
  mlir::Value emitScatterElements(ScatterElementsOp op, IndexRef indices);
  mlir::Value emitScatterNd(ScatterNdOp op, IndexRef indices);

  /// The position that operand `operand`, broadcast to `shape`, has for it.
  Indices broadcastIndices(mlir::Value operand, IndexRef indices);
  /// Sum (or what `step` does) over a loop, of scalars.
  mlir::Value
  fold(const SymExpr &count, mlir::Value init,
       llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> step);
  void unify(llvm::SmallVectorImpl<mlir::Value> &values);
  mlir::Value integerOp(mlir::Operation *op, mlir::Value a, mlir::Value b,
                        bool isUnsigned);
  mlir::Value divide(mlir::Operation *op, mlir::Value a, mlir::Value b,
                     bool isUnsigned);
  mlir::Value unary(mlir::Operation *op, mlir::Value x);
  mlir::Value binary(mlir::Operation *op, mlir::Value a, mlir::Value b);
  mlir::Value power(mlir::Operation *op, mlir::Value a, mlir::Value b);
  mlir::Value compare(mlir::Operation *op, mlir::Value a, mlir::Value b);

  IndexBuilder &ix;
  EmitterTarget &target;
  MathBuilder mathBuilder;
  bool strict;
  bool hasFailed = false;
  unsigned lanes = 1, laneFallbacks = 0;
  llvm::DenseMap<mlir::Value, Provider> providers;
};

} // namespace fusion::codegen

#endif // FUSION_CODEGEN_COMMON_BODYEMITTER_H
