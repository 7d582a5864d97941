//===- Options.cpp - Command line of fusion-compile -----------------------===//

#include "Options.h"

#include "fusion/Dialect/Fusion/Roles.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/Fuse/Report.h"
#include "fusion/Support/Hash.h"
#include "fusion/Support/Printable.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace fusion::compile;
using llvm::StringRef;
namespace cl = llvm::cl;

namespace {
/// The command line's own storage, so that several parses (and other tools in
/// one binary) do not share state.
struct CommandLine {
  cl::OptionCategory category{"fusion-compile options"};
  cl::opt<std::string> input{cl::Positional, cl::desc("<model.onnx>"),
                             cl::Required, cl::cat(category)};
  cl::opt<std::string> output{"o",
                              cl::desc("output file, - for standard output"),
                              cl::value_desc("file"), cl::cat(category)};
  cl::list<std::string> target{
      "target", cl::CommaSeparated, cl::cat(category),
      cl::desc("targets to compile for: host, sm_90a (default host)")};
  cl::opt<std::string> hostCpu{
      "host-cpu", cl::init("all"), cl::cat(category),
      cl::desc("processors that the host code is for: x86-64-v3 (AVX2), "
               "x86-64-v4 (AVX-512), or all, chosen at load")};
  cl::list<std::string> keepInput{
      "keep-input", cl::CommaSeparated, cl::cat(category),
      cl::value_desc("NAME|all"),
      cl::desc("inputs that have an initializer stay inputs, which each run "
               "must be given; the others are constants")};
  cl::list<std::string> dim{
      "dim", cl::cat(category), cl::value_desc("KEY=N|LO..HI"),
      cl::desc("size of a symbol, INPUT[AXIS], or role (batch, seq, past)")};
  cl::list<std::string> likely{
      "likely", cl::cat(category), cl::value_desc("SYMBOL=N"),
      cl::desc("size of a symbol that predictions are made for (--explain "
               "names them); others remain allowed")};
  cl::opt<std::string> kvCache{"kv-cache", cl::init("expose"),
                               cl::cat(category),
                               cl::desc("expose: past and present as in the "
                                        "file; state: inside the session")};
  cl::opt<int64_t> maxContext{
      "max-context", cl::init(2048), cl::cat(category),
      cl::desc("tokens that the session's cache holds")};
  cl::opt<std::string> kvLengths{
      "kv-lengths", cl::init("shared"), cl::cat(category),
      cl::desc("shared: the sequences of a batch are equally long; own: each "
               "has a cached length of its own")};
  cl::opt<std::string> logits{
      "logits", cl::init("all"), cl::cat(category),
      cl::desc("logits to compute: all, or those of each run's last token, "
               "which is all that --generate reads")};
  cl::list<std::string> role{"role", cl::cat(category),
                             cl::value_desc("ROLE=NAME"),
                             cl::desc("what an input or output means")};
  cl::opt<std::string> numerics{
      "numerics", cl::init("default"), cl::cat(category),
      cl::desc("default: fp32 inside a group; strict: round where the graph "
               "rounds")};
  cl::opt<std::string> computeType{"compute-type", cl::init("keep"),
                                   cl::cat(category),
                                   cl::desc("keep; bf16 or fp16: fp32 models "
                                            "computed in 16 bits")};
  cl::opt<std::string> emit{
      "emit", cl::init("artifact"), cl::cat(category),
      cl::desc("imported, raised, fused, planned, kernel, llvm, ptx, cubin or "
               "artifact")};
  cl::opt<std::string> explain{
      "explain", cl::ValueOptional, cl::cat(category),
      cl::desc("report every fusion and every miss: text, json or html")};
  cl::opt<std::string> expect{
      "expect", cl::cat(category), cl::value_desc("KIND=N,KIND>=N"),
      cl::desc("fail with exit code 3 unless so many sites are fused")};
  cl::list<std::string> disable{"disable-fusion", cl::CommaSeparated,
                                cl::cat(category),
                                cl::value_desc("KIND[@NODE]|all"),
                                cl::desc("leave these fusions undone")};
  cl::opt<int64_t> fuel{"fuel", cl::init(-1), cl::cat(category),
                        cl::desc("number of fusions to do at most")};
  cl::opt<std::string> ptxas{
      "ptxas", cl::cat(category), cl::value_desc("path"),
      cl::desc("the assembler for sm_90a (default: on PATH, in "
               "/usr/local/cuda/bin, or Python's nvidia-cuda-nvcc)")};
  cl::opt<std::string> measured{
      "measured", cl::cat(category), cl::value_desc("profile.json"),
      cl::desc("a profile of a run (fusion-run --profile), which decides where "
               "the prediction cannot")};
  cl::opt<bool> timing{"timing", cl::cat(category),
                       cl::desc("print the time of each phase")};
  cl::opt<bool> verify{"verify", cl::cat(category),
                       cl::desc("keep the unfused form beside the fused one, "
                                "for fusion-run --verify")};

