//===- Importer.h - One pass over a graph -----------------------*- C++ -*-===//
//
// Each value of the file is known in one or more of three ways: as an SSA
// value, as a constant tensor (bytes in a file), and as a small integer tensor
// whose elements are symbolic sizes. The last two become IR only when something
// needs them as data, so shape arithmetic leaves no trace.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_IMPORT_IMPORTER_H
#define FUSION_LIB_IMPORT_IMPORTER_H

#include "Onnx/Graph.h"
#include "SymEval.h"
#include "Symbols.h"

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Import/Import.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace fusion {

/// A small integer or boolean tensor evaluated over symbolic sizes.
struct SymTensor {
  int32_t elemType = onnxfile::Int64;
  std::vector<int64_t> dims;
  std::vector<SymExpr> values; ///< row-major

  /// All values when they are constants.
  std::optional<std::vector<int64_t>> constants() const;
};

class Importer;

/// One node, as its handler sees it.
class NodeImport {
public:
  NodeImport(Importer &importer, const onnxfile::Node &node,
             mlir::Location location);

  const onnxfile::Node &node;
  mlir::OpBuilder &builder;
  mlir::Location loc;

  Symbols &symbols();
  size_t numInputs() const { return node.inputs.size(); }
  bool hasInput(size_t i) const {
    return i < node.inputs.size() && !node.inputs[i].empty();
  }
  bool hasOutput(size_t i) const {
    return i < node.outputs.size() && !node.outputs[i].empty();
  }
  /// The input as data; null when it is absent.
  mlir::Value input(size_t i);
  SymShape shape(size_t i);
  int64_t rank(size_t i) { return shape(i).size(); }
  /// The input's elements where they are known at compile time.
  const SymTensor *sym(size_t i);
  const onnxfile::Tensor *constant(size_t i);
  void output(size_t i, mlir::Value value);

  int64_t getInt(llvm::StringRef name, int64_t otherwise) const;
  float getFloat(llvm::StringRef name, float otherwise) const;
  std::string getString(llvm::StringRef name, llvm::StringRef otherwise) const;
  std::optional<std::vector<int64_t>> getInts(llvm::StringRef name) const;

  /// Notes why the node cannot be imported.
  llvm::LogicalResult fail(const llvm::Twine &why);

  /// Sizes `a` and `b` must be equal; fails when they cannot be.
  llvm::LogicalResult equate(const SymExpr &a, const SymExpr &b,
                             const llvm::Twine &what);
  /// Broadcasts shapes, merging symbols.
  llvm::FailureOr<SymShape> broadcast(llvm::ArrayRef<SymShape> shapes);
  llvm::LogicalResult checkBroadcast(llvm::ArrayRef<mlir::Value> values);
  /// `axis` from the front; fails when out of range.
  llvm::FailureOr<int64_t> axis(int64_t value, int64_t rank);
  /// The same of a list, in which no axis may occur twice.
  llvm::FailureOr<llvm::SmallVector<int64_t>>
  distinctAxes(llvm::ArrayRef<int64_t> values, int64_t rank);
  /// Axes as constants, from an attribute (older opsets) or an input.
  llvm::FailureOr<std::optional<std::vector<int64_t>>>
  axes(llvm::StringRef attribute, size_t inputIndex);

  /// Fails because input `i` is not known when the model is compiled; says
  /// where on its way from the sizes of the inputs that was lost.
  llvm::LogicalResult failUnknown(size_t i, const llvm::Twine &what);
  /// Constant elements of input `i`, the `what` of the node; fails when it is
  /// not known.
  llvm::FailureOr<std::vector<int64_t>> constants(size_t i,
                                                  const llvm::Twine &what);

  /// Constant elements of input `i`, of any type; nullopt when not known.
  std::optional<std::vector<double>> reals(size_t i);

  /// Symbolic elements of a shape operand; fails when they depend on data.
  llvm::FailureOr<SymShape> sizes(size_t i, llvm::StringRef what);

  // Small builders.
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<SymExpr> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> perm);
  mlir::Value cast(mlir::Value value, mlir::Type element);
  /// A splat of rank 0.
  mlir::Value scalar(double value, mlir::Type element);
  /// The least value of a type (the largest), as a splat of rank 0.
  mlir::Value extreme(mlir::Type element, bool least);
  /// 0, 1, .. along `axis` of a shape whose other axes are 1.
  mlir::Value places(const SymExpr &count, int64_t axis, int64_t rank,
                     const SymExpr &start = 0);
  /// `count` elements along one axis, from `start`.
  mlir::Value slice(mlir::Value value, int64_t axis, const SymExpr &start,
                    const SymExpr &count);
  mlir::Value expand(mlir::Value value, llvm::ArrayRef<SymExpr> shape);
  /// value + input `i`; the value itself where the input is absent.
  llvm::FailureOr<mlir::Value> plusInput(mlir::Value value, size_t i);

  Importer &importer;
};

using Handler = llvm::LogicalResult (*)(NodeImport &);
/// Handlers by "domain::OpType" ("::OpType" for ai.onnx).
using HandlerMap = std::map<std::string, Handler>;

/// The attribute `activation` of operators that onnxruntime's optimiser fused,
/// applied to what the node computes; without it the value itself. Parameters
/// that are not given have ONNX's defaults.
llvm::FailureOr<mlir::Value> activate(NodeImport &n, mlir::Value x,
                                      llvm::ArrayRef<float> parameters);

/// The product of two integer operands of the node, each without its zero point
/// (an input that may be absent), in i32.
llvm::FailureOr<mlir::Value> integerProduct(NodeImport &n, size_t a, size_t b,
                                            size_t zeroA, size_t zeroB);
