//===- DecoderTest.cpp - Greedy decoding of a language model --------------===//

#include "fusion/Runtime/Decoder.h"
#include "fusion/Support/FloatTypes.h"

#include "TestModel.h"

using namespace fusion;

namespace {

constexpr int64_t kVocabulary = 10;
const SymExpr seq = SymExpr::symbol("seq"), past = SymExpr::symbol("past"),
              batch = SymExpr::symbol("batch");

/// A "language model" that stores ids in its cache and, after each token,
/// favours (sum of all cached ids + position + mask length) mod 10.
void predict(const HostContext *c, void *const *args, const int64_t *sizes,
             int64_t, int64_t) {
  auto *ids = static_cast<const int64_t *>(args[0]),
       *mask = static_cast<const int64_t *>(args[1]),
       *positions = static_cast<const int64_t *>(args[2]);
  auto *cache = static_cast<int64_t *>(args[3]);
  auto *logits = static_cast<uint16_t *>(args[4]);
  int64_t cached = sizes[0], count = sizes[1], length = 0;
  for (int64_t i = 0; i < cached + count; ++i)
    length += mask[i];
  for (int64_t t = 0; t < count; ++t) {
    if (ids[t] < 0 || ids[t] >= kVocabulary)
      *c->status = kHostIndexOutOfRange;
    cache[cached + t] = ids[t];
    int64_t sum = positions[t] + length;
    for (int64_t i = 0; i <= cached + t; ++i)
      sum += cache[i];
    for (int64_t v = 0; v < kVocabulary; ++v)
      logits[t * kVocabulary + v] =
          floatToF16(v == sum % kVocabulary ? 2.0f : -1.0f);
  }
}

int64_t expectedToken(const std::vector<int64_t> &ids) {
  int64_t sum = static_cast<int64_t>(2 * ids.size() - 1);
  for (int64_t id : ids)
    sum += id;
  return sum % kVocabulary;
}

struct LanguageModel : TestModel {
  LanguageModel() {
    model.symbols = {{"batch", Symbol::Source::InputDim, 0, 0, 1, 1},
                     {"seq", Symbol::Source::InputDim, 0, 1, 1, 4},
                     {"past", Symbol::Source::CachedLength, 0, 0, 0, 20}};
    model.inputs = {
        {"ids", DType::I64, {batch, seq}, Role::TokenIds},
        {"mask", DType::I64, {batch, past + seq}, Role::AttentionMask},
        {"positions", DType::I64, {batch, seq}, Role::PositionIds}};
    model.outputs = {
        {"logits", DType::F16, {batch, seq, kVocabulary}, Role::Logits}};
    model.states = {{"cache", DType::I64, {20}, 0}};
    model.maxContext = 20;
    Program p;
    p.name = "main";
    p.rows = batch * seq;
    p.launches = {launch(kernel("predict", predict),
                         {{Kind::Input, 0, 0},
                          {Kind::Input, 1, 0},
                          {Kind::Input, 2, 0},
                          {Kind::State, 0, 0},
                          {Kind::Output, 0, 0}},
                         {past, seq}, 1)};
    model.programs = {p};
  }
};

TEST(Decoder, FollowsTheModel) {
  LanguageModel m;
  auto session = m.session();
  auto decoder = Decoder::create(*session);
  ASSERT_TRUE(decoder) << decoder.status().message();
  // Six tokens: more than the four that the model takes at once. The mask of
  // the second piece covers the first.
  std::vector<int64_t> all = {3, 1, 4, 1, 5, 9}, next = all;
  while (all.size() < 20) {
    auto token = (*decoder)->step(next);
    ASSERT_TRUE(token) << token.status().message();
    EXPECT_EQ(expectedToken(all), *token) << all.size();
    next = {*token};
    all.push_back(*token);
  }
  EXPECT_EQ(19, session->length());
  EXPECT_TRUE((*decoder)->step({1}));
  EXPECT_FALSE((*decoder)->step({1})); // the context is full
}

/// Two sequences with lengths of their own; logits [2, seq, 10] favour the sum
/// of a sequence's own cached ids.
struct TwoSequences : TestModel {
  TwoSequences() {
    model.symbols = {{"seq", Symbol::Source::InputDim, 0, 1, 1, 3},
                     {"past", Symbol::Source::CachedLength, 0, 0, 0, 8}};
    model.inputs = {{"ids", DType::I64, {2, seq}, Role::TokenIds},
                    {"lengths", DType::I32, {2}, Role::CachedLengths}};
    model.outputs = {
        {"logits", DType::F32, {2, seq, kVocabulary}, Role::Logits}};
    model.states = {{"cache", DType::I64, {2, 8}, 1}};
    model.maxContext = 8;
    Program p;
    p.name = "main";
    p.rows = SymExpr(2) * seq;
    p.launches = {launch(kernel("predict", predictTwo),
                         {{Kind::Input, 0, 0},
                          {Kind::Input, 1, 0},
                          {Kind::State, 0, 0},
                          {Kind::Output, 0, 0}},
                         {seq}, 1)};
    model.programs = {p};
  }

