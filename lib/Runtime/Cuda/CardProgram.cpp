//===- CardProgram.cpp - A program's sizes and stages, compiled -----------===//

#include "CardProgram.h"

#include <algorithm>

using namespace fusion;
using namespace fusion::artifact;
using namespace fusion::cuda;

/// Programs of more rows take so long that preparing them for each length
/// costs little, while grids for the longest one would cost much.
static constexpr int64_t kMostResidentRows = 64;

static std::vector<std::string> namesOf(const Model &model) {
  std::vector<std::string> names;
  for (const Symbol &symbol : model.symbols)
    names.push_back(symbol.name);
  return names;
}

static SymExpr productOf(const std::vector<SymExpr> &shape) {
  SymExpr product = 1;
  for (const SymExpr &size : shape)
    product = product * size;
  return product;
}

static const KernelCode *findCode(const Kernel &kernel) {
  for (const KernelCode &code : kernel.code)
    if (code.target == KernelCode::Target::Sm90a)
      return &code;
  return nullptr;
}

CardProgram::CardProgram(const Model &model, const CompiledProgram &program,
                         uint64_t &counterBytes)
    : table(namesOf(model)), source(program.program), compiled(program) {
  for (const ArenaBuffer &buffer : source->buffers)
    bufferBytes.push_back(table.add(buffer.bytes));
  for (const TensorInfo &input : model.inputs)
    inputElements.push_back(table.add(productOf(input.shape)));
  for (const TensorInfo &output : model.outputs)
    outputElements.push_back(table.add(productOf(output.shape)));
  for (const Launch &launch : source->launches)
    addLaunch(model, launch, counterBytes);
  for (const Symbol &symbol : model.symbols) {
    bool cached = symbol.source == Symbol::Source::CachedLength;
    upper.push_back(cached ? std::optional(symbol.upper) : std::nullopt);
  }
  resident = canBeResident(model);
}

void CardProgram::addLaunch(const Model &model, const Launch &launch,
                            uint64_t &counterBytes) {
  CardLaunch &result = launches.emplace_back();
  result.launch = &launch;
  result.code = findCode(model.kernels[launch.kernel]);
  result.sizes = theSizesBytes;
  theSizesBytes += (launch.sizes.size() + 2) * sizeof(int64_t);
  theSizesBytes = (theSizesBytes + 15) / 16 * 16;
  for (const LaunchArg &arg : launch.args)
    result.offsets.push_back(table.add(arg.buffer.byteOffset));
  if (!result.code)
    return;
  std::map<std::string, SymExpr> values;
  for (size_t i = 0; i < launch.sizes.size(); ++i)
    values["d" + std::to_string(i)] = launch.sizes[i];
  auto place = [&](const SymExpr &e) {
    return table.add(e.substitute(values));
  };
  for (const CardStage &stage : result.code->stages) {
    CardStep &step = result.steps.emplace_back();
    step.stage = &stage;
    step.grid = place(stage.grid);
    for (const TensorMap &map : stage.maps) {
      CardMap &m = step.maps.emplace_back();
      m.map = &map;
      m.byteOffset = place(map.byteOffset);
      for (const SymExpr &dim : map.dims)
        m.dims.push_back(place(dim));
      for (const SymExpr &stride : map.strides)
        m.strides.push_back(place(stride));
    }
  }
  result.workspace = place(result.code->workspaceBytes);
  result.hasWorkspace = result.code->workspaceBytes != SymExpr(0);
  result.counters = counterBytes;
  counterBytes += (uint64_t(result.code->counterBytes) + 255) / 256 * 256;
}

bool CardProgram::dependsOn(uint32_t place,
                            const std::set<std::string> &symbols) const {
  for (const std::string &name : table.expression(place).symbols())
    if (symbols.count(name))
      return true;
  return false;
}

/// Addresses, and where a tensor map ends, must not change with the length.
bool CardProgram::canBeResident(const Model &model) const {
  std::set<std::string> lengths;
  for (const Symbol &symbol : model.symbols) {
    if (symbol.source != Symbol::Source::CachedLength)
      continue;
    lengths.insert(symbol.name);
    if (symbol.upper == INT64_MAX)
      return false;
  }
  if (lengths.empty() || source->maxRows > kMostResidentRows)
    return false;
  auto varies = [&](uint32_t place) { return dependsOn(place, lengths); };
  for (const CardLaunch &launch : launches) {
    if (std::any_of(launch.offsets.begin(), launch.offsets.end(), varies))
      return false;
    for (const CardStep &step : launch.steps)
      for (const CardMap &map : step.maps)
        if (varies(map.byteOffset) ||
            std::any_of(map.dims.begin(), map.dims.end(), varies) ||
            std::any_of(map.strides.begin(), map.strides.end(), varies))
          return false;
  }
  return true;
}

std::optional<uint32_t>
CardProgram::evaluate(const std::vector<int64_t> &symbols,
                      std::vector<int64_t> &values) const {
  if (!resident)
    return table.evaluate(symbols, values);
  std::vector<int64_t> most = symbols;
  for (size_t i = 0; i < most.size(); ++i)
    most[i] = upper[i].value_or(most[i]);
  return table.evaluate(most, values);
}

std::vector<int64_t>
CardProgram::key(const std::vector<int64_t> &symbols) const {
  std::vector<int64_t> key = symbols;
  if (resident)
    for (size_t i = 0; i < key.size(); ++i)
      if (upper[i])
        key[i] = -1;
  return key;
}

void CardProgram::writeSizes(uint8_t *block, const std::vector<int64_t> &values,
                             int64_t run, uint64_t statusWords) const {
  for (size_t i = 0; i < launches.size(); ++i) {
    auto *out = reinterpret_cast<int64_t *>(block + launches[i].sizes);
    for (uint32_t place : compiled.launches[i].sizes)
      *out++ = values[place];
    *out++ = run;
    *out++ = static_cast<int64_t>(statusWords + i * sizeof(int32_t));
  }
}
