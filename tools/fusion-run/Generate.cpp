//===- Generate.cpp - Text from a language model --------------------------===//

#include "Options.h"

#include "fusion/Runtime/Decoder.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace fusion;
using namespace fusion::run;

namespace {

struct Generated {
  std::vector<int64_t> tokens;
  double prefillSeconds = 0, decodeSeconds = 0;
  size_t decodeSteps = 0;
};

double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

/// The next token to feed: the chosen one unless --force-ids has another.
int64_t fed(const Options &options, const Generated &made) {
  size_t step = made.tokens.size() - 1;
  return step < options.forced.size() ? options.forced[step]
                                      : made.tokens.back();
}

bool stops(const Options &options, int64_t token) {
  return std::find(options.stop.begin(), options.stop.end(), token) !=
         options.stop.end();
}

void accept(const Options &options, Generated &made, int64_t token) {
  made.tokens.push_back(token);
  if (!options.stream)
    return;
  printf("%lld\n", static_cast<long long>(token));
  fflush(stdout);
}

Status generate(const Options &options, Decoder &decoder, Generated &made) {
  if (options.generate == 0)
    return {};
  auto begin = std::chrono::steady_clock::now();
  auto token = decoder.step(options.prompt);
  if (!token)
    return token.status();
  made.prefillSeconds = secondsSince(begin);
  accept(options, made, *token);
  begin = std::chrono::steady_clock::now();
  while (made.tokens.size() < static_cast<size_t>(options.generate) &&
         !stops(options, made.tokens.back())) {
    token = decoder.step({fed(options, made)});
    if (!token)
      return token.status();
    ++made.decodeSteps;
    accept(options, made, *token);
  }
  made.decodeSeconds = secondsSince(begin);
  return {};
}

double rate(double count, double seconds) {
  return seconds > 0 ? count / seconds : 0;
}

void printTokens(const Options &options, const std::vector<int64_t> &tokens) {
  for (size_t i = 0; i < tokens.size(); ++i)
    printf("%s%lld",
           i == 0         ? ""
           : options.json ? ", "
                          : ",",
           static_cast<long long>(tokens[i]));
}

/// Medians over the generations of --bench, in tokens a second.
struct Rates {
  double prefill = 0, decode = 0;
  std::optional<double> uncaptured; ///< decode without graphs
};

void print(const Options &options, const std::vector<int64_t> &tokens,
           const Rates &rates) {
  if (options.stream)
    return;
  if (options.json)
    printf("{\"tokens\": [");
  printTokens(options, tokens);
  if (options.json) {
    printf("], \"prefill_tokens_per_s\": %.2f, \"decode_tokens_per_s\": %.2f",
           rates.prefill, rates.decode);
    if (rates.uncaptured)
      printf(", \"decode_uncaptured_tokens_per_s\": %.2f", *rates.uncaptured);
    printf("}\n");
    return;
  }
  printf("\nprefill %.1f tokens/s, decode %.1f tokens/s", rates.prefill,
         rates.decode);
  if (rates.uncaptured)
    printf(" captured, %.1f tokens/s uncaptured", *rates.uncaptured);
  printf("\n");
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
}

/// --bench repeats the whole generation.
Status repeat(const Options &options, Session &session, Decoder &decoder,
              Generated &made, Rates &rates) {
  std::vector<double> prefill, decode;
  for (int64_t i = 0; i < std::max<int64_t>(options.bench, 1); ++i) {
    session.reset();
    made = Generated();
    if (Status s = generate(options, decoder, made); !s)
      return s;
    prefill.push_back(
        rate(static_cast<double>(options.prompt.size()), made.prefillSeconds));
    decode.push_back(
        rate(static_cast<double>(made.decodeSteps), made.decodeSeconds));
  }
  rates.prefill = median(prefill);
  rates.decode = median(decode);
  return {};
}

} // namespace

int fusion::run::runGenerate(const Options &options, Session &session) {
  auto decoder = Decoder::create(session);
  if (!decoder)
    return fail(decoder.status());
  Profile profile;
  if (!options.profile.empty())
    (*decoder)->options.profile = &profile;
  (*decoder)->options.graphs = options.graphs;
  Generated made;
  Rates rates;
  if (Status s = repeat(options, session, **decoder, made, rates); !s)
    return fail(s);
  bool compare = options.device == Device::Cuda && options.graphs &&
                 options.bench > 0 && options.profile.empty();
  if (compare) {
    Options quiet = options;
    quiet.stream = false;
    Generated again;
    Rates uncaptured;
    (*decoder)->options.graphs = false;
    if (Status s = repeat(quiet, session, **decoder, again, uncaptured); !s)
      return fail(s);
    rates.uncaptured = uncaptured.decode;
  }
  print(options, made.tokens, rates);
  return writeProfile(options, profile, session.loaded().model());
}
