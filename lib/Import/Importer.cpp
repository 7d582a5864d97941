//===- Importer.cpp - One pass over a graph -------------------------------===//

#include "Importer.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;

/// Tensors above this size stay in their file.
static constexpr uint64_t maxConstantBytes = 64 << 10;

const HandlerMap &fusion::getHandlers() {
  static const HandlerMap map = [] {
    HandlerMap m;
    addElementwiseHandlers(m);
    addActivationHandlers(m);
    addReductionHandlers(m);
    addLinearHandlers(m);
    addConvHandlers(m);
    addCausalConvHandlers(m);
    addPoolHandlers(m);
    addEinsumHandlers(m);
    addIntegerHandlers(m);
    addSequenceHandlers(m);
    addShapeHandlers(m);
    addViewHandlers(m);
    addSliceHandlers(m);
    addPieceHandlers(m);
    addGatherHandlers(m);
    addQuantizeHandlers(m);
    addResizeHandlers(m);
    addEmbeddingHandlers(m);
    addNormHandlers(m);
    addAttentionHandlers(m);
    addContribHandlers(m);
    addMultiHeadHandlers(m);
    addPackedAttentionHandlers(m);
    addTopKHandlers(m);
    addOneHotHandlers(m);
    return m;
  }();
  return map;
}

Importer::Importer(const Model &model, const ImportOptions &options,
                   Symbols &symbols, MLIRContext &context)
    : model(model), symbols(symbols), builder(&context), options(options),
      context(context), sizes(symbols) {}

Location Importer::locationOf(const Node &node) {
  return NameLoc::get(builder.getStringAttr(node.name),
                      FileLineColLoc::get(&context, model.path, nodeIndex, 0));
}

//===----------------------------------------------------------------------===//
// What is known of a value
//===----------------------------------------------------------------------===//

const SymTensor *Importer::getSym(const std::string &name) {
  auto it = syms.find(name);
  if (it != syms.end())
    return &it->second;
  const Tensor *tensor = getConstant(name);
  if (!tensor)
    return nullptr;
  auto sym = toSymTensor(*tensor);
  return sym ? &(syms[name] = std::move(*sym)) : nullptr;
}

const SymElements *Importer::getElements(const std::string &name) {
  Value value = getValue(name);
  return value ? sizes.find(value) : nullptr;
}

const Tensor *Importer::getConstant(const std::string &name) {
  auto it = constants.find(name);
  return it == constants.end() ? nullptr : &it->second;
}

std::optional<SymShape> Importer::getShape(const std::string &name) {
  auto fromDims = [](const std::vector<int64_t> &dims) {
    return SymShape(dims.begin(), dims.end());
  };
  if (auto it = values.find(name); it != values.end())
    return getSymShape(it->second);
  if (auto it = syms.find(name); it != syms.end())
    return fromDims(it->second.dims);
  if (const Tensor *tensor = getConstant(name))
    return fromDims(tensor->dims);
  return std::nullopt;
}

int32_t Importer::getElemType(const std::string &name) {
  if (name.empty())
    return Undefined;
  if (auto it = values.find(name); it != values.end())
    return getElemTypeOf(elementType(it->second));
  if (auto it = syms.find(name); it != syms.end())
    return it->second.elemType;
  const Tensor *tensor = getConstant(name);
  return tensor ? tensor->elemType : Undefined;
}

static Value materializeSym(OpBuilder &builder, Location loc,
                            const SymTensor &sym) {
  Type element = getElementType(sym.elemType, builder.getContext());
  auto type = RankedTensorType::get(sym.dims, element);
  auto constants = sym.constants();
  if (!constants)
    return ShapeValueOp::create(builder, loc, type,
                                getExprsAttr(builder.getContext(), sym.values));
  SmallVector<APInt> values;
  for (int64_t value : *constants)
    values.push_back(APInt(element.getIntOrFloatBitWidth(),
                           static_cast<uint64_t>(value), true, true));
  return ConstantOp::create(builder, loc, DenseElementsAttr::get(type, values));
}

