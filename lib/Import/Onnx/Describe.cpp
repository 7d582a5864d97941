//===- Describe.cpp - Schemas as text for the documentation ---------------===//

#include "Proto.h"

#include "onnx/defs/schema.h"

#include <algorithm>
#include <sstream>

using namespace fusion;
using namespace fusion::onnxfile;

using Schemas = std::vector<onnx::OpSchema>;

static std::string quoted(const std::string &text) { return '"' + text + '"'; }

template <typename Range, typename Spell>
static std::string list(const Range &range, Spell spell) {
  std::string text;
  for (const auto &item : range)
    text += (text.empty() ? "" : ", ") + spell(item);
  return '[' + text + ']';
}

/// Types as ONNX spells them, without "tensor()"; no sequences or the like.
static std::string typesOf(const onnx::OpSchema::FormalParameter &formal) {
  std::vector<std::string> types;
  for (auto type : formal.GetTypes())
    if (type->rfind("tensor(", 0) == 0)
      types.push_back(type->substr(7, type->size() - 8));
  std::sort(types.begin(), types.end());
  return list(types, quoted);
}

static std::string
formals(const std::vector<onnx::OpSchema::FormalParameter> &parameters) {
  return list(parameters, [](const auto &formal) {
    return "{\"name\": " + quoted(formal.GetName()) +
           ", \"types\": " + typesOf(formal) + "}";
  });
}

/// The versions that some opset from 13 to 28 selects, the oldest first.
static Schemas versionsOf(const std::string &domain, const std::string &name) {
  Schemas all;
  for (onnx::OpSchema &schema :
       onnx::OpSchemaRegistry::get_all_schemas_with_history())
    if (schema.domain() == domain && schema.Name() == name &&
        (!domain.empty() || schema.SinceVersion() <= maxOpset))
      all.push_back(std::move(schema));
  std::sort(all.begin(), all.end(), [](const auto &a, const auto &b) {
    return a.SinceVersion() < b.SinceVersion();
  });
  auto first = all.begin();
  for (auto it = all.begin(); it != all.end(); ++it)
    if (it->SinceVersion() <= minOpset)
      first = it;
  all.erase(all.begin(), first);
  return all;
}

std::string onnxfile::describeOperator(const std::string &domain,
                                       const std::string &name) {
  registerContribSchemas();
  Schemas schemas = versionsOf(domain, name);
  if (schemas.empty())
    return "";
  const onnx::OpSchema &newest = schemas.back();
  std::ostringstream os;
  os << "{\"domain\": " << quoted(domain) << ", \"name\": " << quoted(name)
     << ", \"versions\": "
     << list(schemas,
             [](const onnx::OpSchema &schema) {
               return std::to_string(schema.SinceVersion());
             })
     << ", \"inputs\": " << formals(newest.inputs())
     << ", \"outputs\": " << formals(newest.outputs()) << ", \"attributes\": "
     << list(newest.attributes(),
             [](const auto &entry) { return quoted(entry.first); })
     << "}";
  return os.str();
}
