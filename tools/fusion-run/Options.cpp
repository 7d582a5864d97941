//===- Options.cpp - The command line of fusion-run -----------------------===//

#include "Options.h"

#include "fusion/Support/Printable.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

using namespace fusion;
using namespace fusion::run;

static const char kHelp[] =
    R"(usage: fusion-run model.fusion [--input NAME=FILE.npy]... [--output-dir DIR]
       fusion-run model.fusion --generate=N --prompt-ids=1,2,3
       fusion-run model.fusion --info

Runs a compiled model. An artifact holds native code: run only what you trust.

  --input NAME=FILE.npy    value of an input
  --output-dir DIR         write every output to DIR/NAME.npy
  --device=host|cuda[:N]   where to run (default: host); N numbers the card
  --cuda-graph=on|off      replay captured launches on the card (default: on)
  --threads=N              threads of the host (default: one a processor)
  --bench=N                time N runs and print median, least and most
  --profile=FILE.json      write the time of every launch as a Chromium trace
  --verify                 compare each fused value with the unfused form
  --info                   print what the artifact holds

  --generate=N             print N tokens, chosen greedily (--kv-cache=state)
  --prompt-ids=1,2,3       the tokens to start from; again for each further
                           sequence of a batch (--kv-lengths=own)
  --force-ids=1,2,3        feed these instead of the chosen tokens
  --stop-ids=2             stop after one of these
  --stream                 print each token as it comes
  --json                   print what --generate or --bench prints as one
                           JSON object

exit codes: 0 success, 1 the input is at fault, 2 bad usage, 3 verification failed
)";

namespace {

bool parseNumber(const std::string &text, int64_t &value) {
  char *end;
  errno = 0;
  value = strtoll(text.c_str(), &end, 10);
  return !text.empty() && *end == 0 && errno == 0;
}

/// Token ids. A negative one would count from the vocabulary's end, as ONNX
/// indices do.
bool parseList(const std::string &text, std::vector<int64_t> &list) {
  list.clear();
  if (text.empty())
    return true;
  for (size_t begin = 0;;) {
    size_t comma = text.find(',', begin);
    int64_t value;
    if (!parseNumber(text.substr(begin, comma - begin), value) || value < 0)
      return false;
    list.push_back(value);
    if (comma == std::string::npos)
      return true;
    begin = comma + 1;
  }
}

/// Sets the option `name`; the text says what is wrong with its value.
class Parser {
public:
  explicit Parser(Options &o) : o(o) {}

  static bool isFlag(const std::string &name) {
    return name == "--info" || name == "--verify" || name == "--json" ||
           name == "--stream";
  }
  void setFlag(const std::string &name) {
    (name == "--info"     ? o.info
     : name == "--verify" ? o.verify
     : name == "--json"   ? o.json
                          : o.stream) = true;
  }

  /// Empty on success.
  std::string setValue(const std::string &name, const std::string &value) {
    if (name == "--input")
      return setInput(value);
    if (name == "--output-dir")
      return setText(o.outputDir, value);
    if (name == "--profile")
      return setText(o.profile, value);
    if (name == "--device")
      return setDevice(value);
    if (name == "--cuda-graph") {
      o.graphs = value == "on";
      return value == "on" || value == "off" ? "" : "expected on or off";
    }
    if (name == "--threads") {
      int64_t threads;
      if (!parseNumber(value, threads) || threads < 0 || threads > 4096)
        return "expected a number of threads";
      o.threads = static_cast<unsigned>(threads);
      return {};
    }
    if (name == "--bench")
      return setCount(o.bench, 1, value);
    if (name == "--generate") {
      o.generates = true;
      return setCount(o.generate, 0, value);
    }
    if (name == "--prompt-ids" || name == "--force-ids" || name == "--stop-ids")
      return setIds(name, value);
    return "unknown option";
  }

private:
  static std::string setText(std::string &field, const std::string &value) {
    field = value;
    return value.empty() ? "expected a path" : "";
  }
  static std::string setCount(int64_t &field, int64_t least,
                              const std::string &value) {
    if (!parseNumber(value, field) || field < least)
      return "expected a number of at least " + std::to_string(least);
    return {};
  }
  std::string setInput(const std::string &value) {
    // Names may hold '='; file names rarely do.
    size_t equals = value.rfind('=');
    if (equals == std::string::npos || equals == 0)
      return "expected NAME=FILE.npy";
    o.inputs.push_back({value.substr(0, equals), value.substr(equals + 1)});
    return {};
  }
  std::string setDevice(const std::string &value) {
    auto place = parseDevice(value);
    if (!place)
      return "expected host, cuda or cuda:N";
    o.device = place->first;
    o.cuda.card = place->second;
    return {};
  }
  std::string setIds(const std::string &name, const std::string &value) {
    if (name == "--prompt-ids")
      o.prompts.emplace_back();
    auto &list = name == "--prompt-ids"  ? o.prompts.back()
                 : name == "--force-ids" ? o.forced
                                         : o.stop;
    return parseList(value, list) ? ""
                                  : "expected token ids with commas between";
  }