Value Importer::materialize(const Tensor &tensor) {
  Type element = getElementType(tensor.elemType, &context);
  auto type = RankedTensorType::get(tensor.dims, element);
  Location loc = NameLoc::get(builder.getStringAttr(tensor.name));
  if (tensor.file.empty() || tensor.bytes <= maxConstantBytes) {
    auto bytes = readTensor(tensor);
    if (!bytes || bytes->size() != tensor.bytes) {
      faults.push_back(bytes ? "tensor '" + tensor.name + "' has the wrong size"
                             : bytes.status().message());
      bytes = std::vector<uint8_t>(tensor.bytes);
    }
    return ConstantOp::create(builder, loc, getDenseAttr(*bytes, type));
  }
  auto place = WeightRefAttr::get(&context, builder.getStringAttr(tensor.file),
                                  tensor.offset, tensor.bytes, Type());
  return WeightOp::create(builder, loc, type,
                          builder.getStringAttr(tensor.name), place);
}

Value Importer::getValue(const std::string &name) {
  if (auto it = values.find(name); it != values.end())
    return it->second;
  Value value;
  if (const Tensor *tensor = getConstant(name))
    value = materialize(*tensor);
  else if (auto it = syms.find(name); it != syms.end())
    value = materializeSym(builder, NameLoc::get(builder.getStringAttr(name)),
                           it->second);
  if (value)
    values[name] = value;
  return value;
}

void Importer::setValue(const std::string &name, Value value) {
  values[name] = value;
}
void Importer::setSym(const std::string &name, SymTensor value) {
  syms[name] = std::move(value);
}
void Importer::setConstant(const std::string &name, Tensor value) {
  constants[name] = std::move(value);
}

void Importer::alias(const std::string &name, const std::string &source) {
  if (auto it = values.find(source); it != values.end())
    values[name] = it->second;
  if (auto it = syms.find(source); it != syms.end())
    syms[name] = it->second;
  if (auto it = unfolded.find(source); it != unfolded.end())
    unfolded[name] = it->second;
  if (auto it = constants.find(source); it != constants.end())
    constants[name] = it->second;
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

bool Importer::isPoisoned(const Node &node) const {
  return llvm::any_of(node.inputs, [&](const std::string &name) {
    return poisoned.count(name) != 0;
  });
}

void Importer::poison(const Node &node) {
  poisoned.insert(node.outputs.begin(), node.outputs.end());
}

/// That an operator is not supported, and what to do about it.
static std::string unsupported(const Node &node) {
  StringRef instead = whatInstead(node.domain, node.opType);
  if (instead.empty())
    instead = "export the model without it, or with it as a local function";
  return ("the operator is not supported; " + instead).str();
}

static std::string unknownOperator(const Node &node) {
  if (!whatInstead(node.domain, node.opType).empty())
    return unsupported(node);
  if (!node.opset)
    return "the model imports no opset of domain '" +
           (node.domain.empty() ? "ai.onnx" : node.domain) +
           "'; import it, define the operator as a local function of the "
           "model, or export the model without it";
  std::string similar = similarOperator(node.opType, node.domain);
  return "unknown operator" +
         (similar.empty() ? "; define it as a local function of the model, or "
                            "export the model without it"
                          : "; did you mean " + similar + "?");
}

/// Whether evaluation over symbolic sizes is all that the operator has.
static const Handler *findHandler(const Node &node) {
  const HandlerMap &map = getHandlers();
  auto it = map.find(node.domain + "::" + node.opType);
  return it == map.end() ? nullptr : &it->second;
}

static bool isConditional(const Node &node) {
  return node.domain.empty() && node.opType == "If";
}

/// Why no handler will do, as far as the node itself tells; else empty.
static std::string whyUnsupported(const Node &node) {
  if (node.isCall)
    return "";
  if (!node.schema)
    return unknownOperator(node);
  if (!node.problem.empty())
    return node.problem;
  if (!findHandler(node) && !isConditional(node))
    return unsupported(node);
  return "";
}

/// Of the nodes in the branches of a node that is not imported.
void Importer::listUnsupported(const Node &node) {
  for (const onnxfile::Attribute &attribute : node.attributes)
    if (attribute.graph)
      for (const Node &inner : attribute.graph->nodes) {
        if (std::string why = whyUnsupported(inner); !why.empty())
          problems.push_back({&inner, why});
        listUnsupported(inner);
      }
}

LogicalResult Importer::importIf(const Node &node) {
  NodeImport import(*this, node, locationOf(node));
  auto constant = import.constants(0, "condition");
  if (failed(constant)) {
    listUnsupported(node);
    return failure();
  }
  if (constant->size() != 1)
    return import.fail("expected a condition of one element, found " +
                       Twine(constant->size()));
  auto *branch = node.find((*constant)[0] ? "then_branch" : "else_branch");
  if (!branch || !branch->graph)
    return import.fail("the branch has no graph");
  const Graph &graph = *branch->graph;
  if (graph.outputs.size() != node.outputs.size())
    return import.fail("the branch has " + Twine(graph.outputs.size()) +
                       " outputs, expected " + Twine(node.outputs.size()));
  if (failed(importNodes(graph)))
    return failure();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (poisoned.count(graph.outputs[i].name))
      poisoned.insert(node.outputs[i]);
    alias(node.outputs[i], graph.outputs[i].name);
  }
  // Names of a branch end with it.
  auto forget = [&](const std::string &name) {
    values.erase(name);
    syms.erase(name);
    constants.erase(name);
    unfolded.erase(name);
  };
  for (const auto &[name, tensor] : graph.initializers)
    forget(name);
  for (const Node &inner : graph.nodes)
    for (const std::string &name : inner.outputs)
      if (!llvm::is_contained(node.outputs, name))
        forget(name);
  return success();
}