  /// The parser forgets the options, so that a process may compile again.
  ~CommandLine() {
    llvm::SmallVector<cl::Option *> ours = {&input};
    for (auto &[name, option] : cl::getRegisteredOptions())
      if (llvm::is_contained(option->Categories, &category))
        ours.push_back(option);
    for (cl::Option *option : ours)
      option->removeArgument();
  }
};

bool usage(const llvm::Twine &message) {
  llvm::errs() << "fusion-compile: error: "
               << fusion::printableMessage(message.str()) << "\n";
  return false;
}

bool readTargets(const CommandLine &line, Options &options) {
  if (line.target.empty())
    return true;
  options.host = options.card = false;
  for (const std::string &target : line.target) {
    if (target == "host")
      options.host = true;
    else if (target == "sm_90a")
      options.card = true;
    else
      return usage("unknown target '" + target + "', expected host or sm_90a");
  }
  return true;
}

bool readStage(const CommandLine &line, Options &options) {
  auto stage = llvm::StringSwitch<std::optional<Stage>>(line.emit)
                   .Case("imported", Stage::Imported)
                   .Case("raised", Stage::Raised)
                   .Case("fused", Stage::Fused)
                   .Case("planned", Stage::Planned)
                   .Case("kernel", Stage::Kernel)
                   .Case("llvm", Stage::Llvm)
                   .Case("ptx", Stage::Ptx)
                   .Case("cubin", Stage::Cubin)
                   .Case("artifact", Stage::Artifact)
                   .Default(std::nullopt);
  if (!stage)
    return usage("unknown --emit '" + line.emit +
                 "', expected imported, raised, fused, planned, kernel, llvm, "
                 "ptx, cubin or artifact");
  options.emit = *stage;
  bool reports = line.explain.getNumOccurrences() > 0 ||
                 line.expect.getNumOccurrences() > 0;
  if (reports && options.emit < Stage::Fused)
    return usage("--explain and --expect report on fusions, and --emit=" +
                 line.emit + " ends before them; use --emit=fused or later");
  // The code of one target alone.
  if (options.emit == Stage::Ptx || options.emit == Stage::Cubin) {
    if (!line.target.empty() && !options.card)
      return usage("--emit=" + line.emit +
                   " prints kernels of sm_90a, found --target=host");
    options.card = true;
    options.host = false;
  }
  bool text = options.emit == Stage::Kernel || options.emit == Stage::Llvm;
  if (text && options.host && options.card)
    return usage("--emit=" + line.emit +
                 " prints one target's kernels, found host and sm_90a");
  return true;
}

/// The kinds that --expect and --disable-fusion name.
bool readKinds(const CommandLine &line, Options &options) {
  if (line.expect.getNumOccurrences() > 0 && line.expect.empty())
    return usage("--expect is empty, expected KIND=N or KIND>=N");
  options.expect = line.expect;
  fusion::ExpectationResult expected =
      fusion::checkExpectations(options.expect, fusion::FusionReport());
  if (expected.usageError)
    return usage("--expect: " + expected.text);
  options.disabled.assign(line.disable.begin(), line.disable.end());
  fusion::FuseOptions fuse;
  fuse.disabled = options.disabled;
  std::string wrong = fuse.check();
  return wrong.empty() || usage("--disable-fusion: " + wrong);
}

bool readExplain(const CommandLine &line, Options &options) {
  if (line.explain.getNumOccurrences() == 0)
    return true;
  auto form = llvm::StringSwitch<std::optional<ExplainForm>>(line.explain)
                  .Cases({"", "text"}, ExplainForm::Text)
                  .Case("json", ExplainForm::Json)
                  .Case("html", ExplainForm::Html)
                  .Default(std::nullopt);
  if (!form)
    return usage("unknown --explain '" + line.explain +
                 "', expected text, json or html");
  options.explain = *form;
  return true;
}

bool readLikely(const CommandLine &line, Options &options) {
  for (const std::string &text : line.likely) {
    auto [symbol, number] = StringRef(text).split('=');
    int64_t size = 0;
    if (symbol.empty() || number.getAsInteger(10, size) || size < 1)
      return usage("ill-formed --likely '" + text + "', expected SYMBOL=N");
    options.likely[symbol.str()] = size;
  }
  return true;
}

bool readChoices(const CommandLine &line, Options &options) {
  if (line.kvCache != "expose" && line.kvCache != "state")
    return usage("unknown --kv-cache '" + line.kvCache +
                 "', expected expose or state");
  options.cacheState = line.kvCache == "state";
  options.verify = line.verify;
  if (line.logits != "all" && line.logits != "last")
    return usage("unknown --logits '" + line.logits +
                 "', expected all or last");
  options.lastLogits = line.logits == "last";
  if (line.kvLengths != "shared" && line.kvLengths != "own")
    return usage("unknown --kv-lengths '" + line.kvLengths +
                 "', expected shared or own");
  options.ownLengths = line.kvLengths == "own";
  if (options.ownLengths && !options.cacheState)
    return usage("--kv-lengths=own needs --kv-cache=state: a session's own "
                 "cache");
  if (line.maxContext.getNumOccurrences() > 0 && !options.cacheState)
    return usage("--max-context needs --kv-cache=state: a session's own cache");
  if (line.fuel.getNumOccurrences() > 0 && line.fuel < 0)
    return usage("expected --fuel of at least 0");
  if (line.maxContext < 1 || line.maxContext > (int64_t(1) << 31))
    return usage("expected --max-context between 1 and 2^31");
  options.maxContext = line.maxContext;
  if (line.numerics != "default" && line.numerics != "strict")
    return usage("unknown --numerics '" + line.numerics +
                 "', expected default or strict");
  options.strict = line.numerics == "strict";
  if (line.computeType != "keep" && line.computeType != "bf16" &&
      line.computeType != "fp16")
    return usage("unknown --compute-type '" + line.computeType +
                 "', expected keep, bf16 or fp16");
  if (line.computeType != "keep")
    options.computeType = line.computeType;
  if (line.hostCpu != "all" && line.hostCpu != "x86-64-v3" &&
      line.hostCpu != "x86-64-v4")
    return usage("unknown --host-cpu '" + line.hostCpu +
                 "', expected x86-64-v3, x86-64-v4 or all");
  if (line.hostCpu != "all")
    options.hostCpu = line.hostCpu;
  return true;
}

bool readMeasured(const CommandLine &line, Options &options) {
  if (line.measured.empty())
    return true;
  options.measured = line.measured;
  // A file that cannot be read is the input's fault, which Fuse reports.
  if (auto buffer = llvm::MemoryBuffer::getFile(options.measured))
    options.measuredHash =
        fusion::xxh64((*buffer)->getBufferStart(), (*buffer)->getBufferSize());
  return true;
}

bool readImport(const CommandLine &line, Options &options) {
  options.import.keptInputs.assign(line.keepInput.begin(),
                                   line.keepInput.end());
  for (const std::string &text : line.dim) {
    auto dim = fusion::parseDimOption(text);
    if (!dim)
      return usage("ill-formed --dim '" + text +
                   "', expected KEY=N or KEY=LO..HI");
    options.import.dims.push_back(*dim);
  }
  for (const std::string &text : line.role) {
    auto [role, name] = StringRef(text).split('=');
    if (role.empty() || name.empty())
      return usage("ill-formed --role '" + text + "', expected ROLE=NAME");
    if (fusion::canonicalRole(role).empty())
      return usage("unknown role '" + role + "' in --role " + text +
                   ", expected token_ids, attention_mask, position_ids, "
                   "past_key, past_value, present_key, present_value or "
                   "logits");
    options.import.roles.emplace_back(role.str(), name.str());
  }
  return true;
}

bool readOutput(const CommandLine &line, Options &options) {
  options.input = line.input;
  options.output = line.output;
  bool folder = options.emit == Stage::Ptx || options.emit == Stage::Cubin;
  if (folder && options.output == "-")
    return usage("--emit=" + line.emit + " writes a folder, found -o -");
  if (llvm::sys::fs::equivalent(options.input, options.output))
    return usage("input and output are the same file, " + options.input);
  if (!options.output.empty())
    return true;
  if (options.emit == Stage::Artifact || folder)
    return usage("expected -o with the file (for ptx and cubin: the folder) "
                 "to write");
  options.output = "-";
  return true;
}
} // namespace

