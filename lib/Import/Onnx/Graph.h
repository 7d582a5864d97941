//===- Graph.h - An ONNX model as plain data --------------------*- C++ -*-===//
//
// What the importer sees of a file: no protobuf types, no exceptions.
// Sub-graphs are checked, sorted and free of local functions; tensor bytes stay
// where they are and are named by file, offset and length.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_IMPORT_ONNX_GRAPH_H
#define FUSION_IMPORT_ONNX_GRAPH_H

#include "fusion/Support/Status.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace fusion::onnxfile {

/// TensorProto.DataType.
enum ElemType : int32_t {
  Undefined = 0,
  Float = 1,
  UInt8 = 2,
  Int8 = 3,
  UInt16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  UInt32 = 12,
  UInt64 = 13,
  Complex64 = 14,
  Complex128 = 15,
  BFloat16 = 16,
  Float8E4M3FN = 17,
  Float8E4M3FNUZ = 18,
  Float8E5M2 = 19,
  Float8E5M2FNUZ = 20,
  UInt4 = 21,
  Int4 = 22,
  Float4E2M1 = 23,
  Float8E8M0 = 24,
  UInt2 = 25,
  Int2 = 26,
};

/// Bits of one element, 0 for types without a fixed size.
unsigned elemBits(int32_t type);
/// ONNX's spelling, e.g. "float16"; "type 99" for an unknown number.
std::string elemName(int32_t type);

/// The product of `dims`, nullopt when one is negative or it overflows.
std::optional<int64_t> elementCount(const std::vector<int64_t> &dims);

struct Tensor {
  std::string name;
  int32_t elemType = Undefined;
  std::vector<int64_t> dims;
  std::string file;               ///< holds the bytes, unless `owned` does
  uint64_t offset = 0, bytes = 0; ///< in `file`; sub-byte elements are packed
  std::vector<uint8_t> owned;     ///< decoded from typed fields

  int64_t elements() const { return elementCount(dims).value_or(0); }
};

/// Reads the bytes of a tensor, row-major and little-endian.
Result<std::vector<uint8_t>> readTensor(const Tensor &tensor);

struct Dim {
  std::optional<int64_t> value;
  std::string param; ///< empty when the axis has no name
};

struct ValueInfo {
  std::string name;
  int32_t elemType = Undefined; ///< Undefined when it is not a tensor
  bool hasShape = false;
  std::vector<Dim> dims;
};

struct Graph;

struct Attribute {
  enum class Kind {
    Int,
    Float,
    String,
    Ints,
    Floats,
    Strings,
    Tensor,
    Graph,
    Other
  };
  std::string name;
  Kind kind = Kind::Other;
  int64_t i = 0;
  float f = 0;
  std::string s;
  std::vector<int64_t> ints;
  std::vector<float> floats;
  std::vector<std::string> strings;
  std::shared_ptr<Tensor> tensor;
  std::shared_ptr<Graph> graph;
};

struct Node {
  std::string name; ///< the file's, or OPTYPE_INDEX when it has none
  std::string opType;
  std::string domain; ///< "" for ai.onnx
  int opset = 0;      ///< of the domain, as the model imports it
  int since = 0;      ///< version of the operator under that opset
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> attributes;
  const void *schema = nullptr; ///< for checkTypes()
  std::string problem;          ///< why the onnx library refuses the node
  bool isBroken = false;        ///< one of the model's `faults` is about it
  bool isCall = false;          ///< of a function that calls itself

  const Attribute *find(const std::string &attribute) const;
};

struct Graph {
  std::string name;
  std::vector<ValueInfo> inputs, outputs;
  std::map<std::string, Tensor> initializers;
  std::vector<Node> nodes;      ///< in topological order
  std::set<std::string> broken; ///< values that a fault leaves unknown
};

struct Model {
  std::string path;
  int64_t irVersion = 0;
  std::string producer;
  std::map<std::string, int> opsets; ///< by domain, "" for ai.onnx
  std::vector<std::string> warnings;
  std::set<std::pair<std::string, std::string>>
      recursive;                   ///< functions: domain and name
  std::vector<std::string> faults; ///< each once; they do not name the file
  Graph graph;
};

/// Whether the importer knows an operator, by domain ("" for ai.onnx) and name.
using IsImported =
    std::function<bool(const std::string &domain, const std::string &name)>;

/// Maps, parses and checks a file. Nodes that the onnx library does not know or
/// refuses carry a `problem`; other faults are gathered in the model's
/// `faults`. What no graph can be read from is a failure naming the file. An
/// operator that is not imported is replaced by its function body in the
/// standard, where that holds imported ones only.
Result<Model> loadModel(const std::string &path, const IsImported &isImported);

/// Checks the element types of a node's inputs (0: absent) against the
/// operator's type constraints; empty when they agree.
std::string checkTypes(const Node &node, const std::vector<int32_t> &inputs);

/// Names of known operators that look like `opType`, for suggestions.
std::string similarOperator(const std::string &opType,
                            const std::string &domain);

/// Versions, operands, types and attributes of a known operator, as a JSON
/// object on one line.
std::string describeOperator(const std::string &domain,
                             const std::string &name);

} // namespace fusion::onnxfile

#endif // FUSION_IMPORT_ONNX_GRAPH_H
