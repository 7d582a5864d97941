//===- Names.cpp - Element types and roles --------------------------------===//

#include "fusion/Artifact/Model.h"

using namespace fusion::artifact;

namespace {
struct TypeFacts {
  DType type;
  unsigned bits;
  const char *name;
};

constexpr TypeFacts kTypes[] = {
    {DType::F32, 32, "f32"},
    {DType::U8, 8, "ui8"},
    {DType::I8, 8, "i8"},
    {DType::U16, 16, "ui16"},
    {DType::I16, 16, "i16"},
    {DType::I32, 32, "i32"},
    {DType::I64, 64, "i64"},
    {DType::Bool, 8, "bool"},
    {DType::F16, 16, "f16"},
    {DType::F64, 64, "f64"},
    {DType::U32, 32, "ui32"},
    {DType::U64, 64, "ui64"},
    {DType::BF16, 16, "bf16"},
    {DType::F8E4M3FN, 8, "f8E4M3FN"},
    {DType::F8E4M3FNUZ, 8, "f8E4M3FNUZ"},
    {DType::F8E5M2, 8, "f8E5M2"},
    {DType::F8E5M2FNUZ, 8, "f8E5M2FNUZ"},
    {DType::U4, 4, "ui4"},
    {DType::I4, 4, "i4"},
    {DType::F4E2M1, 4, "f4E2M1FN"},
    {DType::F8E8M0, 8, "f8E8M0FNU"},
    {DType::U2, 2, "ui2"},
    {DType::I2, 2, "i2"},
};

const TypeFacts *find(DType type) {
  for (const TypeFacts &facts : kTypes)
    if (facts.type == type)
      return &facts;
  return nullptr;
}
} // namespace

unsigned fusion::artifact::bitWidth(DType type) {
  const TypeFacts *facts = find(type);
  return facts ? facts->bits : 0;
}

const char *fusion::artifact::name(DType type) {
  const TypeFacts *facts = find(type);
  return facts ? facts->name : "unknown";
}

const char *fusion::artifact::name(Role role) {
  switch (role) {
  case Role::None:
    return "none";
  case Role::TokenIds:
    return "token_ids";
  case Role::AttentionMask:
    return "attention_mask";
  case Role::PositionIds:
    return "position_ids";
  case Role::PastKey:
    return "past_key";
  case Role::PastValue:
    return "past_value";
  case Role::Logits:
    return "logits";
  case Role::PresentKey:
    return "present_key";
  case Role::PresentValue:
    return "present_value";
  case Role::CachedLengths:
    return "cached_lengths";
  case Role::TokenCounts:
    return "token_counts";
  }
  return "unknown";
}
