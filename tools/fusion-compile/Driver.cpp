//===- Driver.cpp - From ONNX to a fused module ---------------------------===//

#include "Driver.h"
#include "Output.h"

#include "fusion/Dialect/Fusion/Symbols.h"
#include "fusion/Eval/Eval.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/Plan/Passes.h"
#include "fusion/Raise/Decoder/Passes.h"
#include "fusion/Raise/Passes.h"
#include "fusion/Support/Printable.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Process.h"

#include <chrono>

using namespace mlir;
using namespace fusion;
using namespace fusion::compile;

bool Driver::phase(StringRef name, function_ref<bool()> body) {
  auto start = std::chrono::steady_clock::now();
  bool tty = llvm::sys::Process::StandardErrIsDisplayed();
  if (tty && !options.timing)
    llvm::errs() << "\r\x1b[K" << name << " ...";
  bool ok = body();
  std::chrono::duration<double, std::milli> time =
      std::chrono::steady_clock::now() - start;
  if (options.timing)
    llvm::errs() << llvm::format("%-8s %8.1f ms\n", name.str().c_str(),
                                 time.count());
  else if (tty)
    llvm::errs() << "\r\x1b[K";
  return ok;
}

/// Of the model as a whole; names of the file are made fit to print.
void Driver::complain(const Twine &what) {
  llvm::errs() << printable(options.input)
               << ": error: " << printableMessage(what.str()) << "\n";
}

/// Near misses of Raise are remarks; the report records them.
bool Driver::collectRemarks() {
  // A kind without a filter of its own is dropped, whatever `all` says.
  remark::RemarkCategories categories;
  categories.missed = categories.failed = ".*";
  return succeeded(remark::enableOptimizationRemarks(
      context, createReportStreamer(report),
      std::make_unique<remark::RemarkEmittingPolicyAll>(), categories));
}

bool Driver::runPasses(function_ref<void(OpPassManager &)> build) {
  PassManager manager(&context);
  // Phases end in verifier passes of their own; the op verifiers run there.
  manager.enableVerifier(true);
  build(manager);
  return succeeded(manager.run(*module));
}

bool Driver::import() {
  auto imported = importOnnx(options.input, options.import, context);
  if (failed(imported))
    return false;
  module = std::move(*imported);
  return runPasses([&](OpPassManager &pm) {
    AssignRolesOptions roles;
    for (const auto &[role, name] : options.import.roles)
      roles.roles.push_back(role + "=" + name);
    pm.addPass(createAssignRoles(roles));
    if (!options.cacheState)
      return;
    BindDecoderInputsOptions bind;
    bind.ownLengths = options.ownLengths;
    pm.addPass(createBindDecoderInputs(bind));
  });
}

bool Driver::checkLikely() {
  std::vector<std::string> symbols = collectSymbols(*module);
  llvm::sort(symbols);
  for (const auto &[symbol, size] : options.likely)
    if (!llvm::is_contained(symbols, symbol)) {
      complain("--likely " + symbol +
               ": no such size; the symbols of the model are " +
               (symbols.empty() ? "none" : llvm::join(symbols, ", ")));
      return false;
    }
  return true;
}

bool Driver::raise() {
  return runPasses([&](OpPassManager &pm) {
    if (!options.isUnfused()) {
      buildRaisePipeline(pm, RaiseOptions());
      pm.addPass(createAssignRoles());
    }
    addSession(pm);
    addComputeType(pm);
    addWeightLayout(pm);
  });
}

void Driver::addSession(OpPassManager &pm) {
  if (options.lastLogits) {
    LastLogitsOptions last;
    last.ownLengths = options.ownLengths;
    pm.addPass(createLastLogits(last));
  }
  if (!options.cacheState)
    return;
  pm.addPass(createAppendCaches());
  if (options.ownLengths)
    pm.addPass(createSequenceLengths());
  MakeCacheStateOptions state;
  state.maxContext = options.maxContext;
  pm.addPass(createMakeCacheState(state));
}

void Driver::addComputeType(OpPassManager &pm) {
  if (options.computeType.empty())
    return;
  SetComputeTypeOptions type;
  type.type = options.computeType;
  pm.nest<func::FuncOp>().addPass(createSetComputeType(type));
}

void Driver::addWeightLayout(OpPassManager &pm) {
  if (options.card)
    pm.nest<func::FuncOp>().addPass(createTransposeWeights());
}

static FuseOptions makeFuseOptions(const Options &options, StringRef target,
                                   FusionReport *report) {
  FuseOptions fuse;
  fuse.device = target == "card" ? "h200" : "host";
  fuse.disabled = options.disabled;
  fuse.strict = options.strict;
  fuse.fuel = options.fuel;
  fuse.sizes = options.likely;
  fuse.measured = options.measured;
  fuse.report = report;
  return fuse;
}

