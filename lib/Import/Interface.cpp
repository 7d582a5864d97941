//===- Interface.cpp - Inputs, outputs, roles and sizes of a model --------===//

#include "Importer.h"

#include "fusion/Dialect/Fusion/Roles.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;

/// As fusion-assign-roles will decide, from names alone; --role overrides.
std::string Importer::roleOf(const Input &input) const {
  for (const auto &[role, target] : options.roles)
    if (target == input.name)
      return canonicalRole(role).str();
  StringRef role = inputRoleByName(input.name, input.shape.size());
  bool taken = llvm::any_of(options.roles, [&](const auto &option) {
    return isSingleRole(role) && canonicalRole(option.first) == role;
  });
  return taken ? "" : role.str();
}

/// An initializer is the default of the input of its name, which a caller may
/// override; weights are constants unless --keep-input says otherwise.
bool Importer::staysInput(const std::string &name) const {
  return llvm::is_contained(options.keptInputs, name) ||
         llvm::is_contained(options.keptInputs, "all");
}

/// Names in --keep-input that are no inputs with an initializer.
bool Importer::checkKeptInputs() {
  for (const std::string &name : options.keptInputs) {
    bool isInput = llvm::any_of(model.graph.inputs, [&](const auto &info) {
      return info.name == name;
    });
    if (name == "all" || (isInput && model.graph.initializers.count(name)))
      continue;
    faults.push_back(
        "--keep-input " + name + ": " +
        (isInput ? "the input has no initializer: it is one in any case"
                 : "no graph input has that name"));
  }
  return faults.empty();
}

bool Importer::declareInputs(func::FuncOp function) {
  for (const ValueInfo &info : model.graph.inputs)
    for (const Dim &dim : info.dims)
      symbols.addPlainName(dim.param);
  for (const ValueInfo &info : model.graph.inputs) {
    if (model.graph.initializers.count(info.name) && !staysInput(info.name))
      continue;
    // What is wrong with one input is no reason to say nothing of the others.
    auto refuse = [&](const Twine &why) {
      faults.push_back(("graph input '" + info.name + "': " + why).str());
      poisoned.insert(info.name);
    };
    Type element = getElementType(info.elemType, &context);
    auto negative = llvm::find_if(
        info.dims, [](const Dim &dim) { return dim.value && *dim.value < 0; });
    if (!element)
      refuse(info.elemType == Undefined
                 ? Twine("not a tensor")
                 : "element type " + elemName(info.elemType) +
                       " is not supported");
    else if (!info.hasShape)
      refuse("its rank is unknown");
    else if (info.dims.size() > 16)
      refuse("more than 16 dimensions");
    else if (negative != info.dims.end())
      refuse("negative size " + Twine(*negative->value));
    if (poisoned.count(info.name))
      continue;
    SymShape shape;
    for (auto [axis, dim] : llvm::enumerate(info.dims)) {
      shape.push_back(
          dim.value ? SymExpr(*dim.value)
                    : symbols.declare(dim.param, info.name + "_dim" +
                                                     std::to_string(axis)));
    }
    RankedTensorType type = getTensorType(shape, element);
    if (numBytes(type).overflowed()) {
      refuse("absurdly large");
      continue;
    }
    inputs.push_back({info.name, info.elemType, shape});
    setValue(info.name,
             function.getBody().front().addArgument(
                 type, NameLoc::get(builder.getStringAttr(info.name))));
  }
  return faults.empty();
}

/// The size that `--dim KEY=...` speaks of.
std::optional<SymExpr> Importer::findDim(const std::string &key) {
  if (symbols.isDeclared(key))
    return symbols.resolve(SymExpr::symbol(key));
  size_t open = key.rfind('[');
  if (open != std::string::npos && key.back() == ']') {
    int64_t axis;
    if (StringRef(key).slice(open + 1, key.size() - 1).getAsInteger(10, axis))
      return std::nullopt;
    for (const Input &input : inputs)
      if (input.name == key.substr(0, open))
        if (auto at = normalizeAxis(axis, input.shape.size()))
          return symbols.resolve(input.shape[*at]);
    return std::nullopt;
  }
  const std::pair<const char *, std::pair<const char *, size_t>> roles[] = {
      {"batch", {"token_ids", 0}},
      {"seq", {"token_ids", 1}},
      {"past", {"past_key", 2}}};
  for (const auto &[role, place] : roles)
    if (key == role)
      for (const Input &input : inputs)
        if (roleOf(input) == place.first && place.second < input.shape.size())
          return symbols.resolve(input.shape[place.second]);
  return std::nullopt;
}

