//===- Measured.cpp - What a profile says of a run ------------------------===//

#include "Measured.h"

#include "Support.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::fuse;

static llvm::Error wrong(StringRef path, const Twine &why) {
  return llvm::createStringError("profile '" + path + "': " + why);
}

/// A site is `a, b` or `a, .. 3 more .., z`.
static std::vector<std::string> nodesOf(StringRef site) {
  std::vector<std::string> nodes;
  SmallVector<StringRef> parts;
  site.split(parts, ", ", -1, /*KeepEmpty=*/false);
  for (StringRef part : parts)
    if (!part.starts_with(".. "))
      nodes.push_back(part.str());
  return nodes;
}

llvm::Expected<Measured> Measured::read(StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return wrong(path, buffer.getError().message());
  llvm::Expected<llvm::json::Value> json =
      llvm::json::parse((*buffer)->getBuffer());
  if (!json)
    return wrong(path, llvm::toString(json.takeError()));
  const llvm::json::Object *root = json->getAsObject();
  const llvm::json::Array *events =
      root ? root->getArray("traceEvents") : nullptr;
  if (!events)
    return wrong(path, "expected a trace of fusion-run --profile, found no "
                       "traceEvents");
  Measured measured;
  for (const llvm::json::Value &value : *events) {
    const llvm::json::Object *event = value.getAsObject();
    const llvm::json::Object *args = event ? event->getObject("args") : nullptr;
    auto kernel = event ? event->getString("name") : std::nullopt;
    auto time = event ? event->getNumber("dur") : std::nullopt;
    auto site = args ? args->getString("site") : std::nullopt;
    auto program = args ? args->getString("program") : std::nullopt;
    if (!kernel || !time || !site || !program)
      return wrong(path, "expected events with name, dur, site and program, as "
                         "fusion-run --profile writes them");
    measured.all.push_back({kernel->str(), program->str(), nodesOf(*site),
                            args->getInteger("rows").value_or(0),
                            *time * 1e-6});
  }
  if (measured.all.empty())
    return wrong(path, "it holds no launches");
  return measured;
}

bool Measured::knows(ModuleOp module) const {
  llvm::StringSet<> nodes;
  for (const Event &event : all)
    for (const std::string &node : event.nodes)
      nodes.insert(node);
  return module
      .walk([&](Operation *op) {
        return nodes.contains(nodeName(op->getLoc())) ? WalkResult::interrupt()
                                                      : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Whether the run belongs to the function: by its rows, else by its name.
static bool belongs(const Measured::Event &event, func::FuncOp func) {
  auto bucket = func->getAttrOfType<DictionaryAttr>(FusionDialect::kBucketAttr);
  auto limit = [&](StringRef name) -> std::optional<int64_t> {
    auto attr = bucket ? bucket.getAs<IntegerAttr>(name) : IntegerAttr();
    if (!attr)
      return std::nullopt;
    return attr.getInt();
  };
  auto least = limit("min"), most = limit("max");
  if (event.rows == 0 || (!least && !most))
    return event.program == func.getName() || (!least && !most);
  return event.rows >= least.value_or(0) &&
         event.rows <= most.value_or(INT64_MAX);
}

MeasuredBucket::MeasuredBucket(const Measured &measured, func::FuncOp func) {
  llvm::StringMap<unsigned> kernels;
  for (const Measured::Event &event : measured.events()) {
    if (!belongs(event, func))
      continue;
    auto [it, inserted] =
        kernels.try_emplace(event.kernel, kernelSeconds.size());
    if (inserted)
      kernelSeconds.push_back(0);
    kernelSeconds[it->second] += event.seconds;
    seconds += event.seconds;
    for (const std::string &node : event.nodes)
      if (auto &list = kernelsOf[node]; !llvm::is_contained(list, it->second))
        list.push_back(it->second);
  }
}

std::optional<double> MeasuredBucket::share(ArrayRef<Operation *> ops) const {
  if (seconds <= 0)
    return std::nullopt;
  llvm::SmallSetVector<unsigned, 4> kernels;
  for (const std::string &node : nodeNames(ops))
    if (auto it = kernelsOf.find(node); it != kernelsOf.end())
      kernels.insert(it->second.begin(), it->second.end());
  if (kernels.empty())
    return std::nullopt;
  double sum = 0;
  for (unsigned kernel : kernels)
    sum += kernelSeconds[kernel];
  return sum / seconds;
}
