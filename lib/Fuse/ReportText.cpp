//===- ReportText.cpp - The fusion report for people ----------------------===//

#include "fusion/Fuse/Report.h"

#include "fusion/Support/Printable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace fusion;
using llvm::formatv;
using llvm::raw_ostream;
using llvm::StringRef;

static std::string scaled(double value, StringRef unit) {
  static const char *const prefixes[] = {"", "k", "M", "G", "T"};
  unsigned step = 0;
  while (value >= 1000 && step < 4) {
    value /= 1000;
    ++step;
  }
  return formatv("{0:f1} {1}{2}", value, prefixes[step], unit).str();
}

static std::string duration(double seconds) {
  return seconds < 1e-3 ? formatv("{0:f1} us", seconds * 1e6).str()
                        : formatv("{0:f2} ms", seconds * 1e3).str();
}

static const SiteInBucket *firstMiss(const SiteReport &site) {
  auto it = llvm::find_if(site.buckets,
                          [](const SiteInBucket &b) { return !b.fused; });
  return it == site.buckets.end() ? nullptr : &*it;
}

static void printKinds(const FusionReport &report, raw_ostream &os) {
  os << "fusion                 fused  of\n";
  bool any = false;
  for (StringRef kind : siteKinds()) {
    unsigned found = report.found(kind);
    // None is an answer where something is nearly one: the misses say what.
    if (found == 0 && !report.almost(kind))
      continue;
    any = true;
    os << "  " << llvm::left_justify(kind, 18)
       << llvm::format("%8u%4u\n", report.fused(kind), found);
  }
  if (!any)
    os << "  no site of a known pattern\n";
}

static void printMisses(const FusionReport &report, raw_ostream &os) {
  for (const SiteReport &site : report.sites)
    if (const SiteInBucket *miss = site.fused() ? nullptr : firstMiss(site)) {
      os << "  " << site.kind << " at '" << site.node
         << "': " << stringify(site.outcome) << ", " << miss->code;
      if (!miss->bucket.empty())
        os << " in " << miss->bucket;
      os << ": " << miss->message << "\n";
    }
}

static void printTotals(const FusionReport &report, raw_ostream &os) {
  os << "\nbucket       kernels        bytes moved              predicted on "
     << report.device << "\n";
  for (const BucketTotals &b : report.buckets) {
    os << "  " << llvm::left_justify(b.bucket, 10)
       << llvm::right_justify(
              formatv("{0} -> {1}", b.kernelsBefore, b.kernelsAfter).str(), 12)
       << llvm::right_justify(formatv("{0} -> {1}", scaled(b.bytesBefore, "B"),
                                      scaled(b.bytesAfter, "B"))
                                  .str(),
                              24)
       << llvm::right_justify(formatv("{0} -> {1}", duration(b.secondsBefore),
                                      duration(b.secondsAfter))
                                  .str(),
                              28)
       << "\n";
  }
}

/// Lines with names of the file in them, made fit to print.
static void printLines(raw_ostream &os,
                       llvm::function_ref<void(raw_ostream &)> print) {
  std::string text;
  llvm::raw_string_ostream lines(text);
  print(lines);
  for (StringRef rest = text, line; !rest.empty();) {
    std::tie(line, rest) = rest.split('\n');
    os << printableMessage(line.str()) << "\n";
  }
}

void FusionReport::printSummary(raw_ostream &os) const {
  printLines(os, [&](raw_ostream &lines) {
    printKinds(*this, lines);
    printMisses(*this, lines);
    printTotals(*this, lines);
  });
}

static void printSite(const SiteReport &site, raw_ostream &os) {
  os << "\n"
     << site.kind << " at '" << site.node << "': " << stringify(site.outcome)
     << "\n";
  os << "  nodes: " << llvm::join(site.nodes, " ") << "\n";
  for (const SiteInBucket &b : site.buckets) {
    if (b.bucket.empty()) {
      os << "  " << b.code << ": " << b.message << "\n";
      continue;
    }
    double intensity = b.bytesAfter > 0 ? b.flops / b.bytesAfter : 0;
    os << "  " << llvm::left_justify(b.bucket, 8) << b.code;
    if (!b.message.empty())
      os << " (" << b.message << ")";
    os << formatv("; {0}; bytes {1} -> {2}; {3:f2} FLOP/B, ridge {4:f0}: {5} "
                  "bound; {6} -> {7}",
                  scaled(b.flops, "FLOP"), scaled(b.bytesBefore, "B"),
                  scaled(b.bytesAfter, "B"), intensity, b.ridge,
                  intensity < b.ridge ? "memory" : "compute",
                  duration(b.secondsBefore), duration(b.secondsAfter));
    if (b.measuredShare)
      os << formatv("; measured {0:f2} %", *b.measuredShare * 100);
    os << "\n";
  }
}