void Importer::importNode(const Node &node) {
  ++nodeIndex;
  bool isIf = isConditional(node);
  std::string why = whyUnsupported(node);
  std::vector<int32_t> types;
  for (const std::string &name : node.inputs)
    types.push_back(getElemType(name));
  if (why.empty() && !node.isBroken)
    why = checkTypes(node, types);
  if (!why.empty())
    problems.push_back({&node, why});
  if (!why.empty() || node.isBroken || isPoisoned(node)) {
    listUnsupported(node);
    return poison(node);
  }
  if (isIf) {
    if (failed(importIf(node)))
      poison(node);
    return;
  }

  NodeImport import(*this, node, locationOf(node));
  size_t before = problems.size();
  Block *block = builder.getInsertionBlock();
  Operation *last = block->empty() ? nullptr : &block->back();
  if (failed((*findHandler(node))(import)) && problems.size() == before)
    problems.push_back({&node, "cannot be imported"});
  if (problems.size() != before)
    return poison(node);

  // The ops' verifiers have the last word on what handlers made.
  std::string complaint;
  ScopedDiagnosticHandler capture(&context, [&](Diagnostic &diagnostic) {
    if (complaint.empty())
      complaint = diagnostic.str();
    return success();
  });
  Operation *op =
      last ? last->getNextNode() : (block->empty() ? nullptr : &block->front());
  SmallVector<Operation *> made;
  for (; op; op = op->getNextNode()) {
    made.push_back(op);
    if (failed(mlir::verify(op)))
      break;
  }
  if (!complaint.empty())
    problems.push_back({&node, complaint});
  else
    foldSizes(node, made);
  if (problems.size() != before)
    poison(node);
}

/// The types of shape arithmetic, and of the tables that it looks into.
static bool isSizeType(Type type) {
  return type.isInteger(64) || type.isInteger(32) || type.isInteger(8) ||
         type.isInteger(1);
}

/// Whether a value may be shape arithmetic that was not evaluated.
static bool isSmall(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getRank() <= 1 ||
         (type.hasStaticShape() && type.getNumElements() <= 1024);
}

/// Evaluates what a node made. Integers become known sizes; of others it is
/// noted why they do not.
void Importer::foldSizes(const Node &node, ArrayRef<Operation *> made) {
  sizes.clearReason();
  for (Operation *op : made)
    sizes.visit(op);
  for (const std::string &name : node.outputs) {
    auto it = values.find(name);
    if (it == values.end() || syms.count(name))
      continue;
    Type element = elementType(it->second);
    const SymElements *elements = sizes.find(it->second);
    if (elements && isSizeType(element)) {
      SymTensor sym;
      sym.elemType = getElemTypeOf(element);
      sym.dims = elements->dims;
      for (const SymElement &e : elements->values)
        sym.values.push_back(e.num);
      syms[name] = std::move(sym);
      values.erase(it);
      continue;
    }
    if (elements || !isSmall(it->second))
      continue;
    auto before = llvm::find_if(node.inputs, [&](const std::string &input) {
      return unfolded.count(input) != 0;
    });
    if (before != node.inputs.end())
      unfolded[name] = unfolded[*before];
    else if (!sizes.reason().empty())
      unfolded[name] = {&node, sizes.reason()};
  }
}

