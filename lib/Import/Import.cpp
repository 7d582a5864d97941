//===- Import.cpp - ONNX file to fusion dialect ---------------------------===//
//
// The graph is imported again as long as the operators' constraints merge
// symbols: the last pass sees every size in its final form from the start.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "fusion/Support/Printable.h"

#include "mlir/IR/Diagnostics.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fusion;

static constexpr int maxPasses = 12;

std::optional<DimOption> fusion::parseDimOption(StringRef text) {
  auto [key, range] = text.rsplit('=');
  DimOption option;
  option.key = key.str();
  auto [low, high] = range.split("..");
  bool isRange = range.contains("..");
  if (key.empty() || low.getAsInteger(10, option.lower))
    return std::nullopt;
  option.upper = option.lower;
  if (isRange && high.getAsInteger(10, option.upper))
    return std::nullopt;
  if (option.lower < 0 || option.upper < option.lower)
    return std::nullopt;
  return option;
}

/// From IR version 4 on, an initializer that is listed as an input is a default
/// that callers may override; before, every initializer had to be listed.
static void tellConstants(Location loc, const onnxfile::Model &model,
                          const ImportOptions &options) {
  if (model.irVersion < 4 || llvm::is_contained(options.keptInputs, "all"))
    return;
  SmallVector<StringRef> names;
  for (const onnxfile::ValueInfo &input : model.graph.inputs)
    if (model.graph.initializers.count(input.name) &&
        !llvm::is_contained(options.keptInputs, input.name))
      names.push_back(input.name);
  if (names.empty())
    return;
  emitWarning(loc) << model.path << ": " << names.size()
                   << (names.size() == 1 ? " input with an initializer is"
                                         : " inputs with an initializer are")
                   << " compiled as constant: '" << printableName(names.front())
                   << "'" << (names.size() == 1 ? "" : ", ...")
                   << "; --keep-input=NAME or all keeps them inputs";
}

/// One error that lists every node and every other fault, so that a user need
/// not ask twice. A single fault needs no list.
static void report(Location loc, const onnxfile::Model &model,
                   ArrayRef<Importer::Problem> problems,
                   ArrayRef<std::string> faults) {
  constexpr size_t mostShown = 200;
  InFlightDiagnostic diagnostic = emitError(loc);
  diagnostic << model.path << ": ";
  if (problems.empty() && faults.size() == 1) {
    diagnostic << printable(faults.front());
    return;
  }
  auto count = [&](size_t n, StringRef what) {
    diagnostic << n << " " << what << (n == 1 ? "" : "s");
  };
  if (!problems.empty()) {
    count(problems.size(), "node");
    diagnostic << " cannot be imported";
  }
  if (!faults.empty()) {
    diagnostic << (problems.empty() ? "" : ", and ");
    count(faults.size(), problems.empty() ? "fault" : "other fault");
  }
  size_t shown = 0;
  for (const Importer::Problem &problem : problems) {
    if (++shown > mostShown)
      break;
    const onnxfile::Node &node = *problem.node;
    std::string domain = node.domain.empty() ? "ai.onnx" : node.domain;
    diagnostic << "\n  node '" << printableName(node.name)
               << "': " << printableName(domain)
               << "::" << printableName(node.opType) << ", "
               << (node.opset ? "opset " + std::to_string(node.opset)
                              : "no opset")
               << ": " << printable(problem.why);
  }
  for (const std::string &fault : faults) {
    if (++shown > mostShown)
      break;
    diagnostic << "\n  " << printable(fault);
  }
  if (shown > mostShown)
    diagnostic << "\n  ...";
}

FailureOr<OwningOpRef<ModuleOp>>
fusion::importOnnx(StringRef path, const ImportOptions &options,
                   MLIRContext &context) {
  context.loadDialect<FusionDialect, func::FuncDialect>();
  Location loc = FileLineColLoc::get(&context, path, 0, 0);
  Result<onnxfile::Model> model = onnxfile::loadModel(
      path.str(), [](const std::string &domain, const std::string &name) {
        return getHandlers().count(domain + "::" + name) ||
               (domain.empty() && name == "If");
      });
  if (!model) {
    emitError(loc) << printable(model.status().message());
    return failure();
  }
  for (const std::string &warning : model->warnings)
    emitWarning(loc) << path << ": " << printable(warning);
  tellConstants(loc, *model, options);

  Symbols symbols;
  for (int pass = 0; pass < maxPasses; ++pass) {
    symbols.startPass();
    Importer importer(*model, options, symbols, context);
    OwningOpRef<ModuleOp> module = importer.run();
    // A fault may vanish once the sizes learnt in this pass are merged.
    if (symbols.changed())
      continue;
    std::vector<std::string> faults = model->faults;
    llvm::append_range(faults, importer.faults);
    if (module && faults.empty())
      return module;
    report(loc, *model, importer.problems, faults);
    return failure();
  }
  emitError(loc) << path << ": the sizes of the model do not settle";
  return failure();
}

void fusion::listOperators(raw_ostream &os) {
  for (const auto &[key, handler] : getHandlers()) {
    auto [domain, name] = StringRef(key).split("::");
    os << onnxfile::describeOperator(domain.str(), name.str()) << "\n";
  }
}
