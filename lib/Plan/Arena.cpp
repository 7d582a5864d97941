//===- Arena.cpp - How much memory a program needs ------------------------===//

#include "fusion/Plan/Arena.h"

#include "fusion/Dialect/Fusion/ShapeUtils.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::plan;

std::optional<ArenaReport>
fusion::getArenaReport(ProgramOp program,
                       const std::map<std::string, int64_t> &sizes) {
  auto lookup = [&](std::string_view name) -> std::optional<int64_t> {
    auto it = sizes.find(std::string(name));
    return it == sizes.end() ? std::nullopt : std::optional(it->second);
  };
  llvm::DenseMap<Operation *, LiveRange> ranges = getLiveRanges(program);
  std::vector<artifact::ArenaBuffer> buffers;
  std::vector<uint64_t> bytes, offsets;
  for (AllocOp alloc : program.getBody().getOps<AllocOp>()) {
    auto range = ranges.find(alloc);
    if (range == ranges.end())
      continue;
    auto size = getExpr(alloc.getBytesAttr()).evaluate(lookup);
    if (!size || *size < 0)
      return std::nullopt;
    artifact::ArenaBuffer &buffer = buffers.emplace_back();
    buffer.firstUse = range->second.first;
    buffer.lastUse = range->second.last;
    bytes.push_back(static_cast<uint64_t>(*size));
  }
  ArenaReport report;
  report.bytes = artifact::planArena(buffers, bytes, offsets);
  report.bound = artifact::arenaLowerBound(buffers, bytes);
  return report;
}

std::map<std::string, int64_t>
fusion::getUpperSizes(ModelOp model, ProgramOp program, int64_t unbounded) {
  std::map<std::string, int64_t> sizes;
  for (SymbolOp symbol : model.getBody().getOps<SymbolOp>()) {
    bool open = symbol.getUpper() == INT64_MAX;
    sizes[symbol.getName().str()] =
        open ? std::max(unbounded, symbol.getLower()) : symbol.getUpper();
  }
  if (auto rows = getExpr(program.getRowsAttr()).asSymbol()) {
    int64_t &value = sizes[*rows];
    value = std::min(value, program.getMaxRows());
  }
  if (auto fixed = program.getFixed())
    for (NamedAttribute entry : *fixed)
      sizes[entry.getName().str()] =
          cast<IntegerAttr>(entry.getValue()).getInt();
  return sizes;
}
