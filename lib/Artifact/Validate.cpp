//===- Validate.cpp - Is every index of a Model in range? -----------------===//

#include "fusion/Artifact/Encoding.h"

#include <set>

using namespace fusion;
using namespace fusion::artifact;

std::optional<uint64_t>
fusion::artifact::elementCount(const std::vector<int64_t> &shape) {
  uint64_t count = 1;
  for (int64_t dim : shape)
    if (dim < 0 ||
        __builtin_mul_overflow(count, static_cast<uint64_t>(dim), &count) ||
        count > uint64_t(1) << 62)
      return std::nullopt;
  return count;
}

uint64_t fusion::artifact::packedBytes(DType type, uint64_t count) {
  uint64_t bits;
  if (__builtin_mul_overflow(count, uint64_t(bitWidth(type)), &bits) ||
      bits > UINT64_MAX - 7)
    return UINT64_MAX;
  return (bits + 7) / 8;
}

namespace {

class Validator {
public:
  Validator(const Model &model, uint64_t codeBytes, uint64_t weightBytes)
      : model(model), codeBytes(codeBytes), weightBytes(weightBytes) {}

  Status run() {
    checkSymbols();
    for (const TensorInfo &t : model.inputs)
      checkTensor("input", t.name, t.type, t.shape);
    checkLengths();
    for (const TensorInfo &t : model.outputs)
      checkTensor("output", t.name, t.type, t.shape);
    for (const State &s : model.states)
      checkState(s);
    for (const Weight &w : model.weights)
      checkWeight(w);
    checkCode();
    for (const Guard &g : model.guards)
      require(known(g.left) && known(g.right), "guard: unknown symbol");
    require(known(model.appended), "appended tokens: unknown symbol");
    for (const Program &p : model.programs)
      checkProgram(p);
    if (problem.empty())
      return {};
    return Status(StatusCode::BadArtifact,
                  "the model section is corrupt: " + problem);
  }

private:
  void require(bool condition, const std::string &what) {
    if (!condition && problem.empty())
      problem = what;
  }
  bool known(const SymExpr &expression) const {
    if (expression.isConstant())
      return true;
    for (const std::string &symbol : expression.symbols())
      if (!symbols.count(symbol))
        return false;
    return true;
  }
  /// The session gives cached lengths and token counts itself: their form is
  /// fixed. The number of sequences, 0 where there is no such input.
  int64_t checkPerSequence(Role role, const std::string &what) {
    int64_t sequences = 0;
    for (const TensorInfo &t : model.inputs) {
      if (t.role != role)
        continue;
      auto count = t.shape.size() == 1 ? t.shape[0].asConstant() : std::nullopt;
      require(sequences == 0, "two inputs hold " + what);
      require(t.type == DType::I32 && count && *count >= 1 && *count < 65536,
              "input '" + t.name + "' holds no " + what +
                  ": expected i32 [1 to 65535]");
      sequences = count.value_or(1);
    }
    return sequences;
  }
  void checkLengths() {
    int64_t lengths = checkPerSequence(Role::CachedLengths, "cached lengths");
    int64_t counts = checkPerSequence(Role::TokenCounts, "token counts");
    require(counts == 0 || counts == lengths,
            "token counts of " + std::to_string(counts) +
                " sequences, and cached lengths of " + std::to_string(lengths));
  }
  void checkSymbols() {
    for (const Symbol &s : model.symbols) {
      std::string where = "symbol '" + s.name + "'";
      require(SymExpr::isIdentifier(s.name), where + " is no identifier");
      require(symbols.insert(s.name).second, where + " is declared twice");
      require(s.lower <= s.upper, where + " has an empty range");
      if (s.source == Symbol::Source::InputDim)
        require(s.input < model.inputs.size() &&
                    s.axis < model.inputs[s.input].shape.size(),
                where + " comes from a dimension that is not there");
    }
  }
  void checkTensor(const char *kind, const std::string &name, DType type,
                   const std::vector<SymExpr> &shape) {
    std::string where = std::string(kind) + " '" + name + "'";
    require(bitWidth(type) != 0, where + " has an unknown element type");
    for (const SymExpr &dim : shape)
      require(known(dim), where + " has an unknown symbol");
  }
  void checkState(const State &s) {
    checkTensor("state", s.name, s.type, s.storage);
    require(s.lengthAxis >= -1 &&
                s.lengthAxis < static_cast<int64_t>(s.storage.size()),
            "state '" + s.name + "' has no such axis");
  }
  void checkWeight(const Weight &w) {
    std::string where = "weight '" + w.name + "'";
    require(bitWidth(w.type) != 0, where + " has an unknown element type");
    require(w.offset % 64 == 0, where + " is not aligned");
    require(w.offset <= weightBytes && w.bytes <= weightBytes - w.offset,
            where + " lies outside its section");
    auto count = elementCount(w.shape);
    require(count.has_value(), where + " has an impossible shape");
    if (count && w.layout.empty())
      require(w.bytes == packedBytes(w.type, *count),
              where + " has another size than its shape");
  }
  void checkCode() {
    for (const Image &i : model.images) {
      require(i.offset % 4096 == 0, "an image is not aligned");
      require(i.offset <= codeBytes && i.bytes <= codeBytes - i.offset,
              "an image lies outside its section");
    }
    for (const Kernel &k : model.kernels)
      for (const KernelCode &c : k.code) {
        require(c.image < model.images.size() &&
                    model.images[c.image].target == c.target,
                "kernel '" + k.name + "' has no image");
        if (problem.empty() && c.target != KernelCode::Target::Sm90a)
          require(c.entry < model.images[c.image].bytes,
                  "kernel '" + k.name + "' starts outside its image");
        if (c.target == KernelCode::Target::Sm90a)
          require(!c.stages.empty(), "kernel '" + k.name + "' has no stage");
        for (const CardStage &s : c.stages)
          checkStage(s, "kernel '" + k.name + "', function '" + s.symbol + "'");
      }
  }
  void checkStage(const CardStage &s, const std::string &where) {
    require(s.threads >= 1 && s.threads <= 1024 && s.cluster >= 1 &&
                s.cluster <= 16 && s.sharedBytes <= 232448,
            where + " has an impossible launch");
    for (const TensorMap &m : s.maps)
      require(!m.dims.empty() && m.dims.size() <= 5 &&
                  m.strides.size() + 1 == m.dims.size() &&
                  m.box.size() == m.dims.size() &&
                  (m.swizzle == 0 || m.swizzle == 32 || m.swizzle == 64 ||
                   m.swizzle == 128),
              where + " has an impossible tensor map");
  }
  size_t countOf(const Program &p, BufferRef::Kind kind) const {
    switch (kind) {
    case BufferRef::Kind::None:
      return SIZE_MAX;
    case BufferRef::Kind::Input:
      return model.inputs.size();
    case BufferRef::Kind::Output:
      return model.outputs.size();
    case BufferRef::Kind::Weight:
      return model.weights.size();
    case BufferRef::Kind::Arena:
      return p.buffers.size();
    case BufferRef::Kind::State:
      return model.states.size();
    }
    return 0;
  }
  void checkProgram(const Program &p) {
    std::string where = "program '" + p.name + "'";
    require(known(p.rows), where + " has an unknown symbol");
    for (const auto &[symbol, value] : p.fixed)
      require(symbols.count(symbol), where + " fixes an unknown symbol");
    for (const ArenaBuffer &b : p.buffers)
      require(known(b.bytes) && bitWidth(b.type) != 0 &&
                  b.firstUse <= b.lastUse && b.lastUse < p.launches.size(),
              where + " has a buffer with an impossible size or life");
    for (size_t i = 0; i < p.launches.size(); ++i)
      checkLaunch(p, p.launches[i], where + ", launch " + std::to_string(i));
  }
  void checkLaunch(const Program &p, const Launch &l,
                   const std::string &where) {
    require(l.kernel < model.kernels.size(), where + ": no such kernel");
    for (const LaunchArg &arg : l.args)
      require(arg.buffer.index < countOf(p, arg.buffer.kind) &&
                  known(arg.buffer.byteOffset),
              where + ": no such buffer");
    for (const SymExpr &size : l.sizes)
      require(known(size), where + ": unknown symbol");
    require(known(l.grid) && known(l.grain) && known(l.scratchBytes),
            where + ": unknown symbol");
  }

  const Model &model;
  uint64_t codeBytes, weightBytes;
  std::set<std::string> symbols;
  std::string problem;
};

} // namespace

Status fusion::artifact::validateModel(const Model &model, uint64_t codeBytes,
                                       uint64_t weightBytes) {
  return Validator(model, codeBytes, weightBytes).run();
}
