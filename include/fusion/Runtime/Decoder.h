//===- Decoder.h - Greedy decoding of a language model ----------*- C++ -*-===//
//
// Drives a session of a model compiled with --kv-cache=state by token ids
// alone: the inputs' roles say which tensor takes the ids, and mask and
// positions follow from the cached length.
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

  RunOptions options; ///< of every run

private:
  explicit Decoder(Session &session) : session(session) {}
  Status bind(const int64_t *ids, int64_t count);
  Status fill(uint32_t input, std::vector<int64_t> shape, const int64_t *ids,
              int64_t count);
  std::vector<int64_t> shapeOf(uint32_t input, int64_t count) const;
  int64_t mostAtOnce() const;
  Result<int64_t> choose(const Greedy &greedy) const;
  Status explain(const Status &failure, const int64_t *ids,
                 int64_t count) const;

  Session &session;
  uint32_t idsInput = 0, logits = 0;
  std::vector<std::vector<uint8_t>> data; ///< of each input
};

} // namespace fusion

#endif // FUSION_RUNTIME_DECODER_H
