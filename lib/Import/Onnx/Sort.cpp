//===- Sort.cpp - Topological order of a graph's nodes --------------------===//

#include "Proto.h"

#include <functional>
#include <queue>

using namespace fusion;
using namespace fusion::onnxfile;

/// Calls `use` for every name that a node reads, also inside its sub-graphs.
static void forEachUse(const Node &node,
                       const std::function<void(const std::string &)> &use) {
  for (const std::string &input : node.inputs)
    use(input);
  for (const Attribute &attribute : node.attributes) {
    if (!attribute.graph)
      continue;
    for (const Node &inner : attribute.graph->nodes)
      forEachUse(inner, use);
    for (const ValueInfo &output : attribute.graph->outputs)
      use(output.name);
  }
}

static std::string describe(const Node &node) {
  return "'" + node.name + "' (" + node.opType + ")";
}

std::string onnxfile::sortNodes(Graph &graph) {
  std::map<std::string, size_t> producer;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const std::string &output : graph.nodes[i].outputs)
      if (!output.empty())
        producer[output] = i;

  std::vector<std::vector<size_t>> users(graph.nodes.size());
  std::vector<size_t> missing(graph.nodes.size(), 0);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    forEachUse(graph.nodes[i], [&](const std::string &name) {
      auto it = producer.find(name);
      if (it == producer.end())
        return;
      users[it->second].push_back(i);
      ++missing[i];
    });

  // The smallest index first: a sorted file keeps its order.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (missing[i] == 0)
      ready.push(i);
  std::vector<Node> sorted;
  sorted.reserve(graph.nodes.size());
  std::vector<bool> done(graph.nodes.size(), false);
  while (!ready.empty()) {
    size_t i = ready.top();
    ready.pop();
    done[i] = true;
    for (size_t user : users[i])
      if (--missing[user] == 0)
        ready.push(user);
    sorted.push_back(std::move(graph.nodes[i]));
  }
  std::string fault;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (done[i])
      continue;
    if (fault.empty())
      fault = "node " + describe(graph.nodes[i]) +
              ": lies on a cycle or depends on one";
    graph.nodes[i].isBroken = true;
    sorted.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(sorted);
  return fault;
}
