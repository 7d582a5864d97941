//===- Convert.cpp - GraphProto to Graph, with the rules of names ---------===//

#include "Proto.h"

#include <algorithm>

using namespace fusion;
using namespace fusion::onnxfile;

static std::string describe(const Node &node) {
  return "node '" + node.name + "' (" + node.opType + ")";
}

static ValueInfo convertValueInfo(const onnx::ValueInfoProto &proto) {
  ValueInfo info;
  info.name = proto.name();
  if (!proto.type().has_tensor_type())
    return info;
  const auto &type = proto.type().tensor_type();
  info.elemType = type.elem_type();
  info.hasShape = type.has_shape();
  for (const auto &dim : type.shape().dim()) {
    Dim converted;
    if (dim.has_dim_value())
      converted.value = dim.dim_value();
    else
      converted.param = dim.dim_param();
    info.dims.push_back(std::move(converted));
  }
  return info;
}

Attribute
GraphConverter::convertAttribute(const onnx::AttributeProto &proto,
                                 const std::map<std::string, bool> &visible,
                                 int depth) {
  using Kind = Attribute::Kind;
  using Proto = onnx::AttributeProto;
  Attribute attribute;
  attribute.name = proto.name();
  switch (proto.type()) {
  case Proto::INT:
    attribute.kind = Kind::Int;
    attribute.i = proto.i();
    break;
  case Proto::FLOAT:
    attribute.kind = Kind::Float;
    attribute.f = proto.f();
    break;
  case Proto::STRING:
    attribute.kind = Kind::String;
    attribute.s = proto.s();
    break;
  case Proto::INTS:
    attribute.kind = Kind::Ints;
    attribute.ints.assign(proto.ints().begin(), proto.ints().end());
    break;
  case Proto::FLOATS:
    attribute.kind = Kind::Floats;
    attribute.floats.assign(proto.floats().begin(), proto.floats().end());
    break;
  case Proto::STRINGS:
    attribute.kind = Kind::Strings;
    attribute.strings.assign(proto.strings().begin(), proto.strings().end());
    break;
  case Proto::TENSOR:
    attribute.kind = Kind::Tensor;
    attribute.tensor = std::make_shared<Tensor>(
        convertTensor(proto.t(), model.path, externals));
    break;
  case Proto::GRAPH:
    attribute.kind = Kind::Graph;
    attribute.graph =
        std::make_shared<Graph>(convert(proto.g(), visible, depth + 1));
    break;
  default:
    break;
  }
  return attribute;
}

void GraphConverter::fault(const std::string &what) {
  if (std::find(model.faults.begin(), model.faults.end(), what) ==
      model.faults.end())
    model.faults.push_back(what);
}

/// A missing file is the fault of every tensor in it, but one fault.
void GraphConverter::convertInitializer(const onnx::TensorProto &proto,
                                        Graph &graph) {
  std::string subject = "tensor '" + proto.name() + "': ";
  try {
    if (!graph.initializers
             .emplace(proto.name(), convertTensor(proto, model.path, externals))
             .second) {
      fault("initializer '" + proto.name() + "' is defined twice");
      graph.broken.insert(proto.name());
    }
  } catch (const FileError &error) {
    std::string what = error.what();
    std::string reason = what.substr(
        what.compare(0, subject.size(), subject) == 0 ? subject.size() : 0);
    TensorFault &tensors =
        tensorFaults.emplace(reason, TensorFault{model.faults.size()})
            .first->second;
    if (tensors.count++ == 0)
      model.faults.push_back(what);
    graph.broken.insert(proto.name());
  }
}

void GraphConverter::countTensorFaults() {
  for (const auto &[reason, tensors] : tensorFaults)
    if (tensors.count > 1)
      model.faults[tensors.place] +=
          " (and of " + std::to_string(tensors.count - 1) +
          (tensors.count > 2 ? " other tensors)" : " other tensor)");
}

Node GraphConverter::convertNode(const onnx::NodeProto &proto, size_t index,
                                 const std::map<std::string, bool> &visible,
                                 int depth) {
  Node node;
  node.opType = proto.op_type();
  node.name = proto.name().empty()
                  ? proto.op_type() + "_" + std::to_string(index)
                  : proto.name();
  // Names tell nodes apart in every report.
  std::string base = node.name;
  while (!nodeNames.emplace(node.name, 1).second)
    node.name = base + "_" + std::to_string(nodeNames[base]++);
  node.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  for (const auto &attribute : proto.attribute())
    try {
      node.attributes.push_back(convertAttribute(attribute, visible, depth));
    } catch (const FileError &error) {
      fault(describe(node) + ": attribute '" + attribute.name() +
            "': " + error.what());
      node.isBroken = true;
    }
  // Without an opset no operator is known; the import lists such nodes.
  auto opset = model.opsets.find(node.domain);
  node.opset = opset == model.opsets.end() ? 0 : opset->second;
  node.isCall = model.recursive.count({proto.domain(), proto.op_type()}) != 0;
  node.isBroken |= node.isCall;
  checkNode(proto, node);
  return node;
}

Graph GraphConverter::convert(const onnx::GraphProto &proto,
                              const std::map<std::string, bool> &outer,
                              int depth) {
  if (depth > 16)
    throw FileError("sub-graphs are nested deeper than 16 levels");
  for (const auto &sparse : proto.sparse_initializer())
    fault("sparse initializer '" + sparse.values().name() +
          "' is not supported; export it as a dense one");
  Graph graph;
  graph.name = proto.name();
  std::map<std::string, bool> visible = outer;
  auto define = [&](const std::string &name, const std::string &what) {
    bool isNew = visible.emplace(name, true).second;
    if (isNew && !name.empty())
      return;
    fault(name.empty() ? what + " has no name"
                       : what + " '" + name + "' is defined twice");
    graph.broken.insert(name); // it has no one meaning
  };
  for (const auto &input : proto.input()) {
    graph.inputs.push_back(convertValueInfo(input));
    define(input.name(), "graph input");
  }
  for (const auto &initializer : proto.initializer()) {
    // An initializer that is listed as an input is the value of that input.
    bool isInput = false;
    for (const ValueInfo &input : graph.inputs)
      isInput |= input.name == initializer.name();
    if (!isInput)
      define(initializer.name(), "initializer");
    convertInitializer(initializer, graph);
  }
  for (const auto &sparse : proto.sparse_initializer()) {
    visible.emplace(sparse.values().name(), true);
    graph.broken.insert(sparse.values().name());
  }
  for (const auto &node : proto.node())
    for (const std::string &output : node.output())
      if (!output.empty())
        define(output, "value");

  size_t index = 0;
  for (const auto &node : proto.node()) {
    graph.nodes.push_back(convertNode(node, index++, visible, depth));
    for (const std::string &input : graph.nodes.back().inputs)
      if (!input.empty() && !visible.count(input)) {
        fault(describe(graph.nodes.back()) + ": input '" + input +
              "' is not defined anywhere");
        graph.nodes.back().isBroken = true;
      }
  }
  std::set<std::string> listed;
  for (const auto &output : proto.output()) {
    if (!visible.count(output.name()))
      fault("graph output '" + output.name() + "' is not defined anywhere");
    if (!listed.insert(output.name()).second)
      fault("graph output '" + output.name() + "' is listed twice");
    graph.outputs.push_back(convertValueInfo(output));
  }
  if (std::string cycle = sortNodes(graph); !cycle.empty())
    fault(cycle);
  return graph;
}
