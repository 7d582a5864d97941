//===- PreparedProgram.cpp - Launches ready to be issued ------------------===//

#include "PreparedProgram.h"

#include "../KernelFailure.h"

#include <algorithm>

using namespace fusion;
using namespace fusion::artifact;
using namespace fusion::cuda;

static constexpr int64_t kMostBytes = int64_t(1) << 46;
static constexpr int64_t kMostBlocks = INT32_MAX;

//===----------------------------------------------------------------------===//
// ProgramSizes
//===----------------------------------------------------------------------===//

Result<ProgramSizes>
ProgramSizes::evaluate(const Model &model, const CardProgram &program,
                       const std::vector<int64_t> &symbols) {
  ProgramSizes sizes;
  const std::string where = "program '" + program.program().name + "'";
  if (auto place = program.evaluate(symbols, sizes.values))
    return Status(StatusCode::InvalidInput,
                  where + ": the size " +
                      program.table.expression(*place).str() +
                      " has no value for these inputs");
  for (uint32_t place : program.bufferBytes) {
    int64_t bytes = sizes.values[place];
    if (bytes < 0)
      return Status(StatusCode::BadArtifact,
                    where + " has a buffer of negative size");
    if (bytes > kMostBytes)
      return Status(StatusCode::Failed,
                    "no memory on the card for a buffer of " +
                        std::to_string(bytes) + " bytes");
    sizes.arena.bytes.push_back(static_cast<uint64_t>(bytes));
  }
  sizes.arena.size = planArena(program.program().buffers, sizes.arena.bytes,
                               sizes.arena.offsets);
  for (const CardLaunch &launch : program.launches) {
    if (!launch.code)
      return Status(StatusCode::BadArtifact,
                    describeLaunch(model, *launch.launch) + " (" +
                        model.kernels[launch.launch->kernel].family +
                        ") has no code for the card; compile the model again "
                        "with --target=sm_90a");
    int64_t bytes = sizes.values[launch.workspace];
    if (bytes > kMostBytes)
      return Status(StatusCode::Failed, "no memory on the card for a workspace "
                                        "of " +
                                            std::to_string(bytes) + " bytes");
    sizes.workspaceBytes =
        std::max(sizes.workspaceBytes,
                 static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
  }
  return sizes;
}

//===----------------------------------------------------------------------===//
// PreparedProgram
//===----------------------------------------------------------------------===//

Status PreparedProgram::fault(const CardLaunch &launch,
                              const std::string &why) const {
  return Status(StatusCode::BadArtifact,
                describeLaunch(model, *launch.launch) + " " + why);
}

Status PreparedProgram::prepare(const Driver &driver, const CudaCode &code,
                                const Placement &placement) {
  for (uint32_t i = 0; i < program.launches.size(); ++i) {
    firstIssue.push_back(static_cast<uint32_t>(issues.size()));
    if (Status s = prepareLaunch(driver, code, placement, i); !s)
      return s;
  }
  firstIssue.push_back(static_cast<uint32_t>(issues.size()));
  chooseCarveout();
  return {};
}

Status PreparedProgram::resolve(const Placement &placement,
                                const CardLaunch &launch,
                                std::vector<Region> &arguments) const {
  for (size_t i = 0; i < launch.launch->args.size(); ++i) {
    const BufferRef &ref = launch.launch->args[i].buffer;
    Region region;
    switch (ref.kind) {
    case BufferRef::Kind::None:
      break;
    case BufferRef::Kind::Input:
      region = placement.inputs[ref.index];
      break;
    case BufferRef::Kind::Output:
      region = placement.outputs[ref.index];
      break;
    case BufferRef::Kind::Weight:
      region = placement.weights[ref.index];
      break;
    case BufferRef::Kind::Arena:
      region = {placement.arena + sizes.arena.offsets[ref.index],
                sizes.arena.bytes[ref.index]};
      break;
    case BufferRef::Kind::State:
      region = placement.states[ref.index];
      break;
    }
    auto offset = static_cast<uint64_t>(sizes.values[launch.offsets[i]]);
    if (offset > region.bytes)
      return fault(launch, "starts outside a buffer of " +
                               std::to_string(region.bytes) + " bytes");
    arguments.push_back({region.address + offset, region.bytes - offset});
  }
  return {};
}

/// CUtensorMapDataType.
static int32_t mapType(DType type) {
  switch (type) {
  case DType::U16:
  case DType::I16:
    return 1;
  case DType::U32:
    return 2;
  case DType::I32:
    return 3;
  case DType::U64:
    return 4;
  case DType::I64:
    return 5;
  case DType::F16:
    return 6;
  case DType::F32:
    return 7;
  case DType::F64:
    return 8;
  case DType::BF16:
    return 9;
  default:
    return 0; // bytes
  }
}

/// CUtensorMapSwizzle.
static int32_t mapSwizzle(uint32_t bytes) {
  return bytes == 32 ? 1 : bytes == 64 ? 2 : bytes == 128 ? 3 : 0;
}

Result<EncodedMap *> PreparedProgram::encode(
    const Driver &driver, const CardLaunch &launch, const CardMap &map,
    const std::vector<Region> &arguments, Address workspace) {
  const TensorMap &m = *map.map;
  if (m.argument > arguments.size())
    return fault(launch, "has a tensor map over argument " +
                             std::to_string(m.argument) + " of " +
                             std::to_string(arguments.size()));
  Address base = m.argument == arguments.size() ? workspace
                                                : arguments[m.argument].address;
  base += static_cast<uint64_t>(sizes.values[map.byteOffset]);
  uint64_t dims[5], strides[5];
  uint32_t box[5], steps[5];
  std::string text;
  for (size_t i = 0; i < map.dims.size(); ++i) {
    // An empty tensor has no map; its kernel finds out from the sizes.
    dims[i] =
        static_cast<uint64_t>(std::max<int64_t>(sizes.values[map.dims[i]], 1));
    box[i] = m.box[i];
    steps[i] = 1;
    if (i > 0)
      strides[i - 1] = static_cast<uint64_t>(sizes.values[map.strides[i - 1]]);
    text += (i ? " x " : "") + std::to_string(dims[i]) + " (box " +
            std::to_string(box[i]) +
            (i ? ", stride " + std::to_string(strides[i - 1]) : "") + ")";
  }
  constexpr int32_t kNoInterleave = 0, kPromote256 = 3, kZeroFill = 0;
  EncodedMap &result = maps.emplace_back();
  Code code = driver.encodeTiled(
      &result, mapType(m.type), static_cast<uint32_t>(map.dims.size()),
      reinterpret_cast<void *>(base), dims, strides, box, steps, kNoInterleave,
      mapSwizzle(m.swizzle), kPromote256, kZeroFill);
  if (code != Code::Success)
    return fault(launch,
                 "needs a tensor map that the driver refuses: " +
                     std::string(name(m.type)) + " " + text + ", swizzle " +
                     std::to_string(m.swizzle) + ", address modulo 128 is " +
                     std::to_string(base % 128) + ": " + driver.text(code));
  return &result;
}

/// Products that read by tensor maps store pieces of 16 bytes as well; other
/// kernels look at the addresses themselves.
Status
PreparedProgram::checkAlignment(const CardLaunch &launch,
                                const std::vector<Region> &arguments) const {
  constexpr uint64_t kPiece = 16;
  bool maps = !launch.steps.empty() && !launch.steps[0].maps.empty();
  if (!maps || model.kernels[launch.launch->kernel].family != "matmul")
    return {};
  for (const Region &argument : arguments)
    if (argument.bytes >= kPiece && argument.address % kPiece != 0)
      return Status(StatusCode::InvalidInput,
                    describeLaunch(model, *launch.launch) +
                        " needs tensors at multiples of 16 bytes, one lies " +
                        std::to_string(argument.address % kPiece) +
                        " bytes behind; copy it to an aligned place");
  return {};
}

Status PreparedProgram::prepareLaunch(const Driver &driver,
                                      const CudaCode &code,
                                      const Placement &placement,
                                      uint32_t index) {
  const CardLaunch &launch = program.launches[index];
  std::vector<Region> arguments;
  if (Status s = resolve(placement, launch, arguments); !s)
    return s;
  if (Status s = checkAlignment(launch, arguments); !s)
    return s;
  std::vector<Address> &values = pointers.emplace_back();
  for (const Region &argument : arguments)
    values.push_back(argument.address);
  if (launch.hasWorkspace)
    values.push_back(placement.workspace);
  if (launch.code->counterBytes)
    values.push_back(placement.counters + launch.counters);
  values.push_back(placement.sizes + launch.sizes);
  for (const CardStep &step : launch.steps) {
    int64_t grid = sizes.values[step.grid];
    if (grid <= 0)
      continue;
    const CardStage &stage = *step.stage;
    if (grid > kMostBlocks || grid % stage.cluster != 0)
      return fault(launch, "has a grid of " + std::to_string(grid) +
                               " blocks in clusters of " +
                               std::to_string(stage.cluster));
    Issue issue{code.function(stage),
                static_cast<uint32_t>(grid),
                stage.threads,
                stage.cluster,
                stage.sharedBytes,
                launch.launch->programmatic,
                0,
                {}};
    for (Address &value : values)
      issue.parameters.push_back(&value);
    for (const CardMap &map : step.maps) {
      auto encoded =
          encode(driver, launch, map, arguments, placement.workspace);
      if (!encoded)
        return encoded.status();
      issue.parameters.push_back(*encoded);
    }
    issues.push_back(std::move(issue));
  }
  return {};
}

/// Loads to registers pass through what shared memory leaves of a
/// multiprocessor: with 32 KiB more, one row streams weights 3 % faster.
/// Kernels with much shared memory that follow each other take equal shares,
/// since a multiprocessor has to be idle for another one; so all of them have
/// to fit.
void PreparedProgram::chooseCarveout() {
  constexpr uint32_t kLargeShared = 96 * 1024, kReserved = 1024;
  constexpr uint32_t kShare = 196 * 1024, kPercent = 85;
  auto fits = [](const Issue &issue) {
    uint32_t bytes = issue.sharedBytes + kReserved;
    // Of blocks of half a multiprocessor there are two.
    constexpr uint32_t kHalf = 114 * 1024;
    return bytes > kHalf ? bytes <= kShare : 2 * bytes <= kShare;
  };
  for (const Issue &issue : issues)
    if (issue.sharedBytes >= kLargeShared && !fits(issue))
      return;
  for (Issue &issue : issues)
    if (issue.sharedBytes >= kLargeShared)
      issue.carveout = kPercent;
}

int64_t PreparedProgram::grid(uint32_t launch) const {
  uint32_t first = firstIssue[launch];
  return first == firstIssue[launch + 1] ? 0 : issues[first].grid;
}

Status PreparedProgram::issue(const Driver &driver, uint32_t launch,
                              Stream stream, bool overlap) const {
  for (uint32_t i = firstIssue[launch]; i < firstIssue[launch + 1]; ++i) {
    const Issue &issue = issues[i];
    LaunchAttribute attributes[3];
    uint32_t count = 0;
    if (issue.cluster > 1) {
      LaunchAttribute &a = attributes[count++];
      a.id = LaunchAttribute::ClusterDimension;
      a.cluster = {issue.cluster, 1, 1};
    }
    // Nothing of this step precedes the first launch.
    if (overlap && issue.programmatic && i > 0) {
      LaunchAttribute &a = attributes[count++];
      a.id = LaunchAttribute::ProgrammaticSerialization;
      a.programmatic = 1;
    }
    if (issue.carveout) {
      LaunchAttribute &a = attributes[count++];
      a.id = LaunchAttribute::SharedCarveout;
      a.carveout = issue.carveout;
    }
    LaunchConfig config{
        issue.grid,        1,      1,          issue.threads, 1, 1,
        issue.sharedBytes, stream, attributes, count};
    Code code = driver.launchKernel(
        &config, issue.function, const_cast<void **>(issue.parameters.data()),
        nullptr);
    if (code != Code::Success)
      return driver.check(
          code, describeLaunch(model, *program.launches[launch].launch) +
                    " does not start");
  }
  return {};
}
