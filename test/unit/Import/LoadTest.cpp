//===- LoadTest.cpp - Files as a whole ------------------------------------===//

#include "Onnx/Graph.h"

#include "onnx/onnx_pb.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <unistd.h>

using namespace fusion;
using namespace fusion::onnxfile;

namespace {

struct LoadTest : testing::Test {
  LoadTest() {
    model.set_ir_version(8);
    auto *opset = model.add_opset_import();
    opset->set_version(18);
    model.mutable_graph()->set_name("g");
    addValue(*model.mutable_graph()->add_input(), "x");
    addValue(*model.mutable_graph()->add_output(), "y");
  }
  static void addValue(onnx::ValueInfoProto &info, const char *name) {
    info.set_name(name);
    auto *type = info.mutable_type()->mutable_tensor_type();
    type->set_elem_type(1);
    type->mutable_shape()->add_dim()->set_dim_value(4);
  }
  onnx::NodeProto *addNode(const char *op, std::vector<const char *> inputs,
                           const char *output) {
    auto *node = model.mutable_graph()->add_node();
    node->set_op_type(op);
    for (const char *input : inputs)
      node->add_input(input);
    node->add_output(output);
    return node;
  }
  Result<Model> load() {
    path = testing::TempDir() + "load-test-" + std::to_string(::getpid());
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    return loadModel(path, [](auto &, auto &) { return true; });
  }
  std::string message() {
    auto result = load();
    if (!result.ok())
      return result.status().message();
    EXPECT_FALSE(result->faults.empty());
    return result->faults.empty() ? "" : result->faults.front();
  }
  void TearDown() override { std::remove(path.c_str()); }

  onnx::ModelProto model;
  std::string path;
};

TEST_F(LoadTest, NodesAreSortedAndNamed) {
  addNode("Exp", {"a"}, "y");
  addNode("Relu", {"x"}, "a");
  auto result = load();
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->graph.nodes.size(), 2u);
  EXPECT_EQ(result->graph.nodes[0].opType, "Relu");
  EXPECT_EQ(result->graph.nodes[0].name, "Relu_1");
  EXPECT_EQ(result->graph.nodes[0].since, 14);
}

TEST_F(LoadTest, FaultsOfNames) {
  addNode("Relu", {"nowhere"}, "y");
  EXPECT_NE(message().find("input 'nowhere' is not defined"),
            std::string::npos);
  model.mutable_graph()->mutable_node(0)->set_input(0, "x");
  addNode("Exp", {"x"}, "y");
  EXPECT_NE(message().find("value 'y' is defined twice"), std::string::npos);
}

TEST_F(LoadTest, Cycle) {
  addNode("Relu", {"b"}, "a");
  addNode("Exp", {"a"}, "b");
  addNode("Exp", {"x"}, "y");
  EXPECT_NE(message().find("'Relu_0' (Relu): lies on a cycle"),
            std::string::npos);
}

TEST_F(LoadTest, SchemaFaultsStayWithTheNode) {
  addNode("Add", {"x"}, "y");
  auto result = load();
  ASSERT_TRUE(result.ok());
  EXPECT_NE(result->graph.nodes[0].problem.find("input size 1"),
            std::string::npos);
}

TEST_F(LoadTest, RequiredInputMayNotBeEmpty) {
  addNode("Sum", {"x", ""}, "y");
  auto result = load();
  ASSERT_TRUE(result.ok());
  EXPECT_NE(result->graph.nodes[0].problem.find("is required"),
            std::string::npos);
}

TEST_F(LoadTest, EqualNodeNamesAreToldApart) {
  addNode("Relu", {"x"}, "a")->set_name("n");
  addNode("Relu", {"a"}, "b")->set_name("n");
  addNode("Relu", {"b"}, "y")->set_name("n_1");
  auto result = load();
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->graph.nodes[0].name, "n");
  EXPECT_EQ(result->graph.nodes[1].name, "n_1");
  EXPECT_EQ(result->graph.nodes[2].name, "n_1_1");
}

