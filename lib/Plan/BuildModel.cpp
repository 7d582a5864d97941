//===- BuildModel.cpp - Symbols, inputs, outputs, states, guards ----------===//

#include "Lowering.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::plan;

std::optional<int64_t> fusion::getStateIndex(func::FuncOp function,
                                             unsigned argument) {
  auto index = function.getArgAttrOfType<IntegerAttr>(
      argument, FusionDialect::kStateAttr);
  return index ? std::optional(index.getInt()) : std::nullopt;
}

std::optional<int64_t> fusion::getLengthAxis(Type type) {
  SymShape shape = getSymShape(type), storage = getStorageShape(type);
  for (auto [axis, size] : llvm::enumerate(shape))
    if (size != storage[axis])
      return static_cast<int64_t>(axis);
  return std::nullopt;
}

namespace {

size_t countFixed(func::FuncOp function) {
  auto bucket =
      function->getAttrOfType<DictionaryAttr>(FusionDialect::kBucketAttr);
  auto fixed = bucket ? bucket.getAs<DictionaryAttr>("fixed") : nullptr;
  return fixed ? fixed.size() : 0;
}

class ModelBuilder {
public:
  ModelBuilder(ModuleOp module, ArrayRef<func::FuncOp> functions)
      : module(module), functions(functions), builder(module.getContext()),
        general(*llvm::min_element(functions, [](auto a, auto b) {
          return countFixed(a) < countFixed(b);
        })) {}

  FailureOr<ModelOp> build() {
    auto name = module->getAttrOfType<StringAttr>("fusion.graph_name");
    builder.setInsertionPointToStart(module.getBody());
    model = ModelOp::create(builder, general.getLoc(),
                            name ? name.getValue() : general.getName());
    builder.setInsertionPointToStart(&model.getBody().emplaceBlock());
    declareArguments();
    declareResults();
    if (failed(declareStates()))
      return failure();
    builder.setInsertionPointToStart(&model.getBody().front());
    if (failed(declareSymbols()))
      return failure();
    builder.setInsertionPointToEnd(&model.getBody().front());
    declareGuards();
    model.setAppended(findAppended().str());
    return model;
  }

private:
  StringAttr nameOf(DictionaryAttr attrs, const Twine &otherwise) {
    auto name =
        attrs ? attrs.getAs<StringAttr>(FusionDialect::kNameAttr) : nullptr;
    return name ? name : builder.getStringAttr(otherwise);
  }

  void declareArguments() {
    for (BlockArgument argument : general.getArguments()) {
      unsigned i = argument.getArgNumber();
      if (getStateIndex(general, i))
        continue;
      DictionaryAttr attrs = general.getArgAttrDict(i);
      inputs.push_back(argument.getType());
      ModelInputOp::create(builder, argument.getLoc(),
                           nameOf(attrs, "input" + Twine(i)),
                           TypeAttr::get(argument.getType()), roleOf(attrs));
    }
  }

  StringAttr roleOf(DictionaryAttr attrs) {
    return attrs ? attrs.getAs<StringAttr>(FusionDialect::kRoleAttr) : nullptr;
  }

  void declareResults() {
    for (auto [i, type] : llvm::enumerate(general.getResultTypes())) {
      DictionaryAttr attrs = general.getResultAttrDict(i);
      ModelOutputOp::create(builder, general.getLoc(),
                            nameOf(attrs, "output" + Twine(i)),
                            TypeAttr::get(logicalType(type)), roleOf(attrs));
    }
  }

  LogicalResult declareStates() {
    SmallVector<std::pair<int64_t, BlockArgument>> states;
    for (BlockArgument argument : general.getArguments())
      if (auto index = getStateIndex(general, argument.getArgNumber()))
        states.push_back({*index, argument});
    llvm::sort(states, [](auto &a, auto &b) { return a.first < b.first; });
    for (auto [i, state] : llvm::enumerate(states)) {
      auto [index, argument] = state;
      Type type = argument.getType();
      auto axis = getLengthAxis(type);
      if (index != static_cast<int64_t>(i) || !hasStorage(type) || !axis)
        return general.emitError("state ")
               << index << " of type " << type
               << ": expected states numbered from 0, each with a storage "
                  "shape that has room for more tokens";
      SymShape storage = getStorageShape(type);
      if (auto capacity = storage[*axis].asConstant())
        model.setMaxContext(*capacity);
      DictionaryAttr attrs = general.getArgAttrDict(argument.getArgNumber());
      ModelStateOp::create(
          builder, argument.getLoc(), nameOf(attrs, "state" + Twine(index)),
          TypeAttr::get(getTensorType(storage, elementType(type))),
          builder.getI64IntegerAttr(*axis));
    }
    return success();
  }

