//===- Inputs.cpp - Tensors from files, outputs to files ------------------===//

#include "Options.h"

#include "fusion/Artifact/Dump.h"
#include "fusion/Runtime/Npy.h"
#include "fusion/Support/Printable.h"
#include "fusion/Support/TemporaryFile.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

using namespace fusion;
using namespace fusion::run;
using artifact::Model;
using artifact::TensorInfo;

struct InputFiles::File {
  uint32_t input;
  NpyTensor tensor;
};

Status InputFiles::load(const Options &options, const Model &model) {
  std::set<std::string> given;
  for (const auto &[name, path] : options.inputs) {
    auto it = std::find_if(
        model.inputs.begin(), model.inputs.end(),
        [&, &wanted = name](const TensorInfo &t) { return t.name == wanted; });
    if (it == model.inputs.end()) {
      std::string names;
      for (const TensorInfo &t : model.inputs)
        names += (names.empty() ? "'" : ", '") + t.name + "'";
      return Status(StatusCode::InvalidInput,
                    "'" + options.artifact + "' has no input '" + name +
                        "'; its inputs are " +
                        (names.empty() ? "none" : names));
    }
    if (!given.insert(name).second)
      return Status(StatusCode::Usage, "input '" + name + "' is given twice");
    auto tensor = readNpy(path, it->type);
    if (!tensor)
      return Status(tensor.status().code(),
                    "input '" + name + "': " + tensor.status().message());
    auto file = std::make_shared<File>();
    file->input = static_cast<uint32_t>(it - model.inputs.begin());
    file->tensor = std::move(*tensor);
    files.push_back(std::move(file));
  }
  return {};
}

Status InputFiles::bind(Session &session) const {
  for (const auto &file : files)
    if (Status s = session.setInput(file->input, file->tensor.type,
                                    file->tensor.shape, file->tensor.data());
        !s)
      return s;
  return {};
}

/// `x/y` becomes `x_y.npy`; a name that is taken gets a number, and one that no
/// file system would take is cut.
static std::vector<std::string> outputFileNames(const Model &model) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const TensorInfo &t : model.outputs) {
    std::string base;
    for (char c : t.name.substr(0, 200)) {
      bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                   (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
      base += plain ? c : '_';
    }
    std::string name = base;
    for (int n = 2; !taken.insert(name).second; ++n)
      name = base + "_" + std::to_string(n);
    names.push_back(name + ".npy");
  }
  return names;
}

static Status makeFolder(const std::string &path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0777) != 0 && errno != EEXIST)
      return Status(StatusCode::InvalidInput,
                    "cannot create '" + part + "': " + strerror(errno));
    if (end == std::string::npos)
      return {};
  }
}

/// All files or none: no file has a name before all are written.
static Status writeOutputs(const std::string &folder, const Session &session) {
  const Model &model = session.loaded().model();
  if (Status s = makeFolder(folder); !s)
    return s;
  std::vector<std::string> paths;
  std::vector<std::unique_ptr<TemporaryFile>> files;
  for (const std::string &name : outputFileNames(model)) {
    const TensorView &out = session.output(static_cast<uint32_t>(paths.size()));
    paths.push_back(folder + "/" + name);
    files.push_back(std::make_unique<TemporaryFile>(paths.back()));
    if (!files.back()->isOpen())
      return files.back()->error("create");
    if (Status s = writeNpy(*files.back(), out.type, out.shape, out.data); !s)
      return s;
  }
  for (auto &file : files)
    if (Status s = file->publish(); !s)
      return s;
  return {};
}

static void printOutputs(const Session &session) {
  const Model &model = session.loaded().model();
  for (uint32_t i = 0; i < model.outputs.size(); ++i) {
    const TensorView &out = session.output(i);
    std::vector<SymExpr> shape(out.shape.begin(), out.shape.end());
    printf("output %s %s\n", printableName(model.outputs[i].name).c_str(),
           artifact::shapeText(shape, out.type).c_str());
  }
}

static double median(std::vector<double> &sorted) {
  std::sort(sorted.begin(), sorted.end());
  return (sorted[sorted.size() / 2] + sorted[(sorted.size() - 1) / 2]) / 2;
}

/// Token rows of the last run; of a model without tokens the rows of its first
/// output, all axes but the last.
static double rowsOf(const Session &session) {
  if (!session.lastProgram().rows.isConstant() ||
      session.loaded().model().outputs.empty())
    return static_cast<double>(session.lastRows());
  const auto &shape = session.output(0).shape;
  double rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i)
    rows *= static_cast<double>(shape[i]);
  return rows;
}

/// Timed runs from the same state, after the one that made the outputs. On a
/// card the time between its first and last kernel is reported too.
static Status bench(const Options &options, Session &session) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> ms, device;
  double seconds = 0;
  RunOptions runOptions;
  runOptions.graphs = options.graphs;
  if (options.device == Device::Cuda)
    runOptions.deviceSeconds = &seconds;
  for (int64_t i = 0; i < options.bench; ++i) {
    session.reset();
    auto begin = Clock::now();
    if (Status s = session.run(runOptions); !s)
      return s;
    ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin)
                     .count());
    if (runOptions.deviceSeconds)
      device.push_back(seconds * 1e3);
  }
  double middle = median(ms), rows = rowsOf(session);
  std::string card;
  if (!device.empty()) {
    char text[64];
    snprintf(text, sizeof text,
             options.json ? ", \"device_ms\": %.4f" : ", on the card %.4f ms",
             median(device));
    card = text;
  }
  if (options.json)
    printf("{\"runs\": %zu, \"median_ms\": %.4f, \"min_ms\": %.4f, "
           "\"max_ms\": %.4f, \"rows\": %.0f, \"rows_per_s\": %.2f%s}\n",
           ms.size(), middle, ms.front(), ms.back(), rows, rows / middle * 1e3,
           card.c_str());
  else
    printf("%zu runs of program %s: median %.3f ms, least %.3f ms, most %.3f "
           "ms, %.1f rows/s%s\n",
           ms.size(), printableName(session.lastProgram().name).c_str(), middle,
           ms.front(), ms.back(), rows / middle * 1e3, card.c_str());
  return {};
}

int fusion::run::runInputs(const Options &options, Session &session) {
  const Model &model = session.loaded().model();
  InputFiles files;
  if (Status s = files.load(options, model); !s)
    return fail(s);
  if (Status s = files.bind(session); !s)
    return fail(s);
  Profile profile;
  RunOptions runOptions;
  runOptions.graphs = options.graphs;
  if (!options.profile.empty())
    runOptions.profile = &profile;
  if (Status s = session.run(runOptions); !s)
    return fail(s);
  if (!options.outputDir.empty()) {
    if (Status s = writeOutputs(options.outputDir, session); !s)
      return fail(s);
  } else if (options.bench == 0 && !options.json) {
    printOutputs(session);
  }
  if (options.bench > 0)
    if (Status s = bench(options, session); !s)
      return fail(s);
  return writeProfile(options, profile, model);
}
