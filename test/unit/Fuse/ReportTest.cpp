//===- ReportTest.cpp - Expectations --------------------------------------===//

#include "fusion/Fuse/Report.h"

#include "llvm/Support/JSON.h"

#include <gtest/gtest.h>

using namespace fusion;

static FusionReport makeReport() {
  FusionReport report;
  report.device = "host";
  SiteInBucket fused;
  fused.bucket = "main";
  fused.fused = true;
  fused.code = "FUSED";
  report.site("swiglu", "/a").buckets = {fused};
  report.site("swiglu", "/b").buckets = {fused};
  SiteReport &missed = report.site("swiglu", "/c");
  missed.outcome = Outcome::Illegal;
  SiteInBucket cycle;
  cycle.bucket = "main";
  cycle.code = "CYCLE";
  cycle.message = "a path comes back";
  missed.buckets = {cycle};
  return report;
}

TEST(Report, ExactAndAtLeast) {
  FusionReport report = makeReport();
  EXPECT_TRUE(checkExpectations("swiglu=2", report).ok());
  EXPECT_TRUE(checkExpectations("swiglu>=1", report).ok());
  EXPECT_TRUE(checkExpectations("swiglu>=2,add_rms_norm=0", report).ok());
  EXPECT_TRUE(checkExpectations("", report).ok());
  EXPECT_FALSE(checkExpectations("swiglu=3", report).ok());
  EXPECT_FALSE(checkExpectations("swiglu=1", report).ok());
  EXPECT_FALSE(checkExpectations("swiglu>=3", report).ok());
}

TEST(Report, AMissNamesTheFirstSite) {
  ExpectationResult result = checkExpectations("swiglu=3", makeReport());
  EXPECT_FALSE(result.usageError);
  EXPECT_NE(result.text.find("'/c'"), std::string::npos);
  EXPECT_NE(result.text.find("CYCLE"), std::string::npos);
}

TEST(Report, NoSiteIsExplained) {
  FusionReport report = makeReport();
  report.addAlmostMatched("softmax", "/exp", "PATTERN", "stopped: the sum");
  std::string text = checkExpectations("rope_attention=1", report).text;
  EXPECT_NE(text.find("found 0 of 0; first miss: softmax at '/exp', PATTERN: "
                      "stopped: the sum"),
            std::string::npos)
      << text;
  text = checkExpectations("add_rms_norm=1", report).text;
  EXPECT_NE(text.find("no node is an rms_norm of a sum of two streams"),
            std::string::npos)
      << text;
}

TEST(Report, NoneIsPrintedWhereSomethingIsNearlyOne) {
  FusionReport report = makeReport();
  report.addAlmostMatched("rope", "/add", "PATTERN", "another sum");
  std::string text;
  llvm::raw_string_ostream os(text);
  report.printSummary(os);
  EXPECT_NE(text.find("rope_attention           0   0"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("geglu"), std::string::npos) << text;
}

TEST(Report, UsageErrors) {
  FusionReport report = makeReport();
  for (const char *text : {"rms_norm=1", "swiglu", "swiglu=x", "swiglu=-1"})
    EXPECT_TRUE(checkExpectations(text, report).usageError) << text;
}

TEST(Report, AlmostMatchedIsNoSite) {
  FusionReport report = makeReport();
  report.addAlmostMatched("swiglu", "/d", "MULTI_USE", "used twice");
  EXPECT_EQ(report.found("swiglu"), 3u);
  EXPECT_EQ(report.fused("swiglu"), 2u);
}

TEST(Report, JsonHasASchema) {
  std::string text;
  llvm::raw_string_ostream os(text);
  makeReport().printJson(os);
  auto json = llvm::json::parse(text);
  ASSERT_TRUE(static_cast<bool>(json));
  const llvm::json::Object *object = json->getAsObject();
  EXPECT_EQ(object->getInteger("schema"), 1);
  EXPECT_EQ(object->getArray("sites")->size(), 3u);
}
