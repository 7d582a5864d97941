//===- Decoder.cpp - Greedy decoding of a language model ------------------===//

#include "fusion/Runtime/Decoder.h"

#include "fusion/Artifact/Encoding.h"
#include "fusion/Support/FloatTypes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace fusion;
using namespace fusion::artifact;

static Status refusal(const Session &session, const std::string &why) {
  return Status(StatusCode::InvalidInput, "cannot generate text with '" +
                                              session.loaded().path() +
                                              "': " + why);
}

Result<std::unique_ptr<Decoder>> Decoder::create(Session &session) {
  const Model &m = session.loaded().model();
  std::unique_ptr<Decoder> decoder(new Decoder(session));
  decoder->data.resize(m.inputs.size());
  auto find = [](const std::vector<TensorInfo> &list, Role role) {
    auto it = std::find_if(list.begin(), list.end(),
                           [&](const TensorInfo &t) { return t.role == role; });
    return static_cast<size_t>(it - list.begin());
  };
  size_t ids = find(m.inputs, Role::TokenIds);
  size_t logits = find(m.outputs, Role::Logits);
  if (ids == m.inputs.size() || m.inputs[ids].shape.empty())
    return refusal(session, "no input takes token ids (--role token_ids=NAME)");
  if (logits == m.outputs.size() || m.outputs[logits].shape.empty())
    return refusal(session, "no output holds logits (--role logits=NAME)");
  if (m.maxContext == 0)
    return refusal(session, "it was not compiled with --kv-cache=state");
  for (const TensorInfo &t : m.inputs)
    if (t.role != Role::TokenIds && t.role != Role::AttentionMask &&
        t.role != Role::PositionIds && !session.gives(t))
      return refusal(session, "input '" + t.name +
                                  "' is none of token ids, attention mask and "
                                  "positions (--role ROLE=" +
                                  t.name + ")");
  DType type = m.outputs[logits].type;
  if (type != DType::F32 && type != DType::F16 && type != DType::BF16)
    return refusal(session, std::string("its logits are of type ") +
                                name(type) + ", expected f32, f16 or bf16");
  // Axes before the tokens: a batch.
  auto sequences = static_cast<int64_t>(decoder->batch());
  for (size_t axis = 0; axis + 1 < m.inputs[ids].shape.size(); ++axis) {
    const SymExpr &size = m.inputs[ids].shape[axis];
    if (size.asConstant().value_or(1) != sequences)
      return refusal(session, "it was compiled for a batch of " + size.str() +
                                  " (input '" + m.inputs[ids].name +
                                  "') with one cached length; compile with "
                                  "--kv-lengths=own, or with --dim batch=1");
  }
  decoder->idsInput = static_cast<uint32_t>(ids);
  decoder->logits = static_cast<uint32_t>(logits);
  return decoder;
}

/// The ids' last axis holds the tokens; every other size that the ids fix is
/// one (a batch without lengths of its own), and what a mask adds is the cached
/// length.
std::vector<int64_t> Decoder::shapeOf(uint32_t input, int64_t count) const {
  const Model &m = session.loaded().model();
  const TensorInfo &ids = m.inputs[idsInput];
  auto lookup = [&](std::string_view symbol) -> std::optional<int64_t> {
    for (const Symbol &s : m.symbols) {
      if (s.name != symbol)
        continue;
      if (s.source == Symbol::Source::CachedLength)
        return session.length();
      if (s.input == idsInput)
        return s.axis + 1 == ids.shape.size() ? count : 1;
      // A size of its own: the mask's over all tokens, or a batch of one.
      bool last = s.axis + 1 == m.inputs[s.input].shape.size();
      if (!last)
        return 1;
      return m.inputs[s.input].role == Role::AttentionMask
                 ? session.length() + count
                 : count;
    }
    return std::nullopt;
  };
  std::vector<int64_t> shape;
  for (const SymExpr &dim : m.inputs[input].shape)
    shape.push_back(dim.evaluate(lookup).value_or(-1));
  return shape;
}

