//===- Lowering.h - Parts of the lowering to launches -----------*- C++ -*-===//

#ifndef FUSION_LIB_PLAN_LOWERING_H
#define FUSION_LIB_PLAN_LOWERING_H

#include "KernelTable.h"
#include "fusion/Plan/Passes.h"

namespace fusion {

/// The constants of a module, each once, as `plan.constant` symbols.
class ConstantPool {
public:
  explicit ConstantPool(mlir::ModuleOp module)
      : module(module), symbols(module) {}

  /// The constant that a value is, or null: a `fusion.weight`, a
  /// `fusion.constant`, or a result that Link evaluates. `layout` names how the
  /// kernel wants it to lie ("": row-major).
  plan::ConstantOp get(mlir::Value value, llvm::StringRef layout = "");

  /// Makes the results of a bound group constants that Link evaluates, where
  /// all its inputs are constants and the results are worth their place in the
  /// artifact. Returns false, and does nothing, elsewhere.
  bool evaluate(GroupOp group);

private:
  plan::ConstantOp insert(llvm::StringRef name, mlir::Type type,
                          mlir::Attribute value, llvm::StringRef layout);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  /// By value (or kernel, result and sources; with the layout, if any) and
  /// type.
  llvm::DenseMap<std::pair<mlir::Attribute, mlir::Type>, plan::ConstantOp>
      known;
  llvm::DenseMap<mlir::Value, plan::ConstantOp> evaluated;
};

/// Chooses the quantised weights that the card's kernels read in the packed
/// layouts of Kernels/LowBit.h, the same in all functions for the card, and
/// lists them in the groups' configurations.
void packLowBitWeights(mlir::ModuleOp module);
/// Merges norms into the products of few rows and packed weights that read
/// them. After packLowBitWeights().
void foldNormsIntoProducts(mlir::func::FuncOp function);
/// Whether a constant of FP8, a weight's place in a file or its elements, holds
/// NaN or an infinity.
bool holdsSpecialCodes(mlir::Attribute source, mlir::Type type);

/// Whether the argument is a session state, and its index.
std::optional<int64_t> getStateIndex(mlir::func::FuncOp function,
                                     unsigned argument);

/// The axis of a state along which tokens are appended.
std::optional<int64_t> getLengthAxis(mlir::Type type);

/// Declares what the functions have in common, by the one with the fewest
/// fixed sizes. Call before the functions are lowered.
mlir::FailureOr<plan::ModelOp>
buildModel(mlir::ModuleOp module, llvm::ArrayRef<mlir::func::FuncOp> functions);

/// The name of a location: of the node an op was made from, or "".
std::string nameOf(mlir::Location loc);
/// The ONNX nodes of a group: the first and the last when there are many.
std::string getSite(GroupOp group);
/// The ONNX node whose output a result is. A node with several outputs names
/// none of them.
std::string getValueName(GroupOp group, unsigned index);
/// A fused value that carries the name of a node is that node's output only
/// when it has its type and number of elements; what Raise made in a node's
/// place (half a table of angles, a mask) is not. Compared where there is an
/// unfused program to compare with.
void dropForeignValues(llvm::ArrayRef<plan::ProgramOp> programs);

/// Cache hints, invariance and launch classes.
void annotateLaunches(plan::ProgramOp program,
                      const mlir::SymbolTable &symbols);

} // namespace fusion

#endif // FUSION_LIB_PLAN_LOWERING_H