  /// Tokens that a run appends to the states.
  SymExpr findAppended() {
    SymExpr appended = 0;
    general.walk([&](KvAppendOp append) {
      if (hasStorage(append.getType()))
        appended = getSymShape(append.getUpdate())[append.getAxis()];
    });
    return appended;
  }

  std::pair<int64_t, int64_t> boundsOf(StringRef name, int64_t lower) {
    auto dims = module->getAttrOfType<DictionaryAttr>(FusionDialect::kDimsAttr);
    Attribute bounds = dims ? dims.get(name) : Attribute();
    if (auto pair = dyn_cast_or_null<DenseI64ArrayAttr>(bounds);
        pair && pair.size() == 2)
      return {pair[0], pair[1]};
    if (auto pair = dyn_cast_or_null<ArrayAttr>(bounds);
        pair && pair.size() == 2)
      return {cast<IntegerAttr>(pair[0]).getInt(),
              cast<IntegerAttr>(pair[1]).getInt()};
    return {lower, INT64_MAX};
  }

  LogicalResult declareSymbols() {
    for (auto [input, type] : llvm::enumerate(inputs))
      for (auto [axis, size] : llvm::enumerate(getSymShape(type))) {
        auto name = size.asSymbol();
        if (!name || !declared.insert(builder.getStringAttr(*name)))
          continue;
        auto [lower, upper] = boundsOf(*name, 0);
        SymbolOp::create(builder, general.getLoc(), *name,
                         builder.getI64IntegerAttr(input),
                         builder.getI64IntegerAttr(axis), lower, upper);
      }
    auto cached = module->getAttrOfType<StringAttr>("fusion.cached_length");
    if (cached && declared.insert(cached)) {
      auto [lower, upper] = boundsOf(cached, 0);
      if (model.getMaxContext() > 0)
        upper = std::min(upper, model.getMaxContext());
      SymbolOp::create(builder, general.getLoc(), cached, IntegerAttr(),
                       IntegerAttr(), builder.getI64IntegerAttr(lower),
                       builder.getI64IntegerAttr(upper));
    }
    for (func::FuncOp function : functions)
      for (const std::string &name : collectSymbols(function))
        if (!declared.contains(builder.getStringAttr(name)))
          return function.emitError("size '")
                 << name
                 << "' is no dimension of an input; expected every symbolic "
                    "size to be an input's dimension or the cached length";
    return success();
  }

  /// `A == B` and `A <= B` over declared symbols. A guard over a symbol that
  /// was replaced is implied by the inputs' shapes, which are checked anyway.
  void declareGuards() {
    auto guards = module->getAttrOfType<ArrayAttr>(FusionDialect::kGuardsAttr);
    if (!guards)
      return;
    for (auto guard : guards.getAsRange<StringAttr>()) {
      StringRef text = guard.getValue();
      bool atMost = text.contains(" <= ");
      auto [leftText, rightText] = text.split(atMost ? " <= " : " == ");
      auto left = SymExpr::parse(leftText.str());
      auto right = SymExpr::parse(rightText.str());
      if (!left || !right || !areDeclared(*left) || !areDeclared(*right))
        continue;
      if (atMost) // a <= b is min(a, b) == a
        right = std::exchange(left, SymExpr::min(*left, *right));
      GuardOp::create(builder, general.getLoc(), left->str(), right->str(),
                      "assumed of the sizes: " + text.str());
    }
  }

  bool areDeclared(const SymExpr &expr) {
    for (const std::string &name : expr.symbols())
      if (!declared.contains(builder.getStringAttr(name)))
        return false;
    return true;
  }

  ModuleOp module;
  ArrayRef<func::FuncOp> functions;
  OpBuilder builder;
  func::FuncOp general;
  ModelOp model;
  SmallVector<Type> inputs;
  llvm::SmallSetVector<StringAttr, 8> declared; ///< symbols
};

} // namespace

FailureOr<ModelOp> fusion::buildModel(ModuleOp module,
                                      ArrayRef<func::FuncOp> functions) {
  return ModelBuilder(module, functions).build();
}