  Options &o;
};

std::string contradiction(const Options &o) {
  if (o.artifact.empty())
    return "expected an artifact (model.fusion)";
  bool runs = o.generates || o.verify || o.json || o.bench > 0 ||
              !o.inputs.empty() || !o.outputDir.empty() || !o.profile.empty();
  if (o.info && runs)
    return "--info runs nothing: it goes with no option of a run";
  if (o.generates && !o.inputs.empty())
    return "--generate takes --prompt-ids, not --input";
  for (const std::vector<int64_t> &prompt : o.prompts)
    if (prompt.empty())
      return "expected token ids after --prompt-ids";
  if (o.generates && o.prompts.empty())
    return "--generate needs --prompt-ids";
  if (o.prompts.size() > 1 && (o.stream || !o.forced.empty()))
    return "--stream and --force-ids go with one prompt alone";
  if (o.generates && (o.verify || !o.outputDir.empty()))
    return "--generate goes with neither --verify nor --output-dir";
  if (!o.generates &&
      (!o.prompts.empty() || !o.forced.empty() || !o.stop.empty() || o.stream))
    return "--prompt-ids, --force-ids, --stop-ids and --stream need "
           "--generate=N";
  if (o.stream && o.json)
    return "--stream and --json exclude each other";
  if (o.stream && o.bench > 0)
    return "--stream and --bench exclude each other";
  if (o.verify &&
      (o.bench > 0 || o.json || !o.outputDir.empty() || !o.profile.empty()))
    return "--verify goes with none of --bench, --json, --output-dir and "
           "--profile";
  if (o.json && !o.generates && o.bench == 0)
    return "--json goes with --generate or --bench: what they print";
  if (o.forced.size() > static_cast<size_t>(o.generate))
    return "--force-ids has " + std::to_string(o.forced.size()) +
           " tokens, and --generate=" + std::to_string(o.generate) +
           " feeds no more than that many";
  return {};
}

} // namespace

std::optional<Options> fusion::run::parseOptions(int argc, char **argv,
                                                 int &exitCode) {
  Options options;
  Parser parser(options);
  auto usage = [&](const std::string &why) -> std::optional<Options> {
    fprintf(stderr, "fusion-run: error: %s\nfusion-run --help says more\n",
            printableMessage(why).c_str());
    exitCode = kUsage;
    return std::nullopt;
  };
  for (int i = 1; i < argc; ++i) {
    std::string text = argv[i];
    if (text == "--help" || text == "-h") {
      fputs(kHelp, stdout);
      exitCode = kSuccess;
      return std::nullopt;
    }
    if (text.rfind("--", 0) != 0) {
      if (!options.artifact.empty())
        return usage("one artifact at a time: '" + text + "'");
      options.artifact = text;
      continue;
    }
    if (Parser::isFlag(text)) {
      parser.setFlag(text);
      continue;
    }
    size_t equals = text.find('=');
    std::string name = text.substr(0, equals), value;
    if (equals != std::string::npos)
      value = text.substr(equals + 1);
    else if (i + 1 < argc)
      value = argv[++i];
    else
      return usage(name + " needs a value, or is unknown");
    std::string why = parser.setValue(name, value);
    if (!why.empty())
      return usage(name + ": " + why + ", found '" + value + "'");
  }
  std::string why = contradiction(options);
  if (!why.empty())
    return usage(why);
  return options;
}
