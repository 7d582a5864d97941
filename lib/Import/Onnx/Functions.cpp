//===- Functions.cpp - Calls replaced by the bodies of what they call -----===//
//
// Local functions of the model, and operators that the importer does not know
// but whose text in the ONNX standard is a function of ones that it knows.
//
//===----------------------------------------------------------------------===//

#include "Proto.h"

#include "onnx/checker.h"
#include "onnx/defs/schema.h"
#include "onnx/inliner/inliner.h"

#include <algorithm>
#include <set>
#include <vector>

using namespace fusion;
using namespace fusion::onnxfile;

namespace {

constexpr uint64_t maxNodes = 1000000;

using OperatorId = std::pair<std::string, std::string>; ///< domain, name

OperatorId idOf(const onnx::NodeProto &node) {
  return {node.domain() == "ai.onnx" ? "" : node.domain(), node.op_type()};
}

/// Number of nodes after inlining; saturates. The call graph has no cycle.
class InlinedSize {
public:
  explicit InlinedSize(const onnx::ModelProto &model) {
    for (const auto &function : model.functions())
      functions.emplace(std::make_pair(function.domain(), function.name()),
                        &function);
  }

  template <typename Nodes>
  uint64_t count(const Nodes &nodes) {
    uint64_t total = 0;
    for (const auto &node : nodes) {
      uint64_t size = 1;
      for (const auto &attribute : node.attribute())
        size += count(attribute.g().node());
      auto it = functions.find({node.domain(), node.op_type()});
      if (it != functions.end())
        size += ofFunction(*it->second);
      total = std::min(total + size, maxNodes + 1);
    }
    return total;
  }

private:
  uint64_t ofFunction(const onnx::FunctionProto &function) {
    auto it = known.find(&function);
    if (it != known.end())
      return it->second;
    uint64_t size = count(function.node());
    known[&function] = size;
    return size;
  }

  std::map<OperatorId, const onnx::FunctionProto *> functions;
  std::map<const onnx::FunctionProto *, uint64_t> known;
};

/// The inliner takes it for granted that a call has no more operands and
/// results than its function: what is too much is noted and dropped.
class CallCheck {
public:
  CallCheck(const onnx::ModelProto &proto, std::vector<std::string> &faults)
      : faults(faults) {
    for (const auto &function : proto.functions())
      functions.emplace(std::make_pair(function.domain(), function.name()),
                        &function);
  }

  void run(onnx::ModelProto &proto) {
    check(*proto.mutable_graph()->mutable_node(), "");
    for (auto &function : *proto.mutable_functions())
      check(*function.mutable_node(),
            "function '" + function.domain() + "::" + function.name() + "': ");
  }

private:
  template <typename Nodes>
  void check(Nodes &nodes, const std::string &where) {
    size_t index = 0;
    for (auto &node : nodes) {
      std::string name = node.name().empty()
                             ? node.op_type() + "_" + std::to_string(index)
                             : node.name();
      ++index;
      for (auto &attribute : *node.mutable_attribute()) {
        if (attribute.has_g())
          check(*attribute.mutable_g()->mutable_node(), where);
        for (auto &graph : *attribute.mutable_graphs())
          check(*graph.mutable_node(), where);
      }
      auto it = functions.find({node.domain(), node.op_type()});
      if (it == functions.end())
        continue;
      std::string call = where + "node '" + name + "' calls function '" +
                         node.domain() + "::" + node.op_type() + "' with ";
      shorten(*node.mutable_input(), it->second->input_size(), call, "inputs");
      shorten(*node.mutable_output(), it->second->output_size(), call,
              "outputs");
    }
  }

  template <typename Names>
  void shorten(Names &names, int most, const std::string &call,
               const char *what) {
    if (names.size() <= most)
      return;
    faults.push_back(call + std::to_string(names.size()) + " " + what +
                     ", expected at most " + std::to_string(most) +
                     "; remove what the function does not declare");
    names.DeleteSubrange(most, names.size() - most);
  }