static void printKernels(const FusionReport &report, const BucketTotals &bucket,
                         raw_ostream &os) {
  if (bucket.kernelSeconds == 0)
    return;
  os << "kernels of " << bucket.bucket;
  StringRef separator = " at ";
  for (const auto &[symbol, size] : bucket.sizes) {
    os << separator << symbol << " " << size;
    separator = ", ";
  }
  os << ": " << duration(bucket.kernelSeconds) << " predicted\n";
  for (const KernelReport &k : report.kernels) {
    if (k.bucket != bucket.bucket)
      continue;
    os << formatv("  {0,4} x {1,9}  {2}: {3}; {4}", k.launches,
                  duration(k.seconds), k.name, k.family, k.choice);
    for (const StageReport &s : k.stages)
      os << formatv("; {0} registers, {1} of shared memory, {2} B spilled",
                    s.registers, scaled(s.sharedBytes, "B"), s.spillBytes);
    if (!k.passedOver.empty())
      os << "; not the template before it: " << k.passedOver;
    if (!k.unpacked.empty())
      os << "; quantised weights are read element by element: " << k.unpacked;
    os << "\n";
  }
}

/// What follows the summary.
static void printDetails(const FusionReport &report, raw_ostream &os) {
  for (const BucketTotals &b : report.buckets) {
    os << "\ngroups of " << b.bucket << ":";
    StringRef separator = " ";
    for (const auto &[kind, count] : b.groups) {
      os << separator << count << " " << kind;
      separator = ", ";
    }
    os << "\n";
    printKernels(report, b, os);
  }
  for (const SiteReport &site : report.sites)
    printSite(site, os);
}

void FusionReport::printText(raw_ostream &os) const {
  printSummary(os);
  printLines(os, [&](raw_ostream &lines) { printDetails(*this, lines); });
}

//===----------------------------------------------------------------------===//
// HTML
//===----------------------------------------------------------------------===//

static std::string escape(StringRef text) {
  std::string result;
  for (char c : text) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else
      result += c;
  }
  return result;
}

void FusionReport::printHtml(raw_ostream &os) const {
  std::string summary;
  llvm::raw_string_ostream text(summary);
  printSummary(text);
  os << "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
        "<title>fusion report</title>\n<style>body{font:14px sans-serif;margin:"
        "2em}table{border-collapse:collapse}td,th{border:1px solid #bbb;"
        "padding:2px 8px;text-align:left}</style></head><body>\n"
        "<h1>Fusion report</h1>\n<pre>"
     << escape(summary)
     << "</pre>\n<table><tr><th>kind</th><th>node</th><th>outcome</th>"
        "<th>bucket</th><th>code</th><th>FLOP</th><th>bytes before</th>"
        "<th>bytes after</th><th>us before</th><th>us after</th><th>why</th>"
        "</tr>\n";
  for (const SiteReport &site : sites)
    for (const SiteInBucket &b : site.buckets)
      os << "<tr><td>" << site.kind << "</td><td>" << escape(site.node)
         << "</td><td>" << stringify(site.outcome) << "</td><td>" << b.bucket
         << "</td><td>" << b.code << "</td>"
         << formatv("<td>{0:f0}</td><td>{1:f0}</td><td>{2:f0}</td>"
                    "<td>{3:f2}</td><td>{4:f2}</td>",
                    b.flops, b.bytesBefore, b.bytesAfter, b.secondsBefore * 1e6,
                    b.secondsAfter * 1e6)
         << "<td>" << escape(b.message) << "</td></tr>\n";
  os << "</table>\n</body></html>\n";
}
