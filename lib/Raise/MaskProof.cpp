//===- MaskProof.cpp - Is a mask causal? ----------------------------------===//

#include "MaskProof.h"
#include "Attention.h"
#include "Bounds.h"
#include "MaskCases.h"

#include <cmath>

using namespace mlir;
using namespace fusion;
using namespace fusion::raise;

std::string MaskFacts::str() const {
  std::string text;
  if (causal)
    text = "causal, offset " + offset.str();
  if (windowLeft >= 0)
    text += ", window of " + std::to_string(windowLeft) + " before";
  if (padding)
    text += text.empty() ? "padding" : ", padding";
  return text.empty() ? "nothing hidden" : text;
}

namespace {
/// A mask evaluated for one choice of sizes and contents.
struct Evaluated {
  int64_t batch, rows, keys;
  eval::Tensor mask;
  std::optional<eval::Tensor> padding;

  /// Element [b, i, j] of the mask, broadcast; heads must agree.
  double get(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const std::vector<int64_t> &s = mask.shape;
    int64_t index = s[0] == 1 ? 0 : b;
    index = index * s[1] + (s[1] == 1 ? 0 : h);
    index = index * s[2] + (s[2] == 1 ? 0 : i);
    index = index * s[3] + (s[3] == 1 ? 0 : j);
    return mask.get(index);
  }
};

class Prover {
public:
  Prover(Value mask, const ScoreSizes &scores, std::string &reason)
      : mask(mask), scores(scores), reason(reason), element(elementType(mask)) {
  }

  FailureOr<MaskFacts> run() {
    auto sources = findSources(mask, reason);
    if (failed(sources))
      return failure();
    auto sizes = chooseSizes(*sources, scores, reason);
    if (failed(sizes))
      return failure();
    for (const Sizes &choice : *sizes)
      if (!sources->areSmall(choice))
        return fail("a tensor is larger than the limit of evaluation");
    for (Value argument : sources->arguments) {
      SymShape shape = getSymShape(argument);
      if (shape.size() == 2 && shape[0] == scores.batch &&
          shape[1] == scores.keys && !facts.padding)
        facts.padding = argument;
    }
    bool first = true;
    for (const Sizes &choice : *sizes) {
      // What no argument reaches is evaluated once.
      eval::Evaluator evaluator(choice, kLargestTensor);
      evaluator.setWeightReader(readWeight);
      for (unsigned kind = 0; kind < kContents; ++kind) {
        if (sources->arguments.empty() && kind > 0)
          break;
        if (failed(check(*sources, evaluator, choice, kind, first)))
          return failure();
        first = false;
      }
    }
    if (first)
      return fail("no choice of sizes has a meaning");
    if (!facts.causal)
      facts.offset = SymExpr();
    return facts;
  }

private:
  LogicalResult fail(const Twine &why) {
    reason = why.str();
    return failure();
  }

  LogicalResult failValue(double value) {
    return fail("it holds the value " + Twine(std::to_string(value)));
  }

  FailureOr<Evaluated> evaluateMask(const MaskSources &sources,
                                    eval::Evaluator &evaluator,
                                    const Sizes &sizes, unsigned kind) {
    auto batch = raise::evaluate(scores.batch, sizes);
    auto rows = raise::evaluate(scores.rows, sizes);
    auto keys = raise::evaluate(scores.keys, sizes);
    if (!batch || !rows || !keys)
      return fail("its sizes cannot be evaluated");
    Evaluated result{*batch, *rows, *keys, {}, {}};
    for (Value argument : sources.arguments) {
      eval::Tensor contents = makeContents(argument, sizes, kind, random);
      if (argument == facts.padding)
        result.padding = contents;
      evaluator.bind(argument, contents);
    }
    auto tensor = evaluator.evaluate(mask);
    if (failed(tensor))
      return fail("its evaluation stops: " + evaluator.getError());
    std::vector<int64_t> full = {*batch, 0, *rows, *keys};
    if (tensor->shape.size() != 4)
      return fail("it has not four axes");
    for (size_t i : {0u, 2u, 3u})
      if (tensor->shape[i] != 1 && tensor->shape[i] != full[i])
        return fail("its shape is not that of the scores");
    result.mask = std::move(*tensor);
    return result;
  }