void Driver::markCard(ModuleOp module, bool both) {
  for (auto function : module.getOps<func::FuncOp>()) {
    function->setAttr(FusionDialect::kDeviceAttr,
                      StringAttr::get(&context, "card"));
    if (both)
      function.setName((function.getName() + "_card").str());
  }
}

void Driver::takeFunctions(ModuleOp from) {
  for (auto function :
       llvm::make_early_inc_range(from.getOps<func::FuncOp>())) {
    function->remove();
    module->push_back(function);
  }
}

bool Driver::fuseFor(ModuleOp module, StringRef target, FusionReport *report) {
  PassManager manager(&context);
  manager.enableVerifier(true);
  buildFusePipeline(manager, makeFuseOptions(options, target, report));
  if (failed(manager.run(module)))
    return false;
  if (target == "card")
    markCard(module, options.host);
  return true;
}

bool Driver::fuse() {
  if (!options.host || !options.card)
    return fuseFor(*module, options.card ? "card" : "host", &report);
  // The report is about the card, where fusion pays.
  OwningOpRef<ModuleOp> card = cast<ModuleOp>(module->getOperation()->clone());
  if (!fuseFor(*module, "host", nullptr) || !fuseFor(*card, "card", &report))
    return false;
  takeFunctions(*card);
  return true;
}

bool Driver::plan() {
  PlanOptions plan;
  plan.foldNorms = !llvm::is_contained(options.disabled, "fold");
  return runPasses([&](OpPassManager &pm) { buildPlanPipeline(pm, plan); });
}

ExitCode Driver::printModule() {
  auto written = writeFile(options.output, [&](raw_ostream &os) {
    OpPrintingFlags flags;
    module->print(os, flags);
    os << "\n";
  });
  return succeeded(written) ? kSuccess : kInputFault;
}

/// A site that `--disable-fusion=KIND@NODE` names must exist.
bool Driver::checkDisabledSites() {
  for (StringRef text : options.disabled) {
    StringRef kind, node;
    std::tie(kind, node) = text.split('@');
    if (!text.contains('@') || node == "*" ||
        !llvm::is_contained(siteKinds(), kind))
      continue;
    bool found = llvm::any_of(report.sites, [&](const SiteReport &site) {
      return site.kind == kind &&
             (site.node == node || llvm::is_contained(site.nodes, node));
    });
    if (found)
      continue;
    complain("--disable-fusion=" + text +
             " names no site of the model; --explain lists them");
    return false;
  }
  return true;
}

ExitCode Driver::printReport() {
  // Standard output may be taken by what is compiled.
  raw_ostream &os = options.output == "-" ? llvm::errs() : llvm::outs();
  if (options.explain == ExplainForm::Text)
    report.printText(os);
  else if (options.explain == ExplainForm::Json)
    report.printJson(os);
  else if (options.explain == ExplainForm::Html)
    report.printHtml(os);
  os.flush();
  if (options.output != "-" && llvm::outs().has_error()) {
    llvm::errs() << "fusion-compile: error: cannot write to standard output: "
                 << llvm::outs().error().message() << "\n";
    llvm::outs().clear_error();
    return kInputFault;
  }
  return kSuccess;
}

ExitCode Driver::checkReport() {
  if (!checkDisabledSites())
    return kInputFault;
  if (options.expect.empty())
    return kSuccess;
  ExpectationResult result = checkExpectations(options.expect, report);
  if (result.ok())
    return kSuccess;
  if (ExitCode printed = printReport(); printed != kSuccess)
    return printed;
  complain(result.text);
  return kExpectation;
}

ExitCode Driver::run() {
  if (!collectRemarks())
    return kInputFault;
  if (!phase("import", [&] { return import(); }) || !checkLikely())
    return kInputFault;
  if (options.emit == Stage::Imported)
    return printModule();
  keepUnfused();
  if (!phase("raise", [&] { return raise(); }))
    return kInputFault;
  if (options.emit == Stage::Raised)
    return printModule();
  if (!phase("fuse", [&] { return fuse(); }))
    return kInputFault;
  if (ExitCode checked = checkReport(); checked != kSuccess)
    return checked;
  // Kernels of the card are in the report once their code is made.
  bool compiles = options.card && options.emit == Stage::Artifact;
  if (!compiles)
    if (ExitCode printed = printReport(); printed != kSuccess)
      return printed;
  ExitCode emitted = emit();
  if (!compiles)
    return emitted;
  ExitCode printed = printReport();
  return emitted == kSuccess ? printed : emitted;
}

ExitCode Driver::emit() {
  if (options.emit == Stage::Fused)
    return printModule();
  if (options.verify && !phase("unfused", [&] { return addUnfused(); }))
    return kInputFault;
  if (!phase("plan", [&] { return plan(); }))
    return kInputFault;
  if (options.emit == Stage::Planned)
    return printModule();
  switch (options.emit) {
  case Stage::Ptx:
  case Stage::Cubin:
    return emitCard();
  case Stage::Kernel:
  case Stage::Llvm:
    return emitText();
  default:
    return emitArtifact();
  }
}
