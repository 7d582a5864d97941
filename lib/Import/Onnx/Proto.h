//===- Proto.h - From protobuf messages to plain data -----------*- C++ -*-===//
//
// Internal to the files that include protobuf. They are compiled with
// exceptions; loadModel() catches everything at the boundary.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_IMPORT_ONNX_PROTO_H
#define FUSION_IMPORT_ONNX_PROTO_H

#include "ExternalData.h"
#include "Graph.h"

#include "onnx/onnx_pb.h"

#include <stdexcept>

namespace fusion::onnxfile {

/// The opsets of ai.onnx that are read.
constexpr int minOpset = 13, maxOpset = 28;

/// A fault of the file; what() does not name the file.
struct FileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Locates or decodes the bytes of `proto`. Throws FileError.
Tensor convertTensor(const onnx::TensorProto &proto, const std::string &path,
                     ExternalFiles &externals);

/// Converts and checks a graph and its sub-graphs: names, definitions, order.
/// `outer` holds the names visible from enclosing graphs. Faults go to the
/// model.
class GraphConverter {
public:
  GraphConverter(Model &model, ExternalFiles &externals)
      : model(model), externals(externals) {}
  Graph convert(const onnx::GraphProto &proto,
                const std::map<std::string, bool> &outer, int depth);
  /// Tells how many tensors have a fault that was noted once.
  void countTensorFaults();

private:
  void fault(const std::string &what);
  void convertInitializer(const onnx::TensorProto &proto, Graph &graph);
  Node convertNode(const onnx::NodeProto &proto, size_t index,
                   const std::map<std::string, bool> &visible, int depth);
  Attribute convertAttribute(const onnx::AttributeProto &proto,
                             const std::map<std::string, bool> &visible,
                             int depth);

  Model &model;
  ExternalFiles &externals;
  std::map<std::string, int> nodeNames; ///< given so far, and the next suffix
  struct TensorFault {
    size_t place; ///< in the model's faults
    size_t count = 0;
  };
  std::map<std::string, TensorFault> tensorFaults; ///< by reason
};

/// Sorts nodes so that each follows its producers, keeping the file's order
/// where it can. Nodes on a cycle, and those that depend on one, come last and
/// are broken; returns what to say of them.
std::string sortNodes(Graph &graph);

/// Registers schemas of the com.microsoft operators that are imported, once.
void registerContribSchemas();

/// Replaces calls of local functions, and unknown operators that the standard
/// defines by ones that are imported. Throws FileError.
void inlineFunctions(onnx::ModelProto &proto, Model &model,
                     const IsImported &isImported);

/// Sets schema, since and problem of a node. Expects domain and opset.
void checkNode(const onnx::NodeProto &proto, Node &node);

} // namespace fusion::onnxfile

#endif // FUSION_IMPORT_ONNX_PROTO_H
