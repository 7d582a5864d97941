//===- SymExprTest.cpp - Polynomials over symbolic sizes ------------------===//

#include "fusion/Support/SymExpr.h"

#include <gtest/gtest.h>

using namespace fusion;

namespace {

const SymExpr past = SymExpr::symbol("past"), seq = SymExpr::symbol("seq");

SymExpr::Lookup values(int64_t p, int64_t s) {
  return [=](std::string_view name) -> std::optional<int64_t> {
    if (name == "past")
      return p;
    if (name == "seq")
      return s;
    return std::nullopt;
  };
}

TEST(SymExpr, OneNormalForm) {
  EXPECT_EQ(past + seq, seq + past);
  EXPECT_EQ("past + seq", (seq + past).str());
  EXPECT_EQ((past + seq) * (past - seq), past * past - seq * seq);
  EXPECT_EQ("0", (seq - seq).str());
  EXPECT_EQ("-past + 2*past*seq - 1", (seq * past * 2 - past - 1).str());
  EXPECT_NE(past, seq);
}

TEST(SymExpr, Inspection) {
  EXPECT_EQ(5, SymExpr(5).asConstant());
  EXPECT_EQ(0, SymExpr().asConstant());
  EXPECT_FALSE(seq.isConstant());
  EXPECT_EQ("seq", seq.asSymbol());
  EXPECT_FALSE((seq * 2).asSymbol());
  EXPECT_FALSE((seq * seq).asSymbol());
  EXPECT_EQ((std::set<std::string>{"past", "seq"}),
            SymExpr::floorDiv(past + 1, seq)->symbols());
}

TEST(SymExpr, FloorDivision) {
  EXPECT_EQ(seq * 2, *SymExpr::floorDiv(seq * 4, 2));
  EXPECT_EQ(seq * 2 + 1, *SymExpr::floorDiv(seq * 4 + 3, 2));
  EXPECT_EQ(SymExpr(-2), *SymExpr::floorDiv(-3, 2));
  EXPECT_EQ(past + 1, *SymExpr::floorDiv(past * seq + seq, seq));
  EXPECT_EQ("floordiv(seq + 1, 2)", SymExpr::floorDiv(seq + 1, 2)->str());
  EXPECT_FALSE(SymExpr::floorDiv(seq, 0));
  EXPECT_FALSE(SymExpr::floorDiv(seq, SymExpr()));
}

TEST(SymExpr, Remainders) {
  EXPECT_EQ(SymExpr(1), *SymExpr::mod(seq * 4 + 3, 2));
  EXPECT_EQ(SymExpr(0), *SymExpr::mod(seq * past, seq));
  EXPECT_EQ(SymExpr(1), *SymExpr::mod(-3, 2));
  EXPECT_EQ("mod(seq, 3)", SymExpr::mod(seq, 3)->str());
  EXPECT_FALSE(SymExpr::mod(seq, 0));
}

TEST(SymExpr, MinimumAndMaximum) {
  EXPECT_EQ(seq, SymExpr::min(seq, seq + 1));
  EXPECT_EQ(seq + 1, SymExpr::max(seq, seq + 1));
  EXPECT_EQ(SymExpr::min(past, seq), SymExpr::min(seq, past));
}

TEST(SymExpr, ParseReadsWhatStrWrites) {
  for (const char *text :
       {"0", "-7", "past + seq", "-past + 2*past*seq - 1", "-seq",
        "floordiv(past + seq + 3, 4)", "mod(max(past, seq), 3)",
        "min(floordiv(past + 1, 2), seq)*seq - 9"}) {
    auto e = SymExpr::parse(text);
    ASSERT_TRUE(e) << text;
    EXPECT_EQ(text, e->str());
  }
  EXPECT_EQ(seq * past + seq * seq, *SymExpr::parse(" seq * (past+ seq)"));
}

TEST(SymExpr, ParseRefuses) {
  for (const char *text :
       {"", "+", "seq +", "(seq", "seq)", "2 seq", "f(seq, 1)", "floordiv(seq)",
        "floordiv(seq, 0)", "9223372036854775808", "seq*", "mod(,)", "#",
        "overflow()"})
    EXPECT_FALSE(SymExpr::parse(text)) << text;
  EXPECT_FALSE(SymExpr::parse(std::string(100000, '(')));
  std::string deep = "seq", wide = "1";
  for (int i = 0; i < 200; ++i)
    deep = "floordiv(" + deep + " + 1, 2)";
  EXPECT_FALSE(SymExpr::parse(deep));
  // A polynomial with an absurd number of terms.
  for (int i = 0; i < 40; ++i)
    wide += "*(a + b + c + d + e)";
  EXPECT_FALSE(SymExpr::parse(wide));
}

TEST(SymExpr, Evaluation) {
  auto e = *SymExpr::parse("2*past*seq + floordiv(past, seq) - mod(past, 3)");
  EXPECT_EQ(2 * 7 * 2 + 3 - 1, e.evaluate(values(7, 2)));
  EXPECT_EQ(-2, SymExpr::parse("floordiv(past, seq)")->evaluate(values(-3, 2)));
  EXPECT_EQ(1, SymExpr::parse("mod(past, seq)")->evaluate(values(-3, 2)));
  EXPECT_EQ(-1, SymExpr::parse("mod(past, seq)")->evaluate(values(3, -2)));
  EXPECT_FALSE(SymExpr::symbol("other").evaluate(values(1, 1)));
  EXPECT_FALSE(SymExpr::parse("mod(past, seq)")->evaluate(values(1, 0)));
}

TEST(SymExpr, EvaluationOverflows) {
  EXPECT_FALSE((past * seq).evaluate(values(INT64_MAX, 2)));
  EXPECT_FALSE((past + seq).evaluate(values(INT64_MAX, 1)));
  auto e = *SymExpr::parse("floordiv(past, seq)");
  EXPECT_FALSE(e.evaluate(values(INT64_MIN, -1)));
}

TEST(SymExpr, CoefficientsOverflow) {
  SymExpr big(INT64_MAX);
  for (const SymExpr &e : {big + 1, big * seq * 2, (seq * big) + seq, -big - 2,
                           big * big, SymExpr(int64_t(1) << 62) * 4 * seq}) {
    EXPECT_TRUE(e.overflowed());
    EXPECT_FALSE(e.isConstant());
    EXPECT_FALSE(e.evaluate(values(0, 0)));
    EXPECT_FALSE(SymExpr::parse(e.str()));
    EXPECT_TRUE((e * 0).overflowed());
    EXPECT_TRUE((e - e).overflowed());
  }
  EXPECT_FALSE((big - 1 + 1).overflowed());
}

TEST(SymExpr, Substitution) {
  auto e = *SymExpr::parse("floordiv(past + seq, 2) + past");
  EXPECT_EQ(SymExpr(7), e.substitute({{"past", 4}, {"seq", 2}}));
  EXPECT_EQ(seq * 3, e.substitute({{"past", seq * 2}, {"seq", SymExpr()}}));
}

} // namespace
