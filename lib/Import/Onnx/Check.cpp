//===- Check.cpp - Nodes against the schemas of the onnx library ----------===//

#include "Proto.h"

#include "onnx/checker.h"
#include "onnx/defs/schema.h"

#include <algorithm>
#include <set>

using namespace fusion;
using namespace fusion::onnxfile;

/// First line of an exception's text, in the style of our diagnostics.
static std::string firstLine(std::string text) {
  if (size_t end = text.find('\n'); end != std::string::npos)
    text.resize(end);
  while (!text.empty() && (text.back() == '.' || text.back() == ' '))
    text.pop_back();
  return text;
}

using Formals = std::vector<onnx::OpSchema::FormalParameter>;

/// Whether `newer` has the same parameters, and optional ones behind them.
static bool extends(const Formals &newer, const Formals &older) {
  if (newer.size() < older.size())
    return false;
  for (size_t i = 0; i < newer.size(); ++i)
    if (i < older.size() ? newer[i].GetName() != older[i].GetName() ||
                               newer[i].GetOption() != older[i].GetOption()
                         : newer[i].GetOption() != onnx::OpSchema::Optional)
      return false;
  return true;
}

/// Whether a version only added types, attributes that have a default and
/// optional parameters: a node of the older one means the same in it.
static bool extends(const onnx::OpSchema &newer, const onnx::OpSchema &older) {
  if (!extends(newer.inputs(), older.inputs()) ||
      !extends(newer.outputs(), older.outputs()))
    return false;
  for (const auto &[name, attribute] : newer.attributes())
    if (attribute.required && !older.attributes().count(name))
      return false;
  for (const auto &[name, attribute] : older.attributes()) {
    auto it = newer.attributes().find(name);
    if (it == newer.attributes().end() || it->second.type != attribute.type ||
        it->second.default_value.SerializeAsString() !=
            attribute.default_value.SerializeAsString())
      return false;
  }
  return true;
}

/// Whether a node means the same in its opset and in the oldest that is read.
static bool sameInOldestOpset(const Node &node, const onnx::OpSchema &schema) {
  if (!node.domain.empty() || node.opset >= minOpset)
    return true;
  // The identity, as a later one without a training mode is.
  if (node.opType == "Dropout" && node.since == 10)
    return true;
  const onnx::OpSchema *oldest = onnx::OpSchemaRegistry::Instance()->GetSchema(
      node.opType, minOpset, node.domain);
  return oldest &&
         (oldest->SinceVersion() == node.since || extends(*oldest, schema));
}

/// Values that the standard's text lists; schemas know types only.
static std::string checkValues(const std::string &opType,
                               const onnx::AttributeProto &attribute) {
  static const std::set<std::string> flags = {"allowzero",
                                              "ceil_mode",
                                              "count_include_pad",
                                              "detect_negative",
                                              "detect_positive",
                                              "exclusive",
                                              "fmod",
                                              "interleaved",
                                              "is_causal",
                                              "keepdims",
                                              "largest",
                                              "noop_with_empty_axes",
                                              "reverse",
                                              "saturate",
                                              "select_last_index",
                                              "sorted",
                                              "transA",
                                              "transB",
                                              "upper"};
  static const std::vector<std::string> reductions = {"none", "add", "mul",
                                                      "max", "min"};
  static const std::vector<std::string> autoPads = {"NOTSET", "SAME_UPPER",
                                                    "SAME_LOWER", "VALID"};
  static const std::map<std::string, std::vector<std::string>> words = {
      {"AveragePool.auto_pad", autoPads},
      {"BitShift.direction", {"LEFT", "RIGHT"}},
      {"Cast.round_mode", {"up", "down", "nearest"}},
      {"Conv.auto_pad", autoPads},
      {"Gelu.approximate", {"none", "tanh"}},
      {"MaxPool.auto_pad", autoPads},
      {"Pad.mode", {"constant", "reflect", "edge", "wrap"}},
      {"ScatterElements.reduction", reductions},
      {"ScatterND.reduction", reductions},
      {"TensorScatter.mode", {"linear", "circular"}}};
  std::string name = "attribute '" + attribute.name() + "' is ";
  if (flags.count(attribute.name()) && attribute.i() != 0 && attribute.i() != 1)
    return name + std::to_string(attribute.i()) + ", expected 0 or 1";
  auto known = words.find(opType + "." + attribute.name());
  if (known == words.end() ||
      std::find(known->second.begin(), known->second.end(), attribute.s()) !=
          known->second.end())
    return "";
  std::string list;
  for (const std::string &word : known->second)
    list += (list.empty() ? "'" : ", '") + word + "'";
  return name + "'" + attribute.s() + "', expected one of " + list;
}