bool Options::isUnfused() const { return llvm::is_contained(disabled, "all"); }

std::string Options::canonical() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << (host ? "host" : "") << (host && card ? "," : "")
     << (card ? "sm_90a" : "");
  if (!hostCpu.empty())
    os << " host-cpu=" << hostCpu;
  for (const std::string &name : import.keptInputs)
    os << " keep-input=" << name;
  for (const DimOption &dim : import.dims)
    os << " dim:" << dim.key << '=' << dim.lower << ".." << dim.upper;
  if (cacheState)
    os << " kv-cache=state max-context=" << maxContext
       << (ownLengths ? " kv-lengths=own" : "");
  os << (lastLogits ? " logits=last" : "");
  os << (strict ? " numerics=strict" : "");
  if (!computeType.empty())
    os << " compute-type=" << computeType;
  for (const std::string &kind : disabled)
    os << " disable-fusion=" << kind;
  for (const auto &[symbol, size] : likely)
    os << " likely:" << symbol << '=' << size;
  if (fuel >= 0)
    os << " fuel=" << fuel;
  if (!measured.empty())
    os << " measured=" << llvm::format_hex(measuredHash, 18);
  return text;
}

std::optional<Options> fusion::compile::parseOptions(int argc, char **argv) {
  CommandLine line;
  cl::HideUnrelatedOptions(line.category);
  if (!cl::ParseCommandLineOptions(
          argc, argv, "compiles an ONNX model into fused kernels\n",
          &llvm::errs()))
    return std::nullopt;
  Options options;
  options.fuel = line.fuel;
  options.timing = line.timing;
  options.ptxas = line.ptxas;
  if (!readTargets(line, options) || !readKinds(line, options) ||
      !readStage(line, options) || !readExplain(line, options) ||
      !readChoices(line, options) || !readLikely(line, options) ||
      !readImport(line, options) || !readMeasured(line, options) ||
      !readOutput(line, options))
    return std::nullopt;
  return options;
}
