//===- LowerToLaunches.cpp - Functions of groups to programs --------------===//

#include "Lowering.h"
#include "fusion/Dialect/Fusion/MainFunction.h"
#include "fusion/Kernels/HostLaunch.h"
#include "fusion/Kernels/LowBit.h"

namespace fusion {
#define GEN_PASS_DEF_LOWERTOLAUNCHES
#include "fusion/Plan/Passes.h.inc"
} // namespace fusion

using namespace mlir;
using namespace fusion;
using namespace fusion::plan;

namespace {

/// What the functions share.
struct Shared {
  explicit Shared(ModuleOp module)
      : constants(module), kernels(module), symbols(module) {}

  const kernels::HostLaunch &launchOf(KernelOp kernel) {
    auto [it, inserted] = launches.try_emplace(kernel);
    if (inserted)
      it->second = kernels::getHostLaunch(kernel);
    return it->second;
  }
  ConstantPool constants;
  KernelTable kernels; ///< for copies
  SymbolTable symbols;

private:
  llvm::DenseMap<Operation *, kernels::HostLaunch> launches;
};

/// The input of an append in place whose memory result `index` is.
std::optional<unsigned> getInPlaceInput(GroupOp group, unsigned index) {
  Value value = group.getYield().getValues()[index];
  auto append = value.getDefiningOp<KvAppendOp>();
  if (!append || !hasStorage(append.getType()))
    return std::nullopt;
  auto past = dyn_cast<BlockArgument>(append.getPast());
  return past ? std::optional(past.getArgNumber()) : std::nullopt;
}

class FunctionLowering {
public:
  FunctionLowering(func::FuncOp function, Shared &shared)
      : function(function), shared(shared), builder(function.getContext()),
        bufferType(BufferType::get(function.getContext())) {}

  FailureOr<ProgramOp> lower() {
    createProgram();
    bindArguments();
    chooseOutputs();
    if (failed(lowerBody())) {
      program.erase();
      return failure();
    }
    annotateLaunches(program, shared.symbols);
    return program;
  }

private:
  LogicalResult lowerBody() {
    for (Operation &op : function.front().without_terminator())
      if (failed(lowerOp(&op)))
        return failure();
    return copyOutputs();
  }

  void createProgram() {
    auto bucket =
        function->getAttrOfType<DictionaryAttr>(FusionDialect::kBucketAttr);
    auto number = [&](StringRef key, int64_t otherwise) {
      auto value = bucket ? bucket.getAs<IntegerAttr>(key) : IntegerAttr();
      return value && value.getInt() >= 0 ? value.getInt() : otherwise;
    };
    auto rows = bucket ? bucket.getAs<StringAttr>("rows") : StringAttr();
    auto fixed =
        bucket ? bucket.getAs<DictionaryAttr>("fixed") : DictionaryAttr();
    program = ProgramOp::create(
        builder, function.getLoc(), function.getName(),
        rows ? rows.getValue() : "1", number("min", 0),
        number("max", INT64_MAX), fixed && !fixed.empty() ? fixed : nullptr,
        function->getAttrOfType<StringAttr>("fusion.set"),
        function->getAttrOfType<StringAttr>(FusionDialect::kDeviceAttr),
        nullptr);
    builder.setInsertionPointToStart(&program.getBody().emplaceBlock());
  }

  void bindArguments() {
    int64_t index = 0;
    for (BlockArgument argument : function.getArguments()) {
      auto state = getStateIndex(function, argument.getArgNumber());
      if (state)
        buffers[argument] =
            StateOp::create(builder, argument.getLoc(), bufferType, *state);
      else
        buffers[argument] = plan::InputOp::create(builder, argument.getLoc(),
                                                  bufferType, index++);
    }
  }

  /// The value whose bytes `value` are, behind contiguous reshapes.
  static Value getRoot(Value value) {
    while (auto reshape = value.getDefiningOp<ReshapeOp>())
      value = reshape.getInput();
    return value;
  }

  /// A result of a group is written where the function returns it first;
  /// whatever else is returned is copied.
  void chooseOutputs() {
    Operation *terminator = function.front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      Value output = plan::OutputOp::create(builder, value.getLoc(), bufferType,
                                            static_cast<int64_t>(i));
      outputs.push_back(output);
      Value root = getRoot(value);
      auto group = root.getDefiningOp<GroupOp>();
      unsigned result = group ? cast<OpResult>(root).getResultNumber() : 0;
      if (group && !getInPlaceInput(group, result) && !buffers.count(root))
        buffers[root] = output;
      else
        copies.push_back(i);
    }
  }