/// What is wrong with the attributes of a node, beyond their types.
static std::string checkAttributes(const onnx::NodeProto &proto,
                                   const Node &node) {
  for (int i = 0; i < proto.attribute_size(); ++i) {
    const onnx::AttributeProto &attribute = proto.attribute(i);
    for (int j = 0; j < i; ++j)
      if (attribute.name() == proto.attribute(j).name())
        return "attribute '" + attribute.name() + "' is given twice";
    // Calls of functions have been replaced, with the values that they give.
    if (!attribute.ref_attr_name().empty())
      return "attribute '" + attribute.name() + "' refers to '" +
             attribute.ref_attr_name() +
             "' of a function, but the node lies in none; give it a value";
    if (node.domain.empty())
      if (std::string wrong = checkValues(node.opType, attribute);
          !wrong.empty())
        return wrong;
  }
  return "";
}

void onnxfile::checkNode(const onnx::NodeProto &proto, Node &node) {
  const onnx::OpSchema *schema =
      node.opset ? onnx::OpSchemaRegistry::Instance()->GetSchema(
                       node.opType, node.opset, node.domain)
                 : nullptr;
  if (!schema) {
    node.problem = "unknown operator";
    return;
  }
  node.schema = schema;
  node.since = schema->SinceVersion();
  if (!sameInOldestOpset(node, *schema)) {
    node.problem = "the operator changed between opset " +
                   std::to_string(node.opset) + " and " +
                   std::to_string(minOpset) +
                   ", the oldest that is read; convert the model with "
                   "onnx.version_converter";
    return;
  }
  if (schema->Deprecated()) {
    node.problem = "the operator is deprecated in this opset";
    return;
  }
  try {
    schema->Verify(proto);
  } catch (const std::exception &error) {
    node.problem = firstLine(error.what());
  }
  const auto &formals = schema->inputs();
  for (size_t i = 0; i < node.inputs.size() && !formals.empty(); ++i) {
    const auto &formal = formals[std::min(i, formals.size() - 1)];
    if (node.inputs[i].empty() &&
        formal.GetOption() != onnx::OpSchema::Optional && node.problem.empty())
      node.problem = "input " + std::to_string(i) + " ('" + formal.GetName() +
                     "') is required";
  }
  if (std::string wrong = checkAttributes(proto, node); !wrong.empty())
    node.problem = wrong;
}

/// The constraint that input `index` falls under; the last one may repeat.
static const onnx::OpSchema::FormalParameter *
formalInput(const onnx::OpSchema &schema, size_t index) {
  const auto &formals = schema.inputs();
  if (index < formals.size())
    return &formals[index];
  if (!formals.empty() &&
      formals.back().GetOption() == onnx::OpSchema::Variadic)
    return &formals.back();
  return nullptr;
}

std::string onnxfile::checkTypes(const Node &node,
                                 const std::vector<int32_t> &inputs) {
  if (!node.schema)
    return "";
  const auto &schema = *static_cast<const onnx::OpSchema *>(node.schema);
  std::map<std::string, int32_t> bound;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto *formal = formalInput(schema, i);
    if (!formal || inputs[i] == Undefined)
      continue;
    std::string spelling = "tensor(" + elemName(inputs[i]) + ")";
    const auto &types = formal->GetTypes();
    bool known = std::any_of(types.begin(), types.end(),
                             [&](auto type) { return *type == spelling; });
    std::string where = "input " + std::to_string(i) + " ('" +
                        formal->GetName() + "') is " + elemName(inputs[i]);
    if (!known)
      return where + ", which the operator does not take";
    if (!formal->GetIsHomogeneous())
      continue;
    auto [it, inserted] = bound.emplace(formal->GetTypeStr(), inputs[i]);
    if (!inserted && it->second != inputs[i])
      return where + ", expected " + elemName(it->second) +
             " as for another input";
  }
  return "";
}

/// Number of single-character edits between two words.
static size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t best = std::min(
          {row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[b.size()];
}

std::string onnxfile::similarOperator(const std::string &opType,
                                      const std::string &domain) {
  if (opType.size() > 64)
    return "";
  std::string best;
  size_t bestDistance = std::max<size_t>(opType.size() / 3, 1) + 1;
  for (const auto &schema : onnx::OpSchemaRegistry::get_all_schemas()) {
    size_t distance = editDistance(opType, schema.Name());
    if (distance == 0 && schema.domain() != domain)
      return schema.domain().empty() ? "ai.onnx::" + opType
                                     : schema.domain() + "::" + opType;
    if (distance < bestDistance && distance > 0) {
      bestDistance = distance;
      best = schema.Name();
    }
  }
  return best;
}
