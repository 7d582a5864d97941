//===- BuildModel.cpp - Planned IR as an artifact's model -----------------===//

#include "WeightBytes.h"

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Link/Link.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::plan;
using artifact::BufferRef;

namespace {

std::vector<SymExpr> toVector(const SymShape &shape) {
  return {shape.begin(), shape.end()};
}

artifact::DType dtypeOf(Type tensor) {
  return *getDType(elementType(tensor)); // verified by the dialect
}

artifact::Role roleOf(std::optional<StringRef> name) {
  using artifact::Role;
  for (unsigned i = 0; i <= static_cast<unsigned>(Role::TokenCounts); ++i)
    if (name == StringRef(artifact::name(static_cast<Role>(i))))
      return static_cast<Role>(i);
  return Role::None;
}

std::string textOf(Attribute attr) {
  std::string text;
  llvm::raw_string_ostream os(text);
  attr.print(os);
  return text;
}

class ModelBuilder {
public:
  ModelBuilder(ModuleOp module, ArrayRef<kernels::CompiledImage> images,
               const LinkOptions &options)
      : module(module), images(images) {
    model.producer = options.producer;
    model.options = options.options;
    model.explain = options.explain;
  }

  FailureOr<artifact::Model> build() {
    auto models = module.getOps<ModelOp>();
    if (models.empty() || module.getOps<ProgramOp>().empty())
      return module.emitError("expected planned IR: a plan.model and a "
                              "plan.program; run the plan pipeline");
    addSignature(*models.begin());
    addWeights();
    for (const kernels::CompiledImage &image : images) {
      artifact::Image &entry = model.images.emplace_back();
      entry.target = image.target;
      entry.bytes = image.bytes.size();
    }
    if (failed(addKernels()))
      return failure();
    for (ProgramOp program : module.getOps<ProgramOp>())
      addProgram(program);
    return std::move(model);
  }

private:
  void addSignature(ModelOp op) {
    model.name = op.getName();
    model.maxContext = op.getMaxContext();
    model.appended = getExpr(op.getAppendedAttr());
    for (Operation &part : op.getBody().front()) {
      if (auto symbol = dyn_cast<SymbolOp>(part))
        addSymbol(symbol);
      else if (auto input = dyn_cast<ModelInputOp>(part))
        model.inputs.push_back(
            tensor(input.getName(), input.getTensor(), input.getRole()));
      else if (auto output = dyn_cast<ModelOutputOp>(part))
        model.outputs.push_back(
            tensor(output.getName(), output.getTensor(), output.getRole()));
      else if (auto state = dyn_cast<ModelStateOp>(part))
        addState(state);
      else if (auto guard = dyn_cast<GuardOp>(part))
        model.guards.push_back({getExpr(guard.getLeftAttr()),
                                getExpr(guard.getRightAttr()),
                                guard.getReason().str()});
    }
  }

  void addSymbol(SymbolOp op) {
    artifact::Symbol &symbol = model.symbols.emplace_back();
    symbol.name = op.getName();
    symbol.lower = op.getLower();
    symbol.upper = op.getUpper();
    if (auto input = op.getInput()) {
      symbol.input = static_cast<uint32_t>(*input);
      symbol.axis = static_cast<uint32_t>(*op.getAxis());
    } else {
      symbol.source = artifact::Symbol::Source::CachedLength;
    }
  }

  static artifact::TensorInfo tensor(StringRef name, Type type,
                                     std::optional<StringRef> role) {
    return {name.str(), dtypeOf(type), toVector(getSymShape(type)),
            roleOf(role)};
  }

  void addState(ModelStateOp op) {
    artifact::State &state = model.states.emplace_back();
    state.name = op.getName();
    state.type = dtypeOf(op.getTensor());
    state.storage = toVector(getSymShape(op.getTensor()));
    state.lengthAxis = static_cast<int32_t>(op.getLengthAxis());
  }

  /// Constants that no launch reads (sources of evaluated ones) stay out.
  void addWeights() {
    llvm::DenseSet<StringAttr> used;
    module.walk([&](plan::WeightOp op) {
      used.insert(op.getConstantAttr().getAttr());
    });
    for (plan::ConstantOp op : module.getOps<plan::ConstantOp>()) {
      if (!used.contains(op.getSymNameAttr()))
        continue;
      weightIndex[op.getSymNameAttr()] =
          static_cast<uint32_t>(model.weights.size());
      artifact::Weight &weight = model.weights.emplace_back();
      weight.name = op.getName();
      weight.type = dtypeOf(op.getTensor());
      ArrayRef<int64_t> shape = cast<ShapedType>(op.getTensor()).getShape();
      weight.shape.assign(shape.begin(), shape.end());
      weight.layout = op.getLayout().value_or("").str();
      auto type = cast<RankedTensorType>(op.getTensor());
      kernels::PackedLayout layout = getLayout(op);
      weight.bytes =
          static_cast<uint64_t>(layout == kernels::PackedLayout::RowMajor
                                    ? *numBytes(type).asConstant()
                                    : kernels::packedBytes(layout, type));
    }
  }