  LogicalResult lowerOp(Operation *op) {
    if (auto group = dyn_cast<GroupOp>(op))
      return lowerGroup(group);
    if (isa<fusion::WeightOp, fusion::ConstantOp>(op))
      return success(); // bound when used
    if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      if (hasStorage(reshape.getInput().getType()))
        return op->emitOpError("cannot alias a tensor with a storage shape; "
                               "expected the reshape inside a group");
      return success(); // resolved when used
    }
    if (auto slice = dyn_cast<SliceOp>(op))
      return lowerSlice(slice);
    return op->emitOpError("expected groups, constants and contiguous "
                           "reshapes only; run the fuse pipeline");
  }

  /// Elements that lie together: only the first axis longer than 1 is cut.
  LogicalResult lowerSlice(SliceOp slice) {
    SymShape from = getSymShape(slice.getInput()), to = getSymShape(slice);
    SymShape starts = getExprs(slice.getStarts());
    SymShape strides = getStrides(from);
    SymExpr offset = 0;
    bool open = true; // all axes so far have one element in the result
    for (auto [axis, step] : llvm::enumerate(slice.getSteps())) {
      bool whole = to[axis] == from[axis] && starts[axis] == SymExpr(0);
      if (!open && !whole)
        return slice.emitOpError("is not contiguous; expected it in a group");
      if (step != 1 && to[axis] != SymExpr(1))
        return slice.emitOpError("has a step; expected it in a group");
      open &= to[axis] == SymExpr(1);
      offset = offset + starts[axis] * strides[axis];
    }
    unsigned bits = elementBits(elementType(slice));
    if (bits % 8 || hasStorage(slice.getInput().getType()))
      return slice.emitOpError("is no view; expected it in a group");
    auto source = getBuffer(slice.getInput());
    if (failed(source))
      return failure();
    SymExpr bytes = offset * SymExpr(bits / 8);
    buffers[slice] = bytes == SymExpr(0)
                         ? *source
                         : ViewOp::create(builder, slice.getLoc(), bufferType,
                                          *source, bytes.str())
                               .getResult();
    return success();
  }

  FailureOr<Value> getBuffer(Value value, StringRef layout = "") {
    Value root = getRoot(value);
    if (auto it = buffers.find(root); it != buffers.end())
      return it->second;
    plan::ConstantOp constant = shared.constants.get(root, layout);
    if (!constant) {
      emitError(value.getLoc(), "value of type ")
          << value.getType() << " has no buffer";
      return failure();
    }
    Value &buffer = weights[constant];
    if (!buffer)
      buffer = plan::WeightOp::create(builder, value.getLoc(), bufferType,
                                      constant.getSymName());
    return buffers[root] = buffer;
  }

  LogicalResult lowerGroup(GroupOp group) {
    auto kernel = group->getAttrOfType<FlatSymbolRefAttr>(kKernelAttrName);
    auto sizes = group->getAttrOfType<ArrayAttr>(kSizesAttrName);
    if (!kernel || !sizes)
      return group.emitOpError("is not bound to a kernel; run "
                               "fusion-outline-kernels");
    if (!llvm::any_of(group.getOutputs(),
                      [&](Value v) { return buffers.count(v); }) &&
        shared.constants.evaluate(group))
      return success();
    auto body = shared.symbols.lookup<KernelOp>(kernel.getValue());
    SmallVector<Value> inputs, results;
    for (auto [i, input] : llvm::enumerate(group.getInputs())) {
      auto buffer = getBuffer(input, kernels::getLayoutName(body, i));
      if (failed(buffer))
        return failure();
      inputs.push_back(*buffer);
    }
    for (OpResult output : group->getResults())
      results.push_back(getResult(group, output, inputs));
    createLaunch(group.getLoc(), body, inputs, results, getExprs(sizes),
                 getSite(group));
    return success();
  }

  /// Where a group writes: an output, the cache that it appends to, or a slice
  /// of the arena.
  Value getResult(GroupOp group, OpResult output, ArrayRef<Value> inputs) {
    Value &buffer = buffers[output];
    if (buffer)
      return buffer;
    if (auto input = getInPlaceInput(group, output.getResultNumber())) {
      return buffer = inputs[*input];
    }
    std::string value = getValueName(group, output.getResultNumber());
    Type type = logicalType(output.getType());
    return buffer = AllocOp::create(
               builder, group.getLoc(), bufferType,
               builder.getStringAttr(numBytes(type).str()), TypeAttr::get(type),
               value.empty() ? StringAttr() : builder.getStringAttr(value),
               IntegerAttr(), IntegerAttr());
  }

  void createLaunch(Location loc, KernelOp kernel, ArrayRef<Value> inputs,
                    ArrayRef<Value> results, const SymShape &sizes,
                    StringRef site) {
    const kernels::HostLaunch &host = shared.launchOf(kernel);
    SymbolMap values;
    for (auto [i, size] : llvm::enumerate(sizes))
      values["d" + std::to_string(i)] = size;
    auto text = [&](const SymExpr &e) {
      return builder.getStringAttr(e.substitute(values).str());
    };
    SmallVector<int32_t> none(inputs.size() + results.size(), 0);
    LaunchOp::create(builder, loc, kernel.getSymName(), inputs, results,
                     builder.getDenseI32ArrayAttr(none),
                     builder.getDenseI32ArrayAttr(none),
                     getExprsAttr(builder.getContext(), sizes), text(host.grid),
                     text(host.grain), text(host.scratchBytes), /*chain=*/false,
                     /*programmatic=*/false,
                     site.empty() ? StringAttr() : builder.getStringAttr(site));
  }

  LogicalResult copyOutputs() {
    Operation *terminator = function.front().getTerminator();
    for (unsigned i : copies) {
      Value value = terminator->getOperand(i);
      if (hasStorage(value.getType()))
        return function.emitError("result ")
               << i << " is a session state; it cannot be an output";
      auto source = getBuffer(value);
      if (failed(source))
        return failure();
      if (elementBits(elementType(value)) % 8)
        return function.emitError("result ")
               << i << " of type " << value.getType()
               << " would need a copy of packed elements";
      KernelOp kernel = shared.kernels.getCopy(elementType(value));
      createLaunch(value.getLoc(), kernel, *source, outputs[i],
                   {numElements(value.getType())}, nameOf(value.getLoc()));
    }
    return success();
  }

  func::FuncOp function;
  Shared &shared;
  OpBuilder builder;
  Type bufferType;
  ProgramOp program;
  llvm::DenseMap<Value, Value> buffers; ///< of tensors behind reshapes
  llvm::DenseMap<Operation *, Value> weights;
  SmallVector<Value> outputs;
  SmallVector<unsigned> copies; ///< results that have another home
};

