//===- WireWalkerTest.cpp - Tensors found before protobuf parses ----------===//

#include "Onnx/WireWalker.h"

#include "onnx/onnx_pb.h"

#include <gtest/gtest.h>

using namespace fusion;
using namespace fusion::onnxfile;

namespace {

onnx::ModelProto modelWith(const onnx::TensorProto &tensor) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  *model.mutable_graph()->add_initializer() = tensor;
  return model;
}

/// The first initializer of the stripped file.
onnx::TensorProto strippedTensor(const std::string &file) {
  auto stripped = stripTensors(file);
  EXPECT_TRUE(stripped.ok()) << stripped.status().message();
  onnx::ModelProto model;
  EXPECT_TRUE(stripped.ok() && model.ParseFromString(*stripped));
  return model.graph().initializer(0);
}

TEST(WireWalker, NotesWhereRawDataLies) {
  onnx::TensorProto tensor;
  tensor.set_name("w");
  tensor.set_raw_data("0123456789abcdef");
  std::string file = modelWith(tensor).SerializeAsString();
  onnx::TensorProto found = strippedTensor(file);
  EXPECT_FALSE(found.has_raw_data());
  EXPECT_EQ(found.name(), "w");
  ASSERT_EQ(found.external_data_size(), 1);
  EXPECT_EQ(found.external_data(0).key(), mappedKey);
  EXPECT_EQ(found.external_data(0).value(),
            std::to_string(file.find("0123456789abcdef")) + " 16 raw_data");
}

TEST(WireWalker, FloatDataIsItsOwnLayout) {
  onnx::TensorProto tensor;
  tensor.add_float_data(1.5f);
  tensor.add_float_data(2.5f);
  onnx::TensorProto found =
      strippedTensor(modelWith(tensor).SerializeAsString());
  EXPECT_EQ(found.float_data_size(), 0);
  ASSERT_EQ(found.external_data_size(), 1);
  EXPECT_NE(found.external_data(0).value().find(" 8 float_data"),
            std::string::npos);
}

TEST(WireWalker, TensorsInAttributesOfSubgraphs) {
  onnx::ModelProto model;
  auto *inner = model.mutable_graph()->add_node()->add_attribute()->mutable_g();
  auto *tensor = inner->add_node()->add_attribute()->mutable_t();
  tensor->set_raw_data("payload!");
  auto stripped = stripTensors(model.SerializeAsString());
  ASSERT_TRUE(stripped.ok());
  EXPECT_EQ(stripped->find("payload!"), std::string::npos);
}

TEST(WireWalker, DropsDocumentation) {
  onnx::ModelProto model;
  model.mutable_graph()->set_name("kept");
  model.mutable_graph()->set_doc_string("dropped");
  auto stripped = stripTensors(model.SerializeAsString());
  ASSERT_TRUE(stripped.ok());
  EXPECT_NE(stripped->find("kept"), std::string::npos);
  EXPECT_EQ(stripped->find("dropped"), std::string::npos);
}

TEST(WireWalker, RefusesItsOwnKey) {
  onnx::TensorProto tensor;
  auto *entry = tensor.add_external_data();
  entry->set_key(std::string(mappedKey));
  entry->set_value("0 1000000 raw_data");
  EXPECT_FALSE(stripTensors(modelWith(tensor).SerializeAsString()).ok());
}

TEST(WireWalker, RefusesEveryTruncation) {
  onnx::TensorProto tensor;
  tensor.set_name("w");
  tensor.set_raw_data("0123456789");
  std::string file = modelWith(tensor).SerializeAsString();
  // The first field stands alone; any other cut is inside the graph.
  for (size_t size = 3; size < file.size(); ++size)
    EXPECT_FALSE(stripTensors(std::string_view(file).substr(0, size)).ok())
        << size;
}

TEST(WireWalker, RefusesDeepNesting) {
  std::string deep;
  for (int i = 0; i < 60; ++i) {
    for (char tag : {0x32, 0x2a, 0x0a}) { // attribute.g, node.attribute, node
      std::string outer(1, tag);
      for (size_t n = deep.size();; n >>= 7) {
        outer += static_cast<char>(n > 127 ? (n & 127) | 128 : n);
        if (n <= 127)
          break;
      }
      deep = outer + deep;
    }
  }
  std::string file(1, 0x3a);
  for (size_t n = deep.size();; n >>= 7) {
    file += static_cast<char>(n > 127 ? (n & 127) | 128 : n);
    if (n <= 127)
      break;
  }
  auto result = stripTensors(file + deep);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.status().message().find("nested deeper"), std::string::npos);
}

} // namespace
