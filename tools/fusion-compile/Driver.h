//===- Driver.h - From ONNX to artifact -------------------------*- C++ -*-===//

#ifndef FUSION_TOOLS_FUSION_COMPILE_DRIVER_H
#define FUSION_TOOLS_FUSION_COMPILE_DRIVER_H

#include "Options.h"

#include "fusion/Fuse/Report.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace fusion::compile {

/// One compilation: the phases in order, and what is said about them.
class Driver {
public:
  Driver(const Options &options, mlir::MLIRContext &context)
      : options(options), context(context) {}

  ExitCode run();

private:
  /// Runs a phase, with its time under --timing; false when it failed.
  bool phase(llvm::StringRef name, llvm::function_ref<bool()> body);
  void complain(const llvm::Twine &what);
  bool collectRemarks();
  bool runPasses(llvm::function_ref<void(mlir::OpPassManager &)> build);
  bool import();
  /// A symbol that --likely names must exist.
  bool checkLikely();
  bool raise();
  /// Of a raised or imported module: --logits=last and --kv-cache=state.
  void addSession(mlir::OpPassManager &pm);
  /// Likewise, with --compute-type.
  void addComputeType(mlir::OpPassManager &pm);
  /// The layout of weights that all targets share.
  void addWeightLayout(mlir::OpPassManager &pm);
  /// Fuses for each target on its own; the functions say for which.
  bool fuse();
  bool fuseFor(mlir::ModuleOp module, llvm::StringRef target,
               FusionReport *report);
  /// Marks functions as fused for a card; `both`: there are others of the same
  /// names for the host.
  void markCard(mlir::ModuleOp module, bool both);
  void takeFunctions(mlir::ModuleOp from);
  bool plan();
  /// With --verify: a copy of the imported module, and its functions among the
  /// fused ones.
  void keepUnfused();
  bool addUnfused();
  bool addUnfusedFor(mlir::ModuleOp module, llvm::StringRef target);
  /// One PTX text or cubin a kernel, in a folder.
  ExitCode emitCard();
  /// The target's kernels before or after lowering, as text.
  ExitCode emitText();
  ExitCode emitArtifact();
  ExitCode printModule();
  bool checkDisabledSites();
  /// Whether the report is as --disable-fusion and --expect say; prints it
  /// where it is not.
  ExitCode checkReport();
  ExitCode printReport();
  /// From the fused module on.
  ExitCode emit();

  const Options &options;
  mlir::MLIRContext &context;
  mlir::OwningOpRef<mlir::ModuleOp> module, unfused;
  FusionReport report;
};

} // namespace fusion::compile

#endif // FUSION_TOOLS_FUSION_COMPILE_DRIVER_H