  std::vector<std::string> &faults;
  std::map<OperatorId, const onnx::FunctionProto *> functions;
};

/// One operator, in every call.
class Only : public onnx::inliner::FunctionIdSet {
public:
  explicit Only(OperatorId id) : id(std::move(id)) {}
  bool Contains(const std::string &domain,
                const std::string &name) const override {
    return name == id.second && (domain == "ai.onnx" ? "" : domain) == id.first;
  }

private:
  OperatorId id;
};

const onnx::OpSchema *schemaWithBody(const Model &model, const OperatorId &id) {
  auto opset = model.opsets.find(id.first);
  if (opset == model.opsets.end())
    return nullptr;
  const onnx::OpSchema *schema = onnx::OpSchemaRegistry::Instance()->GetSchema(
      id.second, opset->second, id.first);
  bool has = schema && !schema->Deprecated() &&
             (schema->HasFunction() || schema->HasContextDependentFunction());
  return has ? schema : nullptr;
}

/// In the order of the graph, so that a body's operands have known types.
void collectUnknown(const onnx::GraphProto &graph, const IsImported &isImported,
                    std::vector<OperatorId> &unknown) {
  for (const auto &node : graph.node()) {
    OperatorId id = idOf(node);
    if (!isImported(id.first, id.second) &&
        std::find(unknown.begin(), unknown.end(), id) == unknown.end())
      unknown.push_back(id);
    for (const auto &attribute : node.attribute())
      if (attribute.has_g())
        collectUnknown(attribute.g(), isImported, unknown);
  }
}

/// A body refers to the call's attributes, also to those left at their
/// defaults.
void writeDefaults(onnx::GraphProto &graph, const OperatorId &id,
                   const onnx::OpSchema &schema) {
  for (auto &node : *graph.mutable_node()) {
    for (auto &attribute : *node.mutable_attribute())
      if (attribute.has_g())
        writeDefaults(*attribute.mutable_g(), id, schema);
    if (idOf(node) != id)
      continue;
    for (const auto &[name, attribute] : schema.attributes()) {
      bool given = std::any_of(
          node.attribute().begin(), node.attribute().end(),
          [&, &wanted = name](const auto &a) { return a.name() == wanted; });
      if (!given && attribute.default_value.has_name())
        *node.add_attribute() = attribute.default_value;
    }
  }
}

/// The nodes of a body are named after the call, so that reports name it.
void nameBodies(const onnx::GraphProto &before, onnx::GraphProto &after) {
  std::map<std::string, std::string> callOf; // by output
  for (const auto &node : before.node())
    for (const std::string &output : node.output())
      if (!output.empty())
        callOf[output] = node.name().empty() ? idOf(node).second : node.name();
  // From the end: a body's last nodes make the outputs of the call.
  std::set<std::string> kept;
  for (const auto &node : before.node())
    kept.insert(node.SerializeAsString());
  std::string call;
  for (int i = after.node_size(); i-- > 0;) {
    onnx::NodeProto &node = *after.mutable_node(i);
    if (kept.count(node.SerializeAsString()))
      continue;
    for (const std::string &output : node.output())
      if (auto it = callOf.find(output); it != callOf.end())
        call = it->second;
    node.set_name(call + "/" + node.op_type());
  }
}

/// The inliner looks for the types of a call's operands among declarations;
/// initializers need none in a file.
void declareInitializers(onnx::GraphProto &graph) {
  std::set<std::string> declared;
  for (const auto &input : graph.input())
    declared.insert(input.name());
  for (const auto &value : graph.value_info())
    declared.insert(value.name());
  for (const auto &initializer : graph.initializer()) {
    if (!declared.insert(initializer.name()).second)
      continue;
    onnx::ValueInfoProto &info = *graph.add_value_info();
    info.set_name(initializer.name());
    auto &type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(initializer.data_type());
    type.mutable_shape(); // of rank 0, when no size follows
    for (int64_t size : initializer.dims())
      type.mutable_shape()->add_dim()->set_dim_value(size);
  }
}

/// A body that depends on its operands' types costs one inference of the whole
/// graph's types for each call: too many are left alone.
bool isAffordable(const onnx::GraphProto &graph, const OperatorId &id,
                  const onnx::OpSchema &schema) {
  constexpr uint64_t maxVisits = 1000000;
  if (schema.HasFunction())
    return true;
  uint64_t calls = std::count_if(
      graph.node().begin(), graph.node().end(),
      [&](const onnx::NodeProto &node) { return idOf(node) == id; });
  return calls * graph.node_size() <= maxVisits;
}

/// Replaces an operator, and what unknown operators its body brings in. False
/// when one of those has no body.
bool replaceOperator(onnx::ModelProto &proto, const Model &model,
                     const IsImported &isImported, const OperatorId &id) {
  constexpr int maxDepth = 8;
  std::vector<OperatorId> before, work{id};
  collectUnknown(proto.graph(), isImported, before);
  for (int depth = 0; depth < maxDepth && !work.empty(); ++depth) {
    for (const OperatorId &next : work) {
      const onnx::OpSchema *schema = schemaWithBody(model, next);
      if (!schema || !isAffordable(proto.graph(), next, *schema))
        return false;
      writeDefaults(*proto.mutable_graph(), next, *schema);
      onnx::GraphProto calls(proto.graph());
      onnx::inliner::InlineSelectedFunctions(proto, Only(next), nullptr);
      nameBodies(calls, *proto.mutable_graph());
      if (uint64_t(proto.graph().node_size()) > maxNodes)
        return false;
    }
    std::vector<OperatorId> after;
    collectUnknown(proto.graph(), isImported, after);
    auto isOld = [&](const OperatorId &other) {
      return other != id &&
             std::find(before.begin(), before.end(), other) != before.end();
    };
    after.erase(std::remove_if(after.begin(), after.end(), isOld), after.end());
    work = std::move(after);
  }
  return work.empty();
}

/// On a copy (tensors are no part of it): an operator whose body needs what is
/// unknown as well stays, so that the error names the operator of the file.
void inlineOperators(onnx::ModelProto &proto, const Model &model,
                     const IsImported &isImported) {
  std::vector<OperatorId> unknown;
  collectUnknown(proto.graph(), isImported, unknown);
  for (const OperatorId &id : unknown) {
    if (!schemaWithBody(model, id))
      continue;
    onnx::ModelProto trial(proto);
    declareInitializers(*trial.mutable_graph());
    try {
      if (replaceOperator(trial, model, isImported, id))
        proto = std::move(trial);
    } catch (const std::exception &) {
      // No body fits the call: it stays.
    }
  }
}

} // namespace