int64_t Decoder::mostAtOnce() const {
  const Model &m = session.loaded().model();
  const SymExpr &tokens = m.inputs[idsInput].shape.back();
  if (auto constant = tokens.asConstant())
    return std::max<int64_t>(*constant, 1);
  int64_t most = INT64_MAX;
  for (const Symbol &s : m.symbols)
    if (tokens.asSymbol() == s.name)
      most = std::max<int64_t>(s.upper, 1);
  return most;
}

namespace {
/// Stores integers as elements of a tensor's type.
struct ElementWriter {
  DType type;
  std::vector<uint8_t> &bytes;

  template <typename T>
  void put(size_t i, T value) {
    memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  bool write(size_t i, int64_t value) {
    switch (type) {
    case DType::I64:
      return put(i, value), true;
    case DType::I32:
      return put(i, static_cast<int32_t>(value)), true;
    case DType::Bool:
      return put(i, static_cast<uint8_t>(value != 0)), true;
    case DType::F32:
      return put(i, static_cast<float>(value)), true;
    case DType::F16:
      return put(i, floatToF16(static_cast<float>(value))), true;
    case DType::BF16:
      return put(i, floatToBf16(static_cast<float>(value))), true;
    default:
      return false;
    }
  }
};
} // namespace

Status Decoder::fill(uint32_t input, std::vector<int64_t> shape,
                     const std::vector<int64_t> &ids) {
  const TensorInfo &info = session.loaded().model().inputs[input];
  auto elements = elementCount(shape);
  if (!elements)
    return refusal(session, "the shape of input '" + info.name +
                                "' does not follow from the tokens");
  bool perToken = info.role != Role::AttentionMask;
  if (perToken && *elements != ids.size())
    return refusal(session, "input '" + info.name + "' has " +
                                std::to_string(*elements) + " elements for " +
                                std::to_string(ids.size()) + " tokens");
  std::vector<uint8_t> &bytes = data[input];
  bytes.resize(packedBytes(info.type, *elements) + 8);
  ElementWriter writer{info.type, bytes};
  for (size_t i = 0; i < *elements; ++i) {
    int64_t value = info.role == Role::TokenIds ? ids[i]
                    : info.role == Role::PositionIds
                        ? session.length() + static_cast<int64_t>(i)
                        : 1;
    if (!writer.write(i, value))
      return refusal(session, "input '" + info.name + "' has element type " +
                                  name(info.type));
  }
  return session.setInput(input, info.type, std::move(shape), bytes.data());
}

Status Decoder::bind(const std::vector<int64_t> &ids, int64_t count) {
  const Model &m = session.loaded().model();
  for (uint32_t i = 0; i < data.size(); ++i)
    if (!session.gives(m.inputs[i]))
      if (Status s = fill(i, shapeOf(i, count), ids); !s)
        return s;
  return {};
}

template <typename T, typename Convert>
static int64_t argmax(const void *data, int64_t begin, int64_t count,
                      Convert convert) {
  const T *row = static_cast<const T *>(data) + begin;
  int64_t best = -1;
  float most = -INFINITY;
  for (int64_t i = 0; i < count; ++i) {
    float value = convert(row[i]);
    if (value > most || (best < 0 && !std::isnan(value))) {
      most = value;
      best = i;
    }
  }
  return best;
}

/// The largest logit of a sequence's row; its only one where the model computes
/// one a run (--logits=last).
Result<int64_t> Decoder::choose(size_t sequence, int64_t row) const {
  const TensorView &out = session.output(logits);
  auto elements = static_cast<int64_t>(*elementCount(out.shape));
  int64_t width = out.shape.back();
  int64_t rows =
      elements / std::max<int64_t>(width, 1) / static_cast<int64_t>(batch());
  int64_t best = -1;
  if (rows < 1)
    return refusal(session, "the logits hold no number");
  int64_t begin =
      (static_cast<int64_t>(sequence) * rows + std::min(row, rows - 1)) * width;
  if (out.type == DType::F32)
    best = argmax<float>(out.data, begin, width, [](float v) { return v; });
  else if (out.type == DType::F16)
    best = argmax<uint16_t>(out.data, begin, width, f16ToFloat);
  else
    best = argmax<uint16_t>(out.data, begin, width, bf16ToFloat);
  if (best < 0)
    return refusal(session, "the logits hold no number");
  return best;
}

/// A run that failed because of a token says which one.
Status Decoder::explain(const Status &failure,
                        const std::vector<int64_t> &ids) const {
  const Model &m = session.loaded().model();
  auto vocabulary = m.outputs[logits].shape.back().asConstant();
  if (failure.code() != StatusCode::InvalidInput || !vocabulary)
    return failure;
  auto bad = std::find_if(ids.begin(), ids.end(),
                          [&](int64_t id) { return id >= *vocabulary; });
  if (bad == ids.end())
    return failure;
  return refusal(session, "token id " + std::to_string(*bad) + " of input '" +
                              m.inputs[idsInput].name +
                              "' is outside the vocabulary of " +
                              std::to_string(*vocabulary) + " tokens");
}

Status Decoder::run(const std::vector<int64_t> &ids, int64_t count,
                    Greedy *greedy) {
  if (Status s = bind(ids, count); !s)
    return s;
  RunOptions runOptions = options;
  runOptions.greedy = greedy;
  if (Status s = session.run(runOptions); !s)
    return explain(s, ids);
  return {};
}

Result<int64_t> Decoder::step(const std::vector<int64_t> &ids) {
  if (batch() != 1)
    return refusal(session, "it has a batch of " + std::to_string(batch()) +
                                " sequences, and one was given");
  if (ids.empty())
    return refusal(session, "there are no tokens to start from");
  auto most = static_cast<size_t>(mostAtOnce());
  Greedy greedy;
  greedy.output = logits;
  size_t count = 0;
  for (size_t at = 0; at < ids.size(); at += count) {
    count = std::min(ids.size() - at, most);
    auto next = ids.begin() + static_cast<int64_t>(at);
    if (Status s = run({next, next + static_cast<int64_t>(count)},
                       static_cast<int64_t>(count), &greedy);
        !s)
      return s;
  }
  if (!greedy.done)
    return choose(0, static_cast<int64_t>(count) - 1);
  if (greedy.index < 0)
    return refusal(session, "the logits hold no number");
  return greedy.index;
}

Result<std::vector<int64_t>> Decoder::stepAll(const Sequences &ids) {
  if (ids.size() != batch())
    return refusal(session, "it has a batch of " + std::to_string(batch()) +
                                " sequences, and " +
                                std::to_string(ids.size()) + " were given");
  size_t longest = 0;
  for (const std::vector<int64_t> &sequence : ids)
    longest = std::max(longest, sequence.size());
  if (longest == 0)
    return refusal(session, "there are no tokens to start from");
  if (session.sequences() == 0) {
    auto token = step(ids.front());
    if (!token)
      return token.status();
    return std::vector<int64_t>{*token};
  }
  std::vector<int64_t> tokens(ids.size(), -1), counts(ids.size());
  auto most = static_cast<size_t>(mostAtOnce());
  for (size_t at = 0, count; at < longest; at += count) {
    count = std::min(longest - at, most);
    std::vector<int64_t> padded(ids.size() * count);
    for (size_t i = 0; i < ids.size(); ++i) {
      size_t begin = std::min(at, ids[i].size());
      size_t have = std::min(ids[i].size() - begin, count);
      for (size_t t = 0; t < have; ++t)
        padded[i * count + t] = ids[i][begin + t];
      counts[i] = static_cast<int64_t>(have);
    }
    if (Status s = session.setTokenCounts(counts); !s)
      return s;
    if (Status s = run(padded, static_cast<int64_t>(count), nullptr); !s)
      return s;
    for (size_t i = 0; i < ids.size(); ++i) {
      // The sequence's last token was among these.
      if (counts[i] == 0 || at + count < ids[i].size())
        continue;
      auto token = choose(i, counts[i] - 1);
      if (!token)
        return token.status();
      tokens[i] = *token;
    }
  }
  return tokens;
}