  static void predictTwo(const HostContext *, void *const *args,
                         const int64_t *sizes, int64_t, int64_t) {
    auto *ids = static_cast<const int64_t *>(args[0]);
    auto *lengths = static_cast<const int32_t *>(args[1]);
    auto *cache = static_cast<int64_t *>(args[2]);
    auto *logits = static_cast<float *>(args[3]);
    int64_t count = sizes[0];
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t t = 0; t < count; ++t) {
        cache[b * 8 + lengths[b] + t] = ids[b * count + t];
        int64_t sum = 0;
        for (int64_t i = 0; i <= lengths[b] + t; ++i)
          sum += cache[b * 8 + i];
        for (int64_t v = 0; v < kVocabulary; ++v)
          logits[(b * count + t) * kVocabulary + v] =
              v == sum % kVocabulary ? 2.0f : -1.0f;
      }
  }
};

TEST(Decoder, SequencesHaveLengthsOfTheirOwn) {
  TwoSequences m;
  auto session = m.session();
  auto decoder = Decoder::create(*session);
  ASSERT_TRUE(decoder) << decoder.status().message();
  EXPECT_EQ(2u, (*decoder)->batch());
  // Five tokens and two, three at once: the second ends in the first piece.
  auto tokens = (*decoder)->stepAll({{1, 1, 1, 1, 2}, {3, 4}});
  ASSERT_TRUE(tokens) << tokens.status().message();
  EXPECT_EQ((std::vector<int64_t>{6, 7}), *tokens);
  EXPECT_EQ(5, session->length());
  EXPECT_EQ(5, session->sequenceLength(0));
  EXPECT_EQ(2, session->sequenceLength(1));
  // The first rests.
  tokens = (*decoder)->stepAll({{}, {5}});
  ASSERT_TRUE(tokens) << tokens.status().message();
  EXPECT_EQ((std::vector<int64_t>{-1, 2}), *tokens);
  EXPECT_EQ(5, session->sequenceLength(0));
  EXPECT_EQ(3, session->sequenceLength(1));
  EXPECT_TRUE(session->truncateSequence(0, 1));
  EXPECT_EQ(3, session->length());
  tokens = (*decoder)->stepAll({{8}, {1}});
  ASSERT_TRUE(tokens) << tokens.status().message();
  EXPECT_EQ((std::vector<int64_t>{9, 3}), *tokens);
  session->reset();
  EXPECT_EQ(0, session->sequenceLength(1));
}

