//===- Report.cpp - What was fused, what was not, and why -----------------===//

#include "fusion/Fuse/Report.h"

#include "mlir/IR/Remarks.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace fusion;
using llvm::ArrayRef;
using llvm::StringRef;
using llvm::Twine;

ArrayRef<StringRef> fusion::siteKinds() {
  static const StringRef kinds[] = {"add_rms_norm",   "add_layer_norm",
                                    "swiglu",         "geglu",
                                    "rope_attention", "dequant_matmul"};
  return kinds;
}

ArrayRef<StringRef> fusion::ruleKinds() {
  static const StringRef kinds[] = {"attention", "prologue",  "epilogue", "row",
                                    "fold",      "pointwise", "siblings"};
  return kinds;
}

StringRef fusion::stringify(Outcome outcome) {
  switch (outcome) {
  case Outcome::Fused:
    return "fused";
  case Outcome::NotProfitable:
    return "not profitable";
  case Outcome::Illegal:
    return "illegal";
  case Outcome::Disabled:
    return "switched off";
  case Outcome::AlmostMatched:
    return "almost matched";
  }
  return "";
}

SiteReport &FusionReport::site(StringRef kind, StringRef node) {
  auto [it, inserted] =
      places.try_emplace({kind.str(), node.str()}, sites.size());
  if (inserted) {
    sites.emplace_back();
    sites.back().kind = kind.str();
    sites.back().node = node.str();
  }
  return sites[it->second];
}

void FusionReport::addAlmostMatched(StringRef kind, StringRef node,
                                    StringRef code, StringRef message) {
  SiteReport &entry = site(kind, node);
  // What a later pattern matched after all is no miss.
  if (!entry.buckets.empty() && entry.outcome != Outcome::AlmostMatched)
    return;
  entry.outcome = Outcome::AlmostMatched;
  entry.nodes = {node.str()};
  SiteInBucket where;
  where.code = code.str();
  where.message = message.str();
  entry.buckets = {where};
}

unsigned FusionReport::found(StringRef kind) const {
  return llvm::count_if(sites, [&](const SiteReport &s) {
    return s.kind == kind && s.outcome != Outcome::AlmostMatched;
  });
}

unsigned FusionReport::fused(StringRef kind) const {
  return llvm::count_if(
      sites, [&](const SiteReport &s) { return s.kind == kind && s.fused(); });
}

//===----------------------------------------------------------------------===//
// Expectations
//===----------------------------------------------------------------------===//

static ExpectationResult usage(const Twine &text) { return {true, text.str()}; }

namespace {
/// What a site of a kind is, and the patterns of Raise that it is made of.
struct KindText {
  StringRef kind, text;
  std::vector<StringRef> patterns;
};
} // namespace

static const KindText &describeKind(StringRef kind) {
  static const KindText texts[] = {
      {"rope_attention",
       "an attention of rotated queries and keys",
       {"attention", "softmax", "rope"}},
      {"dequant_matmul", "a product with weights of fewer bits", {}},
      {"swiglu", "silu(gate) * up of one shape", {"silu"}},
      {"geglu", "gelu(gate) * up of one shape", {"gelu"}},
      {"add_rms_norm", "an rms_norm of a sum of two streams", {"rms_norm"}},
      {"add_layer_norm",
       "a layer_norm of a sum of two streams",
       {"layer_norm", "rms_norm"}}};
  static const KindText unknown = {"", "such a site", {}};
  for (const KindText &text : texts)
    if (text.kind == kind)
      return text;
  return unknown;
}

const SiteReport *FusionReport::almost(StringRef kind) const {
  for (const SiteReport &site : sites)
    if (site.outcome == Outcome::AlmostMatched &&
        llvm::is_contained(describeKind(kind).patterns, site.kind))
      return &site;
  return nullptr;
}

static std::string missText(const SiteReport &site) {
  for (const SiteInBucket &bucket : site.buckets)
    if (!bucket.fused)
      return "'" + site.node + "', " + bucket.code + ": " + bucket.message;
  return "";
}

/// The first miss of a kind, for the message: a site that was not fused, else
/// what is nearly a part of one, else what there is none of.
static std::string firstMiss(StringRef kind, const FusionReport &report) {
  for (const SiteReport &site : report.sites)
    if (site.kind == kind && !site.fused())
      if (std::string text = missText(site); !text.empty())
        return "; first miss: " + text;
  if (const SiteReport *almost = report.almost(kind))
    return "; first miss: " + almost->kind + " at " + missText(*almost);
  if (report.found(kind) == 0)
    return "; no node is " + describeKind(kind).text.str() + ", nor nearly one";
  return "";
}

static std::string checkOne(StringRef kind, bool least, unsigned number,
                            const FusionReport &report) {
  unsigned fused = report.fused(kind);
  if (least ? fused >= number : fused == number)
    return "";
  return llvm::formatv("expected {0}{1} {2} sites to be fused, found {3} of "
                       "{4}{5}",
                       least ? "at least " : "", number, kind, fused,
                       report.found(kind), firstMiss(kind, report))
      .str();
}

ExpectationResult fusion::checkExpectations(StringRef text,
                                            const FusionReport &report) {
  std::vector<std::string> problems;
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    bool least = part.contains(">=");
    auto [kind, count] = part.split(least ? ">=" : "=");
    kind = kind.trim();
    unsigned number = 0;
    if (count.trim().getAsInteger(10, number))
      return usage("expected KIND=NUMBER or KIND>=NUMBER, found '" + part +
                   "'");
    if (!llvm::is_contained(siteKinds(), kind))
      return usage("unknown kind '" + kind + "', expected one of " +
                   llvm::join(siteKinds(), ", "));
    if (std::string problem = checkOne(kind, least, number, report);
        !problem.empty())
      problems.push_back(problem);
  }
  return {false, llvm::join(problems, "\n")};
}

//===----------------------------------------------------------------------===//
// Remarks of Raise
//===----------------------------------------------------------------------===//

static std::string nameOf(mlir::Location loc) {
  std::string name = "unnamed";
  loc->walk([&](mlir::Location inner) {
    auto named = mlir::dyn_cast<mlir::NameLoc>(inner);
    if (!named)
      return mlir::WalkResult::advance();
    name = named.getName().str();
    return mlir::WalkResult::interrupt();
  });
  return name;
}

namespace {
/// Listens to the remarks of category `raise`: the remark's name is the
/// pattern, its arguments are reason, node, stopped, expected and found.
class ReportStreamer final
    : public mlir::remark::detail::MLIRRemarkStreamerBase {
public:
  explicit ReportStreamer(FusionReport &report) : report(report) {}

  void streamOptimizationRemark(
      const mlir::remark::detail::Remark &remark) override {
    auto type = remark.getRemarkType();
    bool missed = type == llvm::remarks::Type::Missed ||
                  type == llvm::remarks::Type::Failure;
    if (!missed || remark.getCategoryName() != "raise")
      return;
    std::string node = nameOf(remark.getLocation()), code, message;
    for (const auto &arg : remark.getArgs()) {
      if (arg.key == "node")
        node = arg.val;
      else if (arg.key == "reason")
        code = arg.val;
      else
        message += (message.empty() ? "" : ", ") +
                   (arg.key == "Remark" ? "" : arg.key + ": ") + arg.val;
    }
    report.addAlmostMatched(remark.getRemarkName(), node, code, message);
  }

private:
  FusionReport &report;
};
} // namespace

std::unique_ptr<mlir::remark::detail::MLIRRemarkStreamerBase>
fusion::createReportStreamer(FusionReport &report) {
  return std::make_unique<ReportStreamer>(report);
}
