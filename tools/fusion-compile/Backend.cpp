//===- Backend.cpp - From planned module to code and artifact -------------===//

#include "Driver.h"
#include "KernelReports.h"
#include "Output.h"

#include "fusion/Codegen/Hopper.h"
#include "fusion/Codegen/Host.h"
#include "fusion/Link/Link.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::compile;

static HostOptions makeHostOptions(const Options &options) {
  HostOptions host;
  host.strict = options.strict || options.isUnfused();
  if (options.hostCpu == "x86-64-v3")
    host.levels = {artifact::KernelCode::Target::HostV3};
  else if (options.hostCpu == "x86-64-v4")
    host.levels = {artifact::KernelCode::Target::HostV4};
  return host;
}

static HopperOptions makeHopperOptions(const Options &options) {
  HopperOptions hopper;
  hopper.strict = options.strict || options.isUnfused();
  hopper.ptxas = options.ptxas;
  return hopper;
}

ExitCode Driver::emitText() {
  HostOptions host = makeHostOptions(options);
  HopperOptions hopper = makeHopperOptions(options);
  std::string text;
  if (options.emit == Stage::Llvm) {
    auto code = options.card ? emitHopperLLVM(*module, hopper)
                             : emitHostLLVM(*module, host);
    if (failed(code))
      return kInputFault;
    text = std::move(*code);
  } else {
    auto kernels = options.card ? generateHopperKernels(*module, hopper)
                                : generateHostKernels(*module, host);
    if (failed(kernels))
      return kInputFault;
    llvm::raw_string_ostream os(text);
    (*kernels)->print(os);
    os << "\n";
  }
  auto written =
      writeFile(options.output, [&](raw_ostream &os) { os << text; });
  return succeeded(written) ? kSuccess : kInputFault;
}

static FailureOr<std::vector<HopperKernel>>
compileCard(ModuleOp module, const Options &options, bool assemble) {
  HopperOptions hopper = makeHopperOptions(options);
  hopper.assemble = assemble;
  return compileHopperKernels(module, hopper);
}

ExitCode Driver::emitCard() {
  bool text = options.emit == Stage::Ptx;
  auto kernels = compileCard(*module, options, /*assemble=*/!text);
  if (failed(kernels))
    return kInputFault;
  std::vector<std::pair<std::string, llvm::StringRef>> files;
  for (const HopperKernel &kernel : *kernels) {
    llvm::StringRef cubin(reinterpret_cast<const char *>(kernel.cubin.data()),
                          kernel.cubin.size());
    files.emplace_back(kernel.name + (text ? ".ptx" : ".cubin"),
                       text ? llvm::StringRef(kernel.ptx) : cubin);
  }
  return succeeded(writeFiles(options.output, files)) ? kSuccess : kInputFault;
}

ExitCode Driver::emitArtifact() {
  std::vector<kernels::CompiledImage> images;
  bool compiled = phase("codegen", [&] {
    if (options.host) {
      auto host = compileHostKernels(*module, makeHostOptions(options));
      if (failed(host))
        return false;
      images = std::move(*host);
    }
    if (!options.card)
      return true;
    auto card = compileCard(*module, options, /*assemble=*/true);
    if (failed(card))
      return false;
    reportKernels(*module, *card, report);
    llvm::append_range(images, toImages(*card));
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
    return succeeded(produceFile(options.output, [&](StringRef path) {
      return linkArtifact(*module, images, path, link);
    }));
  });
  return linked ? kSuccess : kInputFault;
}
