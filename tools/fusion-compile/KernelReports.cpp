//===- KernelReports.cpp - What is said of the card's kernels -------------===//

#include "KernelReports.h"

#include "fusion/Dialect/Plan/PlanOps.h"
#include "fusion/Kernels/CardPrediction.h"

#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::compile;

namespace {

/// The launches of one program by kernel and sizes.
class ProgramReport {
public:
  ProgramReport(const llvm::StringMap<const HopperKernel *> &kernels,
                BucketTotals &bucket)
      : kernels(kernels), bucket(bucket) {}

  void add(plan::LaunchOp launch);
  void finish(FusionReport &report);

private:
  std::vector<int64_t> sizesOf(plan::LaunchOp launch) const;

  const llvm::StringMap<const HopperKernel *> &kernels;
  BucketTotals &bucket;
  std::vector<KernelReport> entries;
  std::map<std::pair<std::string, std::vector<int64_t>>, size_t> places;
};

} // namespace

std::vector<int64_t> ProgramReport::sizesOf(plan::LaunchOp launch) const {
  std::vector<int64_t> sizes;
  for (const SymExpr &size : getExprs(launch.getSizes()))
    sizes.push_back(size.evaluate([&](std::string_view name) {
                          auto it = bucket.sizes.find(std::string(name));
                          return std::optional<int64_t>(
                              it == bucket.sizes.end() ? 1 : it->second);
                        })
                        .value_or(1));
  return sizes;
}

void ProgramReport::add(plan::LaunchOp launch) {
  auto it = kernels.find(launch.getKernel());
  if (it == kernels.end())
    return;
  const HopperKernel &kernel = *it->second;
  std::vector<int64_t> sizes = sizesOf(launch);
  auto [place, isNew] =
      places.try_emplace({kernel.name, sizes}, entries.size());
  if (!isNew) {
    ++entries[place->second].launches;
    return;
  }
  KernelReport &entry = entries.emplace_back();
  entry.launches = 1;
  entry.bucket = bucket.bucket;
  entry.name = kernel.name;
  entry.nodes = launch.getSite().value_or("").str();
  entry.passedOver = kernel.passedOver;
  auto op = SymbolTable::lookupNearestSymbolFrom<KernelOp>(
      launch, launch.getKernelAttr());
  kernels::CardPrediction prediction = kernels::predictLaunch(
      op, kernel.launch, sizes, *target::findDevice("h200"));
  entry.family = prediction.family;
  entry.choice = prediction.choice;
  entry.seconds = prediction.seconds;
  entry.unpacked = kernels::whyNotLowBit(op, kernel.launch);
  for (const artifact::CardStage &stage : kernel.launch.stages)
    entry.stages.push_back({stage.threads, stage.cluster, stage.registers,
                            stage.sharedBytes + stage.staticSharedBytes,
                            stage.spillBytes});
}

void ProgramReport::finish(FusionReport &report) {
  for (KernelReport &entry : entries) {
    bucket.kernelSeconds += entry.launches * entry.seconds;
    report.kernels.push_back(std::move(entry));
  }
}

void compile::reportKernels(ModuleOp module, ArrayRef<HopperKernel> kernels,
                            FusionReport &report) {
  llvm::StringMap<const HopperKernel *> byName;
  for (const HopperKernel &kernel : kernels)
    byName[kernel.name] = &kernel;
  for (auto program : module.getOps<plan::ProgramOp>()) {
    StringRef name = program.getSymName();
    if (program.getDevice() != StringRef("card") || program.getSet())
      continue;
    auto bucket = llvm::find_if(report.buckets, [&](const BucketTotals &b) {
      StringRef rest = name;
      return rest.consume_front(b.bucket) && (rest.empty() || rest == "_card");
    });
    if (bucket == report.buckets.end())
      continue;
    ProgramReport entries(byName, *bucket);
    for (auto launch : program.getOps<plan::LaunchOp>())
      entries.add(launch);
    entries.finish(report);
  }
}