/// x in f32, times the two scales: one number, and one or one for each column.
llvm::FailureOr<mlir::Value> rescaled(NodeImport &n, mlir::Value x,
                                      size_t scaleA, size_t scaleB);

/// What to do about an operator that is refused by its name; empty for others.
llvm::StringRef whatInstead(llvm::StringRef domain, llvm::StringRef opType);

void addElementwiseHandlers(HandlerMap &map);
void addActivationHandlers(HandlerMap &map);
void addReductionHandlers(HandlerMap &map);
void addLinearHandlers(HandlerMap &map);
void addConvHandlers(HandlerMap &map);
void addCausalConvHandlers(HandlerMap &map);
void addPoolHandlers(HandlerMap &map);
void addEinsumHandlers(HandlerMap &map);
void addIntegerHandlers(HandlerMap &map);
void addSequenceHandlers(HandlerMap &map);
void addShapeHandlers(HandlerMap &map);
void addViewHandlers(HandlerMap &map);
void addSliceHandlers(HandlerMap &map);
void addPieceHandlers(HandlerMap &map);
void addGatherHandlers(HandlerMap &map);
void addQuantizeHandlers(HandlerMap &map);
void addResizeHandlers(HandlerMap &map);
void addEmbeddingHandlers(HandlerMap &map);
void addNormHandlers(HandlerMap &map);
void addAttentionHandlers(HandlerMap &map);
void addContribHandlers(HandlerMap &map);
void addMultiHeadHandlers(HandlerMap &map);
void addPackedAttentionHandlers(HandlerMap &map);
void addTopKHandlers(HandlerMap &map);
void addOneHotHandlers(HandlerMap &map);
const HandlerMap &getHandlers();

class Importer {
public:
  Importer(const onnxfile::Model &model, const ImportOptions &options,
           Symbols &symbols, mlir::MLIRContext &context);

  /// Builds the module; null after faults (see `problems` and `faults`).
  mlir::OwningOpRef<mlir::ModuleOp> run();

  struct Problem {
    const onnxfile::Node *node;
    std::string why;
  };
  std::vector<Problem> problems;   ///< nodes that cannot be imported
  std::vector<std::string> faults; ///< of the graph or the options

  // For handlers.
  mlir::Value getValue(const std::string &name);
  const SymTensor *getSym(const std::string &name);
  const SymElements *getElements(const std::string &name);
  const onnxfile::Tensor *getConstant(const std::string &name);
  std::optional<SymShape> getShape(const std::string &name);
  int32_t getElemType(const std::string &name);
  void setValue(const std::string &name, mlir::Value value);
  void setSym(const std::string &name, SymTensor value);
  void setConstant(const std::string &name, onnxfile::Tensor value);
  /// Where the value `name` stopped to be known; empty when it never was.
  std::string whyUnknown(const std::string &name) const;
  /// Gives `name` everything that is known of `source`.
  void alias(const std::string &name, const std::string &source);
  /// A constant as IR: `fusion.constant`, or `fusion.weight` above 64 KiB.
  mlir::Value materialize(const onnxfile::Tensor &tensor);
  llvm::LogicalResult importNodes(const onnxfile::Graph &graph);

  const onnxfile::Model &model;
  Symbols &symbols;
  mlir::OpBuilder builder;

private:
  bool staysInput(const std::string &name) const;
  bool checkKeptInputs();
  bool declareInputs(mlir::func::FuncOp function);
  bool applyDimOptions();
  void mergeRoles();
  std::optional<SymExpr> findDim(const std::string &key);
  void importNode(const onnxfile::Node &node);
  void foldSizes(const onnxfile::Node &node,
                 llvm::ArrayRef<mlir::Operation *> made);
  llvm::LogicalResult importIf(const onnxfile::Node &node);
  void listUnsupported(const onnxfile::Node &node);
  bool checkOutputs(llvm::SmallVectorImpl<mlir::Value> &results);
  bool isPoisoned(const onnxfile::Node &node) const;
  void poison(const onnxfile::Node &node);
  mlir::Location locationOf(const onnxfile::Node &node);
  void annotate(mlir::ModuleOp module, mlir::func::FuncOp function);

  const ImportOptions &options;
  mlir::MLIRContext &context;
  struct Input {
    std::string name;
    int32_t elemType;
    SymShape shape;
  };
  std::string roleOf(const Input &input) const;
  std::vector<Input> inputs;
  std::map<std::string, mlir::Value> values;
  std::map<std::string, SymTensor> syms;
  SymEval sizes;
  struct Unfolded {
    const onnxfile::Node *node;
    std::string why;
  };
  std::map<std::string, Unfolded> unfolded;
  std::map<std::string, onnxfile::Tensor> constants;
  std::set<std::string> poisoned;
  std::map<std::string, mlir::Value> materialized;
  std::map<std::string, std::array<int64_t, 2>> bounds;
  unsigned nodeIndex = 0;
};

/// The dialect's element type, null for types that no op handles.
mlir::Type getElementType(int32_t elemType, mlir::MLIRContext *context);
int32_t getElemTypeOf(mlir::Type type);
/// A constant of at most 64 KiB as an attribute.
mlir::DenseElementsAttr getDenseAttr(llvm::ArrayRef<uint8_t> bytes,
                                     mlir::RankedTensorType type);
/// Small integer tensors as symbolic values; nullopt for others.
std::optional<SymTensor> toSymTensor(const onnxfile::Tensor &tensor);

} // namespace fusion

#endif // FUSION_LIB_IMPORT_IMPORTER_H