TEST_F(LoadTest, TypesOfInputs) {
  addNode("Add", {"x", "x"}, "y");
  auto result = load();
  ASSERT_TRUE(result.ok());
  const Node &node = result->graph.nodes[0];
  EXPECT_EQ(checkTypes(node, {Float, Float}), "");
  EXPECT_NE(checkTypes(node, {Float, Int64}), "");
  EXPECT_NE(checkTypes(node, {Bool, Bool}), "");
}

TEST_F(LoadTest, Versions) {
  addNode("Relu", {"x"}, "r");    // gained types
  addNode("Softmax", {"r"}, "y"); // changed its meaning
  // An older opset is read, but not an operator that means something else.
  model.mutable_opset_import(0)->set_version(12);
  auto old = load();
  ASSERT_TRUE(old.ok());
  EXPECT_EQ(old->graph.nodes[0].problem, "");
  EXPECT_NE(old->graph.nodes[1].problem.find("changed between opset 12 and 13"),
            std::string::npos);
  model.mutable_opset_import(0)->set_version(99);
  EXPECT_NE(message().find("opset 99 is not supported"), std::string::npos);
  model.mutable_opset_import(0)->set_version(18);
  model.set_ir_version(2);
  EXPECT_NE(message().find("IR version 2"), std::string::npos);
}

TEST_F(LoadTest, TypedFieldsAreDecoded) {
  addNode("Relu", {"x"}, "y");
  auto *tensor = model.mutable_graph()->add_initializer();
  tensor->set_name("h");
  tensor->set_data_type(Float16);
  tensor->add_dims(2);
  tensor->add_int32_data(0x3c00);
  tensor->add_int32_data(0xc000);
  auto result = load();
  ASSERT_TRUE(result.ok()) << result.status().message();
  auto bytes = readTensor(result->graph.initializers.at("h"));
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, (std::vector<uint8_t>{0x00, 0x3c, 0x00, 0xc0}));
}

TEST_F(LoadTest, EmbeddedBytesStayInTheFile) {
  addNode("Relu", {"x"}, "y");
  auto *tensor = model.mutable_graph()->add_initializer();
  tensor->set_name("w");
  tensor->set_data_type(UInt8);
  tensor->add_dims(5);
  tensor->set_raw_data("\x01\x02\x03\x04\x05");
  auto result = load();
  ASSERT_TRUE(result.ok()) << result.status().message();
  const Tensor &found = result->graph.initializers.at("w");
  EXPECT_EQ(found.file, path);
  EXPECT_TRUE(found.owned.empty());
  EXPECT_EQ(*readTensor(found), (std::vector<uint8_t>{1, 2, 3, 4, 5}));
}

TEST_F(LoadTest, ExpansionBombIsRefused) {
  // f0 calls f1 twice, f1 calls f2 twice, ...: 2^40 nodes.
  auto *local = model.add_opset_import();
  local->set_domain("loc");
  local->set_version(1);
  for (int i = 0; i < 40; ++i) {
    auto *function = model.add_functions();
    function->set_domain("loc");
    function->set_name("f" + std::to_string(i));
    function->add_input("a");
    function->add_output("c");
    *function->add_opset_import() = model.opset_import(0);
    *function->add_opset_import() = *local;
    for (int k = 0; k < 2; ++k) {
      auto *node = function->add_node();
      bool last = i == 39;
      node->set_op_type(last ? "Relu" : "f" + std::to_string(i + 1));
      if (!last)
        node->set_domain("loc");
      node->add_input(k ? "b" : "a");
      node->add_output(k ? "c" : "b");
    }
  }
  addNode("f0", {"x"}, "y")->set_domain("loc");
  EXPECT_NE(message().find("nodes after inlining"), std::string::npos);
}

} // namespace
