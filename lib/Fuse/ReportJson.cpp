//===- ReportJson.cpp - The fusion report for programs --------------------===//

#include "fusion/Fuse/Report.h"

#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

using namespace fusion;

/// A name of the file; bytes that are no UTF-8 are no JSON either.
static std::string text(llvm::StringRef name) {
  return llvm::json::isUTF8(name) ? name.str() : llvm::json::fixUTF8(name);
}

/// JSON in ASCII alone: marks of writing direction and the like are said by
/// number, so that a name steers no terminal.
static void printAscii(llvm::StringRef json, llvm::raw_ostream &os) {
  llvm::SmallVector<llvm::UTF16, 2> units;
  for (size_t i = 0; i < json.size();) {
    auto first = static_cast<unsigned char>(json[i]);
    size_t length =
        std::min<size_t>(llvm::getNumBytesForUTF8(first), json.size() - i);
    llvm::StringRef character = json.substr(i, length);
    i += length;
    units.clear();
    if (first < 0x7f)
      os << character;
    else if (llvm::convertUTF8ToUTF16String(character, units))
      for (llvm::UTF16 unit : units)
        os << llvm::format("\\u%04x", unsigned(unit));
  }
}

/// Raised when a field changes its meaning.
static constexpr int schemaVersion = 1;

static void printSite(llvm::json::OStream &json, const SiteReport &site) {
  json.attribute("kind", site.kind);
  json.attribute("node", text(site.node));
  json.attribute("outcome", stringify(site.outcome));
  json.attributeArray("nodes", [&] {
    for (const std::string &node : site.nodes)
      json.value(text(node));
  });
  json.attributeArray("buckets", [&] {
    for (const SiteInBucket &b : site.buckets)
      json.object([&] {
        json.attribute("bucket", text(b.bucket));
        json.attribute("fused", b.fused);
        json.attribute("code", b.code);
        json.attribute("message", text(b.message));
        json.attribute("flops", b.flops);
        json.attribute("bytes_before", b.bytesBefore);
        json.attribute("bytes_after", b.bytesAfter);
        json.attribute("us_before", b.secondsBefore * 1e6);
        json.attribute("us_after", b.secondsAfter * 1e6);
        json.attribute("ridge", b.ridge);
        if (b.measuredShare)
          json.attribute("measured_share", *b.measuredShare);
      });
  });
}

static void printKernel(llvm::json::OStream &json, const KernelReport &k) {
  json.attribute("bucket", text(k.bucket));
  json.attribute("name", text(k.name));
  json.attribute("nodes", text(k.nodes));
  json.attribute("launches", k.launches);
  json.attribute("template", k.family);
  json.attribute("choice", k.choice);
  json.attribute("us", k.seconds * 1e6);
  if (!k.passedOver.empty())
    json.attribute("passed_over", k.passedOver);
  if (!k.unpacked.empty())
    json.attribute("unpacked", k.unpacked);
  json.attributeArray("stages", [&] {
    for (const StageReport &s : k.stages)
      json.object([&] {
        json.attribute("threads", s.threads);
        json.attribute("cluster", s.cluster);
        json.attribute("registers", s.registers);
        json.attribute("shared_bytes", s.sharedBytes);
        json.attribute("spill_bytes", s.spillBytes);
      });
  });
}

void FusionReport::printJson(llvm::raw_ostream &os) const {
  std::string document;
  llvm::raw_string_ostream stream(document);
  llvm::json::OStream json(stream, /*IndentSize=*/1);
  json.object([&] {
    json.attribute("schema", schemaVersion);
    json.attribute("device", device);
    json.attributeObject("kinds", [&] {
      for (llvm::StringRef kind : siteKinds())
        json.attributeObject(kind, [&] {
          json.attribute("found", found(kind));
          json.attribute("fused", fused(kind));
        });
    });
    json.attributeArray("buckets", [&] {
      for (const BucketTotals &b : buckets)
        json.object([&] {
          json.attribute("name", text(b.bucket));
          json.attribute("kernels_before", b.kernelsBefore);
          json.attribute("kernels_after", b.kernelsAfter);
          json.attribute("bytes_before", b.bytesBefore);
          json.attribute("bytes_after", b.bytesAfter);
          json.attribute("us_before", b.secondsBefore * 1e6);
          json.attribute("us_after", b.secondsAfter * 1e6);
          if (b.kernelSeconds > 0)
            json.attribute("us_kernels", b.kernelSeconds * 1e6);
          json.attributeObject("sizes", [&] {
            for (const auto &[symbol, size] : b.sizes)
              json.attribute(text(symbol), size);
          });
          json.attributeObject("groups", [&] {
            for (const auto &[kind, count] : b.groups)
              json.attribute(kind, count);
          });
        });
    });
    json.attributeArray("kernels", [&] {
      for (const KernelReport &k : kernels)
        json.object([&] { printKernel(json, k); });
    });
    json.attributeArray("sites", [&] {
      for (const SiteReport &site : sites)
        json.object([&] { printSite(json, site); });
    });
  });
  printAscii(document, os);
  os << "\n";
}