void onnxfile::inlineFunctions(onnx::ModelProto &proto, Model &model,
                               const IsImported &isImported) {
  bool inlines = proto.functions_size() > 0;
  if (inlines)
    try {
      onnx::checker::check_function_call_cycles(proto);
    } catch (const std::exception &error) {
      // "Cycle detected in ...: a::F -> a::F. Model-local functions must ..."
      std::string text = error.what();
      text.resize(std::min(text.find(". Model"), text.size()));
      size_t colon = text.find(": ");
      model.faults.push_back(
          "local functions call themselves: " +
          (colon == std::string::npos ? text : text.substr(colon + 2)) +
          "; export the model without recursion");
      for (const auto &function : proto.functions())
        model.recursive.insert({function.domain(), function.name()});
      inlines = false;
    }
  if (inlines) {
    CallCheck(proto, model.faults).run(proto);
    if (InlinedSize(proto).count(proto.graph().node()) > maxNodes)
      throw FileError("more than " + std::to_string(maxNodes) +
                      " nodes after inlining local functions");
    onnx::inliner::InlineLocalFunctions(proto);
    // Inlining may have brought in domains that only functions import.
    for (const auto &import : proto.opset_import())
      model.opsets.emplace(import.domain() == "ai.onnx" ? "" : import.domain(),
                           int(import.version()));
  }
  if (uint64_t(proto.graph().node_size()) > maxNodes)
    throw FileError("more than " + std::to_string(maxNodes) + " nodes");
  inlineOperators(proto, model, isImported);
}