bool Importer::applyDimOptions() {
  for (const DimOption &option : options.dims) {
    auto refuse = [&](const Twine &why) {
      faults.push_back(("--dim " + option.key + ": " + why).str());
    };
    auto size = findDim(option.key);
    if (!size) {
      std::set<std::string> known;
      for (const Input &input : inputs)
        for (const SymExpr &e : input.shape)
          for (const std::string &symbol : e.symbols())
            known.insert(symbol);
      refuse("no such size; the symbols of the model are " +
             (known.empty() ? "none" : llvm::join(known, ", ")) +
             ", and INPUT[AXIS], batch, seq and past are understood");
      continue;
    }
    if (auto constant = size->asConstant()) {
      if (*constant < option.lower || *constant > option.upper)
        refuse("the size is " + Twine(*constant) + " in the model");
      continue;
    }
    if (option.lower == option.upper) {
      if (!symbols.unify(*size, SymExpr(option.lower)))
        refuse("the size cannot be " + Twine(option.lower));
      continue;
    }
    auto symbol = size->asSymbol();
    if (!symbol) {
      refuse("the size is " + size->str() + "; give bounds to its symbols");
      continue;
    }
    bounds[*symbol] = {option.lower, option.upper};
    symbols.setLeast(*symbol, option.lower);
  }
  return faults.empty();
}

/// A mask of past and new tokens whose length has a name of its own: what the
/// roles say, where no operator does.
void Importer::mergeRoles() {
  auto seq = findDim("seq"), past = findDim("past");
  const Input *mask = nullptr;
  for (const Input &input : inputs)
    if (roleOf(input) == "attention_mask" && input.shape.size() == 2)
      mask = &input;
  if (!mask || !seq)
    return;
  SymExpr length = symbols.resolve(mask->shape[1]);
  auto symbol = length.asSymbol();
  if (!symbol)
    return;
  for (const Input &input : inputs)
    for (const SymExpr &size : input.shape)
      if (&input != mask && symbols.resolve(size).symbols().count(*symbol))
        return;
  symbols.unify(length, past ? *seq + *past : *seq);
}

static DictionaryAttr
boundsAttr(Builder &builder, const Symbols &symbols,
           const std::set<std::string> &used,
           std::map<std::string, std::array<int64_t, 2>> bounds) {
  SmallVector<NamedAttribute> entries;
  for (const std::string &symbol : used) {
    auto [it, inserted] =
        bounds.try_emplace(symbol, std::array<int64_t, 2>{0, INT64_MAX});
    auto limit = symbols.upperBounds().find(symbol);
    if (limit != symbols.upperBounds().end())
      it->second[1] = std::min(it->second[1], limit->second);
    auto least = symbols.lowerBounds().find(symbol);
    if (least != symbols.lowerBounds().end())
      it->second[0] = std::max(it->second[0], least->second);
    entries.push_back(
        builder.getNamedAttr(symbol, builder.getDenseI64ArrayAttr(it->second)));
  }
  return builder.getDictionaryAttr(entries);
}

void Importer::annotate(ModuleOp module, func::FuncOp function) {
  std::set<std::string> used;
  for (auto [index, input] : llvm::enumerate(inputs)) {
    function.setArgAttr(index, FusionDialect::kNameAttr,
                        builder.getStringAttr(input.name));
    for (const SymExpr &size : input.shape)
      used.merge(symbols.resolve(size).symbols());
  }
  for (auto [index, output] : llvm::enumerate(model.graph.outputs))
    function.setResultAttr(index, FusionDialect::kNameAttr,
                           builder.getStringAttr(output.name));
  module->setAttr(FusionDialect::kFileAttr, builder.getStringAttr(model.path));
  module->setAttr("fusion.graph_name", builder.getStringAttr(model.graph.name));
  auto opset = model.opsets.find("");
  if (opset != model.opsets.end())
    module->setAttr("fusion.opset", builder.getI64IntegerAttr(opset->second));
  module->setAttr(FusionDialect::kDimsAttr,
                  boundsAttr(builder, symbols, used, bounds));

  SmallVector<NamedAttribute> roles;
  for (const char *role : {"batch", "past", "seq"})
    if (auto size = findDim(role))
      roles.push_back(builder.getNamedAttr(role, getExprAttr(&context, *size)));
  if (!roles.empty())
    module->setAttr("fusion.dim_roles", builder.getDictionaryAttr(roles));

  SmallVector<mlir::Attribute> guards;
  for (const auto &[symbol, value] : symbols.substitutions())
    guards.push_back(builder.getStringAttr(symbol + " == " + value.str()));
  for (const std::string &guard : symbols.guards())
    guards.push_back(builder.getStringAttr(guard));
  if (!guards.empty())
    module->setAttr(FusionDialect::kGuardsAttr, builder.getArrayAttr(guards));
}
