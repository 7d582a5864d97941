//===- RowTemplate.h - Rows that are computed and reduced -------*- C++ -*-===//
//
// The working part of the row-reduction template, which others use for what
// they do to a row first (a norm before a product): threads share a row, each
// holds some of its columns, reductions meet.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_CODEGEN_HOPPER_ROWTEMPLATE_H
#define FUSION_LIB_CODEGEN_HOPPER_ROWTEMPLATE_H

#include "KernelFunction.h"

namespace fusion::hopper {

class RowTemplate {
public:
  using Vals = KernelBuilder::Vals;
  using Index = codegen::Index;
  using Indices = codegen::Indices;

  /// A vector of columns that a thread handles.
  struct Column {
    Index at;   ///< first column; lanes follow each other
    Val active; ///< null: always inside the row
  };

  /// A result, and the value of the row space that it is a view of.
  struct Output {
    unsigned number;
    mlir::Value source;
    llvm::SmallVector<mlir::Operation *>
        views;   ///< from the source to the result
    bool perRow; ///< one element a row
    bool early;  ///< needs no reduction
  };

  /// `threadsPerRow` threads share a row of `space`; each keeps `chunks`
  /// vectors of it in registers, or with 0 reads the row again for each pass.
  RowTemplate(KernelFunction &f, const kernels::RowSpace &space,
              unsigned threadsPerRow, unsigned vector, unsigned chunks)
      : f(f), k(f.k), ix(f.ix()), group(f.group()), space(space),
        threadsPerRow(threadsPerRow), vector(vector), chunks(chunks) {}

  /// The whole kernel of the row-reduction family.
  void build(const kernels::CardLaunch &launch);

  /// This thread's row, its place among the row's threads (i32), and whether
  /// the row exists (null: always).
  void place(Index row, Val position, Val exists);
  /// Computes reductions in order. `meanwhile` runs when the first row has
  /// been loaded into registers and no threads have met yet.
  void reduceRows(llvm::ArrayRef<mlir::Operation *> reductions,
                  llvm::function_ref<void()> meanwhile);
  /// Elements of `tensor`, which lies over the rows, at a column.
  Val element(mlir::Value tensor, const Column &column) {
    return k.wrap(group.emitVector(tensor, indicesOf(tensor, column.at)));
  }
  /// Those kept in registers.
  llvm::ArrayRef<Column> getColumns() const { return columns; }
  void mapColumns(llvm::function_ref<void(const Column &)> body);

  Output traceOutput(unsigned number);
  void addOutput(Output output) { outputs.push_back(std::move(output)); }
  void storeOutputs(llvm::function_ref<bool(const Output &)> wanted);
  /// Loads operands that are one row (the weights of a norm) for the columns
  /// in registers.
  void loadSingleRows(llvm::function_ref<bool(unsigned)> wanted);

private:
  void placeRow(const kernels::CardLaunch &launch);
  Vals foldColumns(
      Vals init,
      llvm::function_ref<Vals(const Column &, llvm::ArrayRef<Val>)> step);
  Indices indicesOf(mlir::Value tensor, const Index &column);
  bool isThisRow(mlir::Value tensor, llvm::ArrayRef<Index> indices);

  // Reductions of the row: `value(column)` is added up by `step`.
  Val reduceRow(Val neutral, llvm::function_ref<Val(Val, Val)> step,
                llvm::function_ref<Val(const Column &)> value);
  /// The sum over the row, in the type that elements of `like` are computed in.
  Val sumRow(mlir::Value like, llvm::function_ref<Val(const Column &)> value);
  Val real(mlir::Value like, double value);
  /// The number of columns as such a value.
  Val countOf(mlir::Value like);
  Val exp(Val x);
  void reduce(mlir::Operation *op);
  void reduceRmsNorm(RmsNormOp op);
  void reduceLayerNorm(LayerNormOp op);
  void reduceSoftmax(SoftmaxOp op);
  void reducePlain(mlir::Operation *op);
  void reduceArgMax(ArgMaxOp op);
  /// From here on `op`'s result is `value(indices)` of this row.
  void provide(mlir::Operation *op,
               std::function<Val(llvm::ArrayRef<Index>)> value);

  // Results.
  void storeColumn(const Output &output, const Column &column);
  void storePerRow(const Output &output);
  Index placeOf(const Output &output, const Index &column);
  void buildPrologue();

  Val splat(Val scalar) {
    return vector == 1 ? scalar : k.splat(scalar, vector);
  }

  KernelFunction &f;
  KernelBuilder &k;
  codegen::IndexBuilder &ix;
  codegen::BodyEmitter &group;
  const kernels::RowSpace &space;
  unsigned threadsPerRow, vector, chunks;

  mlir::Value width;                 ///< of the row, index type
  Index row;                         ///< this thread's row, inside the tensor
  Val rowExists;                     ///< null: always
  Val position;                      ///< of the thread within the row's, i32
  llvm::SmallVector<Column> columns; ///< those kept in registers
  llvm::SmallVector<Output> outputs;
};

} // namespace fusion::hopper

#endif // FUSION_LIB_CODEGEN_HOPPER_ROWTEMPLATE_H