/// Kernels that only Link evaluates need no code, others need it for the
/// devices of the programs that launch them.
void markKernels(ModuleOp module) {
  Builder builder(module.getContext());
  llvm::DenseMap<StringAttr, llvm::SmallSetVector<StringRef, 2>> devices;
  bool anyCard = false;
  for (ProgramOp program : module.getOps<ProgramOp>()) {
    StringRef device = program.getDevice().value_or("host");
    anyCard |= device != "host";
    for (LaunchOp launch : program.getBody().getOps<LaunchOp>())
      devices[launch.getKernelAttr().getAttr()].insert(device);
  }
  for (KernelOp kernel : module.getOps<KernelOp>()) {
    auto it = devices.find(kernel.getSymNameAttr());
    if (it == devices.end())
      kernel->setAttr(FusionDialect::kCompileTimeAttr, builder.getUnitAttr());
    else if (anyCard)
      kernel->setAttr(FusionDialect::kDevicesAttr,
                      builder.getStrArrayAttr(it->second.getArrayRef()));
  }
}

struct LowerToLaunches final
    : fusion::impl::LowerToLaunchesBase<LowerToLaunches> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    if (functions.empty()) {
      module.emitError("expected a function to plan");
      return signalPassFailure();
    }
    if (llvm::any_of(functions, [](func::FuncOp function) {
          return failed(checkGraph(function));
        }))
      return signalPassFailure();
    auto model = buildModel(module, functions);
    if (failed(model))
      return signalPassFailure();
    Shared shared(module);
    SmallVector<ProgramOp> programs;
    bool ok = true;
    for (func::FuncOp function : functions) {
      auto program = FunctionLowering(function, shared).lower();
      ok &= succeeded(program);
      if (succeeded(program))
        programs.push_back(*program);
    }
    for (func::FuncOp function : functions)
      shared.symbols.erase(function);
    for (ProgramOp program : programs)
      shared.symbols.insert(program);
    dropForeignValues(programs);
    sortOps(module, *model);
    markKernels(module);
    if (!ok)
      signalPassFailure();
  }

  /// Model, constants, kernels, programs: the order of a dump.
  static void sortOps(ModuleOp module, ModelOp model) {
    Block *block = module.getBody();
    SmallVector<Operation *> constants, rest;
    for (Operation &op : *block)
      if (isa<plan::ConstantOp>(op))
        constants.push_back(&op);
    Operation *last = model;
    for (Operation *op : constants) {
      op->moveAfter(last);
      last = op;
    }
    for (ProgramOp program :
         llvm::make_early_inc_range(module.getOps<ProgramOp>()))
      rest.push_back(program);
    for (Operation *op : rest)
      op->moveBefore(block, block->end());
  }
};
} // namespace
