//===- Report.h - What was fused, what was not, and why ---------*- C++ -*-===//
//
// The report behind `--explain` and `--expect`: every site of a known pattern
// with its outcome in each bucket function, and totals.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_FUSE_REPORT_H
#define FUSION_FUSE_REPORT_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlir::remark::detail {
class MLIRRemarkStreamerBase;
} // namespace mlir::remark::detail

namespace fusion {

/// The kinds of sites that `--expect` counts, in the order of reports.
llvm::ArrayRef<llvm::StringRef> siteKinds();
/// The general rules that `--disable-fusion` knows besides.
llvm::ArrayRef<llvm::StringRef> ruleKinds();

enum class Outcome { Fused, NotProfitable, Illegal, Disabled, AlmostMatched };
llvm::StringRef stringify(Outcome outcome);

/// A site in one bucket function.
struct SiteInBucket {
  std::string bucket; ///< function name
  bool fused = false;
  std::string code;    ///< stable reason code: FUSED, CYCLE, ...
  std::string message; ///< where and why, for people
  std::string group;   ///< kind of the group that holds the site
  double flops = 0;
  double bytesBefore = 0, bytesAfter = 0;
  double secondsBefore = 0, secondsAfter = 0;
  std::optional<double> measuredShare; ///< of the bucket's time in a profile
  double ridge = 0; ///< FLOP/B at which the device turns compute-bound
};

struct SiteReport {
  std::string kind;
  std::string node;
  std::vector<std::string> nodes; ///< all nodes that take part
  std::vector<SiteInBucket> buckets;
  Outcome outcome = Outcome::Fused;
  bool fused() const { return outcome == Outcome::Fused; }
};

struct BucketTotals {
  std::string bucket;
  unsigned kernelsBefore = 0, kernelsAfter = 0;
  double bytesBefore = 0, bytesAfter = 0;
  double secondsBefore = 0, secondsAfter = 0;
  std::map<std::string, unsigned> groups; ///< by kind
  std::map<std::string, int64_t> sizes;   ///< that its figures are for
  double kernelSeconds = 0;               ///< of all its KernelReports
};

/// A function of a kernel, with what the assembler said of it.
struct StageReport {
  unsigned threads = 0, cluster = 1, registers = 0, sharedBytes = 0,
           spillBytes = 0;
};

/// A kernel of the card in one bucket, once its code is made.
struct KernelReport {
  std::string bucket, name, nodes; ///< nodes: of its first launch
  unsigned launches = 0;
  std::string family, choice; ///< template and tiles at the bucket's sizes
  std::string passedOver;     ///< why not the template preferred to it
  std::string unpacked;       ///< why quantised weights are read one by one
  double seconds = 0;         ///< of one launch, predicted
  std::vector<StageReport> stages;
};

struct FusionReport {
  std::string device;
  std::vector<SiteReport> sites;
  std::vector<BucketTotals> buckets;
  std::vector<KernelReport> kernels;

  /// The site, created on first use.
  SiteReport &site(llvm::StringRef kind, llvm::StringRef node);
  /// Something that looks like a pattern and was not recognised by Raise.
  void addAlmostMatched(llvm::StringRef kind, llvm::StringRef node,
                        llvm::StringRef code, llvm::StringRef message);
  /// The first that looks like a part of a site of this kind; null if none.
  const SiteReport *almost(llvm::StringRef kind) const;
  unsigned found(llvm::StringRef kind) const;
  unsigned fused(llvm::StringRef kind) const;

  /// A table of kinds, the misses, and the totals.
  void printSummary(llvm::raw_ostream &os) const;
  /// The summary and every site with its numbers.
  void printText(llvm::raw_ostream &os) const;
  void printJson(llvm::raw_ostream &os) const;
  void printHtml(llvm::raw_ostream &os) const;

private:
  std::map<std::pair<std::string, std::string>, size_t> places;
};

struct ExpectationResult {
  bool usageError = false; ///< text names an unknown kind or a bad number
  std::string text;        ///< empty when all is as expected
  bool ok() const { return text.empty(); }
};
/// `text` is like "add_rms_norm=4,swiglu>=2".
ExpectationResult checkExpectations(llvm::StringRef text,
                                    const FusionReport &report);

/// A remark streamer that records Raise's missed remarks in `report`: category
/// "raise", named by the pattern, with the arguments reason (the code), node,
/// stopped, expected and found.
std::unique_ptr<mlir::remark::detail::MLIRRemarkStreamerBase>
createReportStreamer(FusionReport &report);

} // namespace fusion

#endif // FUSION_FUSE_REPORT_H
