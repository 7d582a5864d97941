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
  std::vector<std::vector<int64_t>> tokens; ///< of each sequence
  double prefillSeconds = 0, decodeSeconds = 0;
  size_t decoded = 0; ///< tokens after the first ones
};

double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

/// The next token to feed: the chosen one unless --force-ids has another.
int64_t fed(const Options &options, const std::vector<int64_t> &tokens) {
  size_t step = tokens.size() - 1;
  return step < options.forced.size() ? options.forced[step] : tokens.back();
}

/// Whether a sequence has all its tokens.
bool isDone(const Options &options, const std::vector<int64_t> &tokens) {
  return tokens.size() >= static_cast<size_t>(options.generate) ||
         std::find(options.stop.begin(), options.stop.end(), tokens.back()) !=
             options.stop.end();
}

void accept(const Options &options, Generated &made,
            const std::vector<int64_t> &tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0)
      continue;
    made.tokens[i].push_back(tokens[i]);
    if (options.stream)
      printf("%lld\n", static_cast<long long>(tokens[i]));
  }
  if (options.stream)
    fflush(stdout);
}

/// What each sequence is fed next: nothing where it is done.
Decoder::Sequences nextInputs(const Options &options, const Generated &made) {
  Decoder::Sequences next(made.tokens.size());
  for (size_t i = 0; i < next.size(); ++i)
    if (!isDone(options, made.tokens[i]))
      next[i] = {fed(options, made.tokens[i])};
  return next;
}

bool isEmpty(const Decoder::Sequences &sequences) {
  return std::all_of(sequences.begin(), sequences.end(),
                     [](const auto &ids) { return ids.empty(); });
}

Status generate(const Options &options, Decoder &decoder, Generated &made) {
  made.tokens.resize(options.prompts.size());
  if (options.generate == 0)
    return {};
  auto begin = std::chrono::steady_clock::now();
  auto tokens = decoder.stepAll(options.prompts);
  if (!tokens)
    return tokens.status();
  made.prefillSeconds = secondsSince(begin);
  accept(options, made, *tokens);
  begin = std::chrono::steady_clock::now();
  for (auto next = nextInputs(options, made); !isEmpty(next);
       next = nextInputs(options, made)) {
    tokens = decoder.stepAll(next);
    if (!tokens)
      return tokens.status();
    made.decoded += static_cast<size_t>(
        std::count_if(tokens->begin(), tokens->end(),
                      [](int64_t token) { return token >= 0; }));
    accept(options, made, *tokens);
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

/// One list a sequence: on lines, or as JSON lists where there are several.
void printSequences(const Options &options, const Generated &made) {
  bool several = made.tokens.size() > 1;
  for (size_t i = 0; i < made.tokens.size(); ++i) {
    printf("%s", i == 0 ? "" : options.json ? ", " : "\n");
    printf("%s", several && options.json ? "[" : "");
    printTokens(options, made.tokens[i]);
    printf("%s", several && options.json ? "]" : "");
  }
}

void print(const Options &options, const Generated &made, const Rates &rates) {
  if (options.stream)
    return;
  if (options.json)
    printf("{\"tokens\": [");
  printSequences(options, made);
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
    size_t prompted = 0;
    for (const std::vector<int64_t> &prompt : options.prompts)
      prompted += prompt.size();
    prefill.push_back(rate(static_cast<double>(prompted), made.prefillSeconds));
    decode.push_back(
        rate(static_cast<double>(made.decoded), made.decodeSeconds));
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
  print(options, made, rates);
  return writeProfile(options, profile, session.loaded().model());
}
