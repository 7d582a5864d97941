//===- Roles.cpp - Names of a decoder's inputs and outputs ----------------===//

#include "fusion/Dialect/Fusion/Roles.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace fusion;
using llvm::StringRef;

StringRef fusion::canonicalRole(StringRef text) {
  static constexpr StringRef roles[] = {
      "token_ids",  "attention_mask", "position_ids",  "past_key",
      "past_value", "present_key",    "present_value", "logits"};
  StringRef role = llvm::StringSwitch<StringRef>(text)
                       .Case("ids", "token_ids")
                       .Case("mask", "attention_mask")
                       .Case("positions", "position_ids")
                       .Default(text);
  return llvm::is_contained(roles, role) ? role : "";
}

bool fusion::isSingleRole(StringRef role) {
  return !role.empty() && !role.starts_with("past_") &&
         !role.starts_with("present_");
}

/// Key or value of a cache that is called `prefix`...:
/// "past_key_values.3.key", "past_key_values_key_cache_3", "past_k0",
/// "cache.past.v", or the dynamo exporter's "past_key_values_LAYER_0" and
/// "..._1".
static StringRef cacheRole(StringRef name, StringRef prefix, StringRef key,
                           StringRef value) {
  size_t at = name.find(prefix);
  if (at == StringRef::npos)
    return "";
  name = name.drop_front(at + prefix.size());
  name.consume_front("_key_values");
  StringRef word = name.rtrim("0123456789").rtrim("._");
  auto says = [&](StringRef what, StringRef letter) {
    return name.contains(what) || word.ends_with(("_" + letter).str()) ||
           word.ends_with(("." + letter).str());
  };
  if (says("value", "v"))
    return value;
  if (says("key", "k") || name.ends_with("_0") || name.ends_with(".0"))
    return key;
  return name.ends_with("_1") || name.ends_with(".1") ? value : "";
}

/// The last part of a name with a path before it.
static StringRef lastPart(StringRef name) {
  return name.substr(name.find_last_of("./") + 1);
}

StringRef fusion::inputRoleByName(StringRef name, size_t rank) {
  StringRef role = llvm::StringSwitch<StringRef>(lastPart(name))
                       .Cases({"input_ids", "tokens", "token_ids"}, "token_ids")
                       .Case("attention_mask", "attention_mask")
                       .Cases({"position_ids", "positions"}, "position_ids")
                       .Default("");
  if (role == "attention_mask")
    return rank == 2 ? role : "";
  if (!role.empty())
    return rank == 1 || rank == 2 ? role : "";
  return rank >= 3 ? cacheRole(name, "past", "past_key", "past_value") : "";
}

StringRef fusion::outputRoleByName(StringRef name, size_t rank) {
  if (lastPart(name) == "logits")
    return "logits";
  return rank >= 3 ? cacheRole(name, "present", "present_key", "present_value")
                   : "";
}
