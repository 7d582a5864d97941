//===- Verify.cpp - Fused against unfused ---------------------------------===//
//
// Runs the unfused programs of the artifact on the user's inputs and keeps
// every value that has a name, then runs the fused programs and compares each
// named value, and each output, with what was kept.
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include "fusion/Artifact/Encoding.h"
#include "fusion/Support/FloatTypes.h"
#include "fusion/Support/Printable.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

using namespace fusion;
using namespace fusion::run;
using artifact::DType;
using artifact::Model;

namespace {

struct Value {
  DType type;
  std::vector<uint8_t> bytes;
};

class Recorder : public Observer {
public:
  explicit Recorder(const Session &session) : session(session) {}
  void completed(uint32_t buffer, const uint8_t *data,
                 uint64_t bytes) override {
    const artifact::ArenaBuffer &b = session.lastProgram().buffers[buffer];
    values[b.value] = {b.type, {data, data + bytes}};
  }
  void addOutputs() {
    const Model &model = session.loaded().model();
    for (uint32_t i = 0; i < model.outputs.size(); ++i) {
      const TensorView &out = session.output(i);
      const auto *data = static_cast<const uint8_t *>(out.data);
      values[model.outputs[i].name] = {out.type, {data, data + out.bytes}};
    }
  }
  std::map<std::string, Value> values;

private:
  const Session &session;
};

/// Relative error that rounding explains: a few hundred units in the last
/// place of the type, because a fused form rounds elsewhere.
double tolerance(DType type) {
  switch (type) {
  case DType::F64:
    return 1e-10;
  case DType::F32:
    return 1e-4;
  case DType::F16:
    return 2e-2;
  case DType::BF16:
    return 8e-2;
  default:
    return 0; // integers and truth values: equal
  }
}

double elementOf(const Value &v, size_t i) {
  auto read = [&](auto zero) {
    memcpy(&zero, v.bytes.data() + i * sizeof zero, sizeof zero);
    return zero;
  };
  switch (v.type) {
  case DType::F64:
    return read(double());
  case DType::F32:
    return static_cast<double>(read(float()));
  case DType::F16:
    return static_cast<double>(f16ToFloat(read(uint16_t())));
  default:
    return static_cast<double>(bf16ToFloat(read(uint16_t())));
  }
}

/// Norm of the difference over the norm of the unfused value. Equal infinities
/// and NaNs in the same place count as equal.
double relativeError(const Value &fused, const Value &unfused) {
  if (fused.type != unfused.type || fused.bytes.size() != unfused.bytes.size())
    return INFINITY;
  if (tolerance(fused.type) == 0)
    return fused.bytes == unfused.bytes ? 0 : INFINITY;
  size_t count = fused.bytes.size() / (bitWidth(fused.type) / 8);
  double difference = 0, norm = 0;
  for (size_t i = 0; i < count; ++i) {
    double a = elementOf(fused, i), b = elementOf(unfused, i);
    if (a == b || (std::isnan(a) && std::isnan(b)))
      norm += std::isfinite(b) ? b * b : 0;
    else if (!std::isfinite(a) || !std::isfinite(b))
      return INFINITY;
    else {
      difference += (a - b) * (a - b);
      norm += b * b;
    }
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

/// The rounding noise of the narrowest type that the model computes in: fp32
/// values behind it carry that noise.
double noiseOf(const Recorder &unfused) {
  double noise = 0;
  for (const auto &entry : unfused.values)
    noise = std::max(noise, tolerance(entry.second.type));
  return noise;
}

int compare(const Recorder &fused, const Recorder &unfused) {
  size_t compared = 0, wrong = 0;
  double noise = noiseOf(unfused);
  double worst = 0;
  std::string worstName = "none";
  for (const auto &[name, value] : fused.values) {
    auto it = unfused.values.find(name);
    if (it == unfused.values.end())
      continue;
    ++compared;
    double error = relativeError(value, it->second);
    if (error > worst) {
      worst = error;
      worstName = name;
    }
    double limit = tolerance(value.type) > 0 ? noise : 0;
    if (error <= limit)
      continue;
    ++wrong;
    fprintf(stderr,
            "fusion-run: error: verification: '%s' differs from the unfused "
            "form by %.3g, expected at most %.3g\n",
            printableName(name).c_str(), error, limit);
  }
  printf("verified %zu values against the unfused form: %zu differ, largest "
         "error %.3g (%s)\n",
         compared, wrong, worst, printableName(worstName).c_str());
  return wrong ? kVerifyFailed : kSuccess;
}

} // namespace

int fusion::run::runVerify(const Options &options, Session &session) {
  const LoadedModel &loaded = session.loaded();
  if (!loaded.hasSet("unfused"))
    return fail(Status(StatusCode::InvalidInput,
                       "'" + options.artifact +
                           "' holds no unfused form to compare with; compile "
                           "it with --verify"));
  InputFiles files;
  if (Status s = files.load(options, loaded.model()); !s)
    return fail(s);
  Recorder unfused(session), fused(session);
  if (Status s = files.bind(session); !s)
    return fail(s);
  for (Recorder *recorder : {&unfused, &fused}) {
    RunOptions runOptions;
    runOptions.set = recorder == &unfused ? "unfused" : "";
    runOptions.observer = recorder;
    session.reset();
    if (Status s = session.run(runOptions); !s)
      return fail(s);
    recorder->addOutputs();
  }
  return compare(fused, unfused);
}
