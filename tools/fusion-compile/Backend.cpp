//===- Backend.cpp - From planned module to code and artifact -------------===//

#include "Driver.h"
#include "Output.h"

#include "fusion/Codegen/Host.h"
#include "fusion/Link/Link.h"

#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::compile;

static HostOptions makeHostOptions(const Options &options) {
  HostOptions host;
  host.strict = options.strict || options.isUnfused();
  return host;
}

ExitCode Driver::emitHostText() {
  HostOptions host = makeHostOptions(options);
  std::string text;
  if (options.emit == Stage::Llvm) {
    auto llvmText = emitHostLLVM(*module, host);
    if (failed(llvmText))
      return kInputFault;
    text = std::move(*llvmText);
  } else {
    auto kernels = generateHostKernels(*module, host);
    if (failed(kernels))
      return kInputFault;
    llvm::raw_string_ostream os(text);
    (*kernels)->print(os);
  }
  auto written =
      writeFile(options.output, [&](raw_ostream &os) { os << text; });
  return succeeded(written) ? kSuccess : kInputFault;
}

ExitCode Driver::emitCard() {
  llvm::errs() << "fusion-compile: no code for the card\n";
  return kUsage;
}

ExitCode Driver::emitArtifact() {
  std::vector<kernels::CompiledImage> images;
  bool compiled = phase("codegen", [&] {
    auto host = compileHostKernels(*module, makeHostOptions(options));
    if (failed(host))
      return false;
    images = std::move(*host);
    return true;
  });
  if (!compiled)
    return kInputFault;
  LinkOptions link;
  link.producer = "fusion 0.1.0";
  link.options = options.canonical();
  llvm::raw_string_ostream explain(link.explain);
  report.printJson(explain);
  bool linked = phase("link", [&] {
    return succeeded(linkArtifact(*module, images, options.output, link));
  });
  return linked ? kSuccess : kInputFault;
}
