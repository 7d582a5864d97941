//===- Decoder.h - Greedy decoding of a language model ----------*- C++ -*-===//
//
// Drives a session of a model compiled with --kv-cache=state by token ids
// alone: the inputs' roles say which tensor takes the ids, and mask and
// positions follow from the cached length. Sequences of a batch with lengths of
// their own (--kv-lengths=own) are padded on the right.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_RUNTIME_DECODER_H
#define FUSION_RUNTIME_DECODER_H

#include "fusion/Runtime/Session.h"

namespace fusion {

class Decoder {
public:
  /// Fails when an input has no role that says how to fill it.
  static Result<std::unique_ptr<Decoder>> create(Session &session);

  /// Feeds `ids` after the cached tokens, in pieces where the model was
  /// compiled for fewer at once; returns the token with the largest logit
  /// after the last one (the first of equal ones).
  Result<int64_t> step(const std::vector<int64_t> &ids);

  /// The same for each sequence of the batch; one without ids rests, and has -1
  /// for a token.
  using Sequences = std::vector<std::vector<int64_t>>;
  Result<std::vector<int64_t>> stepAll(const Sequences &ids);
  /// Sequences of the batch.
  size_t batch() const { return std::max<size_t>(session.sequences(), 1); }

  RunOptions options; ///< of every run

private:
  explicit Decoder(Session &session) : session(session) {}
  Status bind(const std::vector<int64_t> &ids, int64_t count);
  Status fill(uint32_t input, std::vector<int64_t> shape,
              const std::vector<int64_t> &ids);
  std::vector<int64_t> shapeOf(uint32_t input, int64_t count) const;
  int64_t mostAtOnce() const;
  Result<int64_t> choose(size_t sequence, int64_t row) const;
  Status explain(const Status &failure, const std::vector<int64_t> &ids) const;
  Status run(const std::vector<int64_t> &ids, int64_t count, Greedy *greedy);

  Session &session;
  uint32_t idsInput = 0, logits = 0;
  std::vector<std::vector<uint8_t>> data; ///< of each input
};

} // namespace fusion

#endif // FUSION_RUNTIME_DECODER_H