/// `ai.onnx::Add, opset 13`.
static std::string describe(const Node &node) {
  return (node.domain.empty() ? "ai.onnx" : node.domain) + "::" + node.opType +
         ", opset " + std::to_string(node.opset);
}

std::string Importer::whyUnknown(const std::string &name) const {
  auto it = unfolded.find(name);
  if (it == unfolded.end())
    return "";
  const Node &node = *it->second.node;
  return "evaluation over the sizes of the inputs stopped at node '" +
         node.name + "' (" + describe(node) + "): " + it->second.why;
}

/// Names that a node reads, also inside its sub-graphs.
static void forEachRead(const Node &node,
                        llvm::function_ref<void(const std::string &)> read) {
  for (const std::string &name : node.inputs)
    read(name);
  for (const onnxfile::Attribute &attribute : node.attributes)
    if (attribute.graph) {
      for (const Node &inner : attribute.graph->nodes)
        forEachRead(inner, read);
      for (const ValueInfo &output : attribute.graph->outputs)
        read(output.name);
    }
}

/// The SplitToSequence of whose result `node` is a SequenceAt, or null.
static const Node *findSplit(const Graph &graph, const Node &node) {
  if (!node.domain.empty() || node.opType != "SequenceAt" ||
      node.inputs.empty())
    return nullptr;
  for (const Node &other : graph.nodes)
    if (other.domain.empty() && other.opType == "SplitToSequence" &&
        llvm::is_contained(other.outputs, node.inputs[0]))
      return &other;
  return nullptr;
}

LogicalResult Importer::importNodes(const Graph &graph) {
  // A name with a value already is an input that overrides its initializer.
  for (const auto &[name, tensor] : graph.initializers)
    if (!values.count(name))
      setConstant(name, tensor);
  poisoned.insert(graph.broken.begin(), graph.broken.end());
  std::set<std::string> live;
  for (const ValueInfo &output : graph.outputs)
    live.insert(output.name);
  std::vector<bool> needed(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    needed[i] = llvm::any_of(graph.nodes[i].outputs, [&](auto &name) {
      return !name.empty() && live.count(name);
    });
    if (!needed[i])
      continue;
    // A piece of a split is read past the sequence, which is no value.
    const Node *split = findSplit(graph, graph.nodes[i]);
    if (split)
      live.insert(split->inputs.begin(), split->inputs.end());
    forEachRead(graph.nodes[i], [&](const std::string &name) {
      if (!split || name != graph.nodes[i].inputs[0])
        live.insert(name);
    });
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (needed[i])
      importNode(graph.nodes[i]);
  return success();
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

/// Ops that nothing uses, from the end: shape arithmetic that was needed as
/// sizes only.
static void eraseDead(Block *block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

bool Importer::checkOutputs(SmallVectorImpl<Value> &results) {
  bool good = true;
  for (const ValueInfo &output : model.graph.outputs) {
    Value value = getValue(output.name);
    Type declared = getElementType(output.elemType, &context);
    std::string why;
    if (!value)
      why = "has no value";
    else if (declared && declared != elementType(value))
      llvm::raw_string_ostream(why)
          << "declared as " << elemName(output.elemType)
          << ", found elements of type " << elementType(value);
    results.push_back(value);
    if (why.empty())
      continue;
    good = false;
    // What led to no value has been said.
    if (value || (problems.empty() && model.faults.empty() && faults.empty()))
      faults.push_back("graph output '" + output.name + "': " + why);
  }
  return good;
}

OwningOpRef<ModuleOp> Importer::run() {
  Location fileLoc = FileLineColLoc::get(&context, model.path, 0, 0);
  OwningOpRef<ModuleOp> module = ModuleOp::create(fileLoc);
  builder.setInsertionPointToEnd(module->getBody());
  auto function = func::FuncOp::create(builder, fileLoc, "main",
                                       builder.getFunctionType({}, {}));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  // Everything that can be said of a file is said at once.
  checkKeptInputs();
  if (declareInputs(function))
    applyDimOptions();
  (void)importNodes(model.graph);
  mergeRoles();
  SmallVector<Value> results;
  if (!checkOutputs(results) || !problems.empty() || !faults.empty())
    return {};
  func::ReturnOp::create(builder, fileLoc, results);
  function.setType(builder.getFunctionType(block->getArgumentTypes(),
                                           ValueRange(results).getTypes()));
  eraseDead(block);
  annotate(*module, function);
  return module;
}
