//===- Dump.cpp - An artifact as text -------------------------------------===//

#include "fusion/Artifact/Dump.h"

#include "fusion/Support/Printable.h"

using namespace fusion;
using namespace fusion::artifact;

std::string fusion::artifact::shapeText(const std::vector<SymExpr> &shape,
                                        DType type) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + shape[i].str();
  return text + "] " + name(type);
}

namespace {

std::string rangeText(int64_t lower, int64_t upper) {
  return std::to_string(lower) + ".." +
         (upper == INT64_MAX ? "" : std::to_string(upper));
}

class Dumper {
public:
  explicit Dumper(const Model &model) : model(model) {}

  std::string run() {
    line("model " + model.name + " by " + model.producer);
    if (!model.options.empty())
      line("options " + model.options);
    if (model.maxContext)
      line("context " + std::to_string(model.maxContext) + ", " +
           model.appended.str() + " appended by a run");
    for (const Symbol &s : model.symbols)
      symbol(s);
    for (const Guard &g : model.guards)
      line("guard " + g.left.str() + " == " + g.right.str() + ": " + g.reason);
    for (const TensorInfo &t : model.inputs)
      tensor("input", t);
    for (const TensorInfo &t : model.outputs)
      tensor("output", t);
    for (const State &s : model.states)
      line("state " + s.name + " " + shapeText(s.storage, s.type) +
           (s.lengthAxis < 0
                ? ""
                : " grows along axis " + std::to_string(s.lengthAxis)));
    weights();
    for (const Kernel &k : model.kernels)
      kernel(k);
    for (const Program &p : model.programs)
      program(p);
    return std::move(text);
  }

private:
  void line(const std::string &content) {
    text += printableMessage(content) + "\n";
  }

  void symbol(const Symbol &s) {
    std::string from =
        s.source == Symbol::Source::CachedLength
            ? "the cached length"
            : model.inputs[s.input].name + "[" + std::to_string(s.axis) + "]";
    line("symbol " + s.name + " = " + from + " in " +
         rangeText(s.lower, s.upper));
  }
  void tensor(const char *kind, const TensorInfo &t) {
    line(std::string(kind) + " " + t.name + " " + shapeText(t.shape, t.type) +
         (t.role == Role::None ? "" : std::string(" role ") + name(t.role)));
  }
  void weights() {
    uint64_t bytes = 0;
    for (const Weight &w : model.weights) {
      bytes += w.bytes;
      std::vector<SymExpr> shape(w.shape.begin(), w.shape.end());
      line("weight " + w.name + " " + shapeText(shape, w.type) +
           (w.layout.empty() ? "" : " layout " + w.layout) + " " +
           std::to_string(w.bytes) + " bytes");
    }
    line(std::to_string(model.weights.size()) + " weights, " +
         std::to_string(bytes) + " bytes");
  }
  void kernel(const Kernel &k) {
    line("kernel " + k.name + " " + k.family +
         (k.config.empty() ? "" : " {" + k.config + "}"));
    for (const KernelCode &c : k.code) {
      const char *targets[] = {"x86-64-v3", "x86-64-v4", "sm_90a"};
      std::string what = std::string("  ") +
                         targets[static_cast<unsigned>(c.target)] + " image " +
                         std::to_string(c.image);
      if (c.target != KernelCode::Target::Sm90a)
        what += " entry " + std::to_string(c.entry);
      else
        what += " workspace " + c.workspaceBytes.str() + " counters " +
                std::to_string(c.counterBytes);
      line(what);
      for (const CardStage &stage : c.stages)
        line("    " + stage.symbol + " grid " + stage.grid.str() + " threads " +
             std::to_string(stage.threads) + " cluster " +
             std::to_string(stage.cluster) + " registers " +
             std::to_string(stage.registers) + " shared " +
             std::to_string(stage.sharedBytes + stage.staticSharedBytes) +
             " spills " + std::to_string(stage.spillBytes) + " tensor maps " +
             std::to_string(stage.maps.size()));
    }
  }
  std::string buffer(const LaunchArg &arg) const {
    const char *kinds[] = {"none",   "input", "output",
                           "weight", "arena", "state"};
    const BufferRef &b = arg.buffer;
    std::string what = kinds[static_cast<unsigned>(b.kind)];
    if (b.kind != BufferRef::Kind::None)
      what += "#" + std::to_string(b.index);
    if (b.byteOffset.asConstant() != 0)
      what += "+(" + b.byteOffset.str() + ")";
    if (arg.hint != CacheHint::None)
      what +=
          arg.hint == CacheHint::EvictFirst ? " evict_first" : " evict_last";
    if (arg.invariance == Invariance::OlderRows)
      what += " older_invariant";
    return what + (arg.invariance == Invariance::All ? " invariant" : "");
  }
  /// Sizes at the symbols' upper ends, where all of them are bounded.
  void arena(const Program &p) {
    std::vector<uint64_t> bytes, offsets;
    for (const ArenaBuffer &b : p.buffers) {
      auto value = b.bytes.evaluate(
          [&](std::string_view symbolName) { return upperEnd(p, symbolName); });
      if (!value || *value < 0)
        return;
      bytes.push_back(static_cast<uint64_t>(*value));
    }
    uint64_t size = planArena(p.buffers, bytes, offsets);
    line("  arena " + std::to_string(size) + " bytes at the upper sizes, " +
         std::to_string(arenaLowerBound(p.buffers, bytes)) +
         " at least needed");
  }
  std::optional<int64_t> upperEnd(const Program &p,
                                  std::string_view symbolName) const {
    for (const auto &[fixed, value] : p.fixed)
      if (fixed == symbolName)
        return value;
    for (const Symbol &s : model.symbols)
      if (s.name == symbolName && s.upper != INT64_MAX)
        return s.upper;
    return std::nullopt;
  }
  void program(const Program &p) {
    std::string head = "program " + p.name;
    if (!p.set.empty())
      head += " of set " + p.set;
    head += " for " + p.rows.str() + " in " + rangeText(p.minRows, p.maxRows);
    for (const auto &[symbolName, value] : p.fixed)
      head += ", " + symbolName + " = " + std::to_string(value);
    line(head);
    arena(p);
    for (const ArenaBuffer &b : p.buffers)
      line("  buffer " + b.bytes.str() + " bytes, launches " +
           std::to_string(b.firstUse) + ".." + std::to_string(b.lastUse) +
           (b.value.empty() ? "" : ", " + b.value));
    for (size_t i = 0; i < p.launches.size(); ++i)
      launch(i, p.launches[i]);
    line("  " + std::to_string(p.launches.size()) + " launches");
  }
  void launch(size_t index, const Launch &l) {
    std::string what = "  launch " + std::to_string(index) + " " +
                       model.kernels[l.kernel].name + "(";
    for (size_t i = 0; i < l.args.size(); ++i)
      what += (i ? ", " : "") + buffer(l.args[i]);
    what += ") sizes [";
    for (size_t i = 0; i < l.sizes.size(); ++i)
      what += (i ? ", " : "") + l.sizes[i].str();
    what += "] grid " + l.grid.str() + " grain " + l.grain.str();
    if (l.scratchBytes.asConstant() != 0)
      what += " scratch " + l.scratchBytes.str();
    if (l.launchClass == LaunchClass::Chain)
      what += " chain";
    if (l.programmatic)
      what += " programmatic";
    line(what + (l.site.empty() ? "" : " at " + l.site));
  }

  const Model &model;
  std::string text;
};

} // namespace

std::string fusion::artifact::dumpModel(const Model &model) {
  return Dumper(model).run();
}