/// The same, with logits [2, 1, 10] of each sequence's last token alone.
struct LastOfTwoSequences : TwoSequences {
  LastOfTwoSequences() {
    model.inputs.push_back({"counts", DType::I32, {2}, Role::TokenCounts});
    model.outputs[0].shape = {2, 1, kVocabulary};
    model.programs[0].launches = {
        launch(kernel("last", predictLast),
               {{Kind::Input, 0, 0}, {Kind::Input, 2, 0}, {Kind::Output, 0, 0}},
               {seq}, 1)};
  }
  /// The token after a sequence's last one.
  static void predictLast(const HostContext *, void *const *args,
                          const int64_t *sizes, int64_t, int64_t) {
    auto *ids = static_cast<const int64_t *>(args[0]);
    auto *counts = static_cast<const int32_t *>(args[1]);
    auto *logits = static_cast<float *>(args[2]);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t v = 0; v < kVocabulary; ++v)
        logits[b * kVocabulary + v] =
            counts[b] > 0 && v == ids[b * sizes[0] + counts[b] - 1] + 1;
  }
};

TEST(Decoder, TheSessionGivesTokenCounts) {
  LastOfTwoSequences m;
  auto session = m.session();
  auto decoder = Decoder::create(*session);
  ASSERT_TRUE(decoder) << decoder.status().message();
  auto tokens = (*decoder)->stepAll({{1, 1, 1, 1, 2}, {3, 4}});
  ASSERT_TRUE(tokens) << tokens.status().message();
  EXPECT_EQ((std::vector<int64_t>{3, 5}), *tokens);
  int32_t own[2] = {};
  EXPECT_FALSE(session->setInput(2, DType::I32, {2}, own));
  // Without counts every token is kept.
  session->reset();
  int64_t ids[4] = {5, 6, 7, 8};
  ASSERT_TRUE(session->setInput(0, DType::I64, {2, 2}, ids));
  ASSERT_TRUE(session->run());
  EXPECT_EQ(1, static_cast<const float *>(session->output(0).data)[7]);
  EXPECT_EQ(1, static_cast<const float *>(session->output(0).data)[10 + 9]);
}

TEST(Decoder, WrongSequencesAreErrors) {
  TwoSequences m;
  auto session = m.session();
  auto decoder = std::move(*Decoder::create(*session));
  EXPECT_FALSE(decoder->step({1}));
  EXPECT_FALSE(decoder->stepAll({{1}}));
  EXPECT_FALSE(decoder->stepAll({{}, {}}));
  EXPECT_FALSE(session->truncateSequence(2, 0));
  EXPECT_FALSE(session->truncateSequence(0, 1));
  EXPECT_FALSE(session->setTokenCounts({1}));
  int32_t own[2] = {};
  EXPECT_FALSE(session->setInput(1, DType::I32, {2}, own));
  int64_t ids[2] = {};
  ASSERT_TRUE(session->setInput(0, DType::I64, {2, 1}, ids));
  ASSERT_TRUE(session->setTokenCounts({2, 1}));
  EXPECT_FALSE(session->run());
}

TEST(Decoder, WrongTokensAreErrors) {
  LanguageModel m;
  auto session = m.session();
  auto decoder = std::move(*Decoder::create(*session));
  EXPECT_FALSE(decoder->step({}));
  auto token = decoder->step({10});
  ASSERT_FALSE(token);
  EXPECT_EQ(StatusCode::InvalidInput, token.status().code());
}

TEST(Decoder, RefusesModelsThatItCannotDrive) {
  auto refusal = [](void (*change)(Model &)) {
    LanguageModel m;
    change(m.model);
    auto session = m.session();
    auto decoder = Decoder::create(*session);
    return decoder ? std::string() : decoder.status().message();
  };
  EXPECT_EQ("", refusal([](Model &) {}));
  EXPECT_NE("", refusal([](Model &m) { m.inputs[0].role = Role::None; }));
  EXPECT_NE("", refusal([](Model &m) { m.outputs[0].role = Role::None; }));
  EXPECT_NE("", refusal([](Model &m) { m.maxContext = 0; }));
  EXPECT_NE(std::string::npos, refusal([](Model &m) {
                                 m.inputs[1].role = Role::PastKey;
                               }).find("'mask'"));
}

} // namespace