  /// Whether an element hides its score; nullopt when it is neither 0 nor low.
  std::optional<bool> isHiddenElement(double value) const {
    if (!isa<FloatType>(element))
      return value == 0;
    if (value == 0)
      return false;
    return isHidden(value, element) ? std::optional<bool>(true) : std::nullopt;
  }

  /// From the largest choice, with nothing padded: which diagonal, and how far
  /// it is seen to the left of it.
  LogicalResult guess(const Evaluated &e, const Sizes &sizes) {
    if (e.batch == 0 || e.rows == 0 || e.keys == 0 || e.mask.size() == 0)
      return fail("there is nothing to see");
    auto seen = [&](int64_t i, int64_t j) {
      return isHiddenElement(e.get(0, 0, i, j)) == false;
    };
    // The last key that the first row sees is its diagonal.
    int64_t last = -1;
    for (int64_t j = 0; j < e.keys; ++j) {
      if (!isHiddenElement(e.get(0, 0, 0, j)))
        return failValue(e.get(0, 0, 0, j));
      if (seen(0, j))
        last = j;
    }
    if (last < 0)
      return fail("its first row is hidden");
    bool full = last == e.keys - 1 && (e.rows > 1 || e.keys == 1) &&
                seen(0, 0) && seen(e.rows - 1, 0);
    SymExpr difference = scores.keys - scores.rows;
    auto past = raise::evaluate(difference, sizes);
    if (!full || e.rows == 1) {
      facts.causal = true;
      if (past == last)
        facts.offset = difference;
      else if (last == 0)
        facts.offset = SymExpr();
      else
        return fail("its diagonal is at neither end");
    }
    if (!facts.causal)
      return success();
    int64_t i = e.rows - 1, diagonal = i + last, first = 0;
    while (first < e.keys && !seen(i, first))
      ++first;
    if (first > 0)
      facts.windowLeft = diagonal - first;
    return success();
  }

  bool isVisible(const Evaluated &e, int64_t offset, int64_t b, int64_t i,
                 int64_t j) const {
    if (facts.causal && j > i + offset)
      return false;
    if (facts.windowLeft >= 0 && j < i + offset - facts.windowLeft)
      return false;
    return !e.padding || e.padding->get(b * e.keys + j) != 0;
  }

  /// One row: every element as the facts say, and a row that sees nothing of
  /// one value.
  LogicalResult checkRow(const Evaluated &e, int64_t offset, int64_t b,
                         int64_t h, int64_t i) {
    bool any = false, equal = true;
    for (int64_t j = 0; j < e.keys; ++j) {
      double value = e.get(b, h, i, j);
      auto hidden = isHiddenElement(value);
      if (!hidden)
        return failValue(value);
      bool visible = isVisible(e, offset, b, i, j);
      if (visible == *hidden)
        return fail("element [" + Twine(b) + ", " + Twine(i) + ", " + Twine(j) +
                    "] of " + Twine(e.rows) + " rows and " + Twine(e.keys) +
                    " keys is " + (visible ? "hidden" : "visible"));
      any |= visible;
      equal &= value == e.get(b, h, i, 0);
    }
    if (any || !isa<FloatType>(element) || e.keys == 0)
      return success();
    bool finite = std::isfinite(e.get(b, h, i, 0));
    if (!equal || (facts.finite && *facts.finite != finite))
      return fail("rows that see nothing hold several values");
    facts.finite = finite;
    return success();
  }

  LogicalResult check(const MaskSources &sources, eval::Evaluator &evaluator,
                      const Sizes &sizes, unsigned kind, bool first) {
    auto e = evaluateMask(sources, evaluator, sizes, kind);
    if (failed(e) || (first && failed(guess(*e, sizes))))
      return failure();
    auto offset = raise::evaluate(facts.offset, sizes);
    if (!offset)
      return fail("its diagonal cannot be evaluated");
    int64_t heads = e->mask.shape[1];
    for (int64_t b = 0; b < e->batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < e->rows; ++i)
          if (failed(checkRow(*e, *offset, b, h, i)))
            return failure();
    return success();
  }

  Value mask;
  const ScoreSizes &scores;
  std::string &reason;
  Type element;
  MaskFacts facts;
  std::mt19937 random{20261130};
};
} // namespace

FailureOr<MaskFacts> raise::proveMask(Value mask, const ScoreSizes &sizes,
                                      std::string &reason) {
  return Prover(mask, sizes, reason).run();
}