  LogicalResult addKernels() {
    llvm::DenseSet<StringAttr> launched;
    module.walk([&](LaunchOp launch) {
      launched.insert(launch.getKernelAttr().getAttr());
    });
    for (KernelOp op : module.getOps<KernelOp>()) {
      if (!launched.contains(op.getSymNameAttr()))
        continue;
      kernelIndex[op.getSymNameAttr()] =
          static_cast<uint32_t>(model.kernels.size());
      artifact::Kernel &kernel = model.kernels.emplace_back();
      kernel.name = op.getSymName();
      kernel.family = op.getConfig().getFamily().getValue();
      kernel.config = textOf(op.getConfig().getParams());
      if (failed(addCode(op, kernel)))
        return failure();
    }
    return success();
  }

  LogicalResult addCode(KernelOp op, artifact::Kernel &kernel) {
    for (auto [i, image] : llvm::enumerate(images)) {
      auto it = image.kernels.find(kernel.name);
      if (it != image.kernels.end()) {
        artifact::KernelCode &code = kernel.code.emplace_back(it->second);
        code.image = static_cast<uint32_t>(i);
        code.target = image.target;
      } else if (image.target != artifact::KernelCode::Target::Sm90a &&
                 op.runsOn("host")) {
        return op.emitOpError("is launched but has no code for the host");
      }
    }
    return success();
  }

  void addProgram(ProgramOp op) {
    artifact::Program &program = model.programs.emplace_back();
    program.name = op.getSymName();
    program.set = op.getSet().value_or("");
    if (op.getDevice() == StringRef("card"))
      program.device = artifact::Program::Device::Card;
    program.rows = getExpr(op.getRowsAttr());
    program.minRows = op.getMinRows();
    program.maxRows = op.getMaxRows();
    if (auto fixed = op.getFixed())
      for (NamedAttribute value : *fixed)
        program.fixed.push_back({value.getName().str(),
                                 cast<IntegerAttr>(value.getValue()).getInt()});
    llvm::DenseMap<Operation *, LiveRange> ranges = getLiveRanges(op);
    buffers.clear();
    for (Operation &part : op.getBody().front()) {
      if (auto launch = dyn_cast<LaunchOp>(part))
        addLaunch(program, launch);
      else if (auto alloc = dyn_cast<AllocOp>(part))
        addBuffer(program, alloc, ranges);
    }
  }

  void addBuffer(artifact::Program &program, AllocOp op,
                 const llvm::DenseMap<Operation *, LiveRange> &ranges) {
    auto range = ranges.find(op);
    if (range == ranges.end())
      return;
    buffers[op] = static_cast<uint32_t>(program.buffers.size());
    artifact::ArenaBuffer &buffer = program.buffers.emplace_back();
    buffer.bytes = getExpr(op.getBytesAttr());
    buffer.firstUse = range->second.first;
    buffer.lastUse = range->second.last;
    buffer.value = op.getValue().value_or("");
    buffer.type = dtypeOf(op.getTensor());
  }

  BufferRef refer(Value buffer) {
    auto [root, offset] = resolveViews(buffer);
    Operation *op = root.getDefiningOp();
    auto make = [&, offset = offset](BufferRef::Kind kind, int64_t index) {
      return BufferRef{kind, static_cast<uint32_t>(index), offset};
    };
    if (auto input = dyn_cast<plan::InputOp>(op))
      return make(BufferRef::Kind::Input, input.getIndex());
    if (auto output = dyn_cast<plan::OutputOp>(op))
      return make(BufferRef::Kind::Output, output.getIndex());
    if (auto state = dyn_cast<StateOp>(op))
      return make(BufferRef::Kind::State, state.getIndex());
    if (auto weight = dyn_cast<plan::WeightOp>(op))
      return make(BufferRef::Kind::Weight,
                  weightIndex.lookup(weight.getConstantAttr().getAttr()));
    return make(BufferRef::Kind::Arena, buffers.lookup(op));
  }

  void addLaunch(artifact::Program &program, LaunchOp op) {
    artifact::Launch &launch = program.launches.emplace_back();
    launch.kernel = kernelIndex.lookup(op.getKernelAttr().getAttr());
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      launch.args.push_back(
          {refer(operand), op.getHint(i), op.getInvariant(i)});
    launch.sizes = toVector(getExprs(op.getSizes()));
    launch.grid = getExpr(op.getGridAttr());
    launch.grain = getExpr(op.getGrainAttr());
    launch.scratchBytes = getExpr(op.getScratchAttr());
    launch.launchClass = op.getChain() ? artifact::LaunchClass::Chain
                                       : artifact::LaunchClass::Independent;
    launch.programmatic = op.getProgrammatic();
    launch.site = op.getSite().value_or("");
  }

  ModuleOp module;
  ArrayRef<kernels::CompiledImage> images;
  artifact::Model model;
  llvm::DenseMap<StringAttr, uint32_t> weightIndex, kernelIndex;
  llvm::DenseMap<Operation *, uint32_t> buffers; ///< of the current program
};

} // namespace

FailureOr<artifact::Model>
fusion::buildArtifactModel(ModuleOp module,
                           ArrayRef<kernels::CompiledImage> images,
                           const LinkOptions &options) {
  return ModelBuilder(module, images, options).build();
}
