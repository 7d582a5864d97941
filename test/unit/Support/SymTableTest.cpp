//===- SymTableTest.cpp - Many sizes evaluated together -------------------===//
//
// SymExpr::evaluate() is the reference.
//
//===----------------------------------------------------------------------===//

#include "fusion/Support/SymTable.h"

#include <gtest/gtest.h>

using namespace fusion;

namespace {

TEST(SymTable, AgreesWithEvaluate) {
  SymTable table({"past", "seq"});
  for (const char *text :
       {"0", "-7", "past + seq", "2*past*seq - past - 1", "-seq", "seq",
        "-past*past*seq", "floordiv(past + seq + 3, 4)", "mod(-past, 5)",
        "mod(max(past, seq), 3)", "min(floordiv(past + 1, 2), seq)*seq - 9",
        "2*floordiv(past, 3)*floordiv(seq, 2)"})
    table.add(*SymExpr::parse(text));
  std::vector<int64_t> result;
  for (int64_t past : {-4, 0, 3, 17, 1000})
    for (int64_t seq : {1, 2, 9}) {
      ASSERT_FALSE(table.evaluate({past, seq}, result));
      for (uint32_t i = 0; i < table.size(); ++i)
        EXPECT_EQ(table.expression(i).evaluate([&](std::string_view name) {
          return std::optional<int64_t>(name == "past" ? past : seq);
        }),
                  result[i])
            << table.expression(i).str();
    }
}

TEST(SymTable, EqualExpressionsShareOnePlace) {
  SymTable table({"a", "b"});
  SymExpr a = SymExpr::symbol("a"), b = SymExpr::symbol("b");
  EXPECT_EQ(table.add(a + b), table.add(b + a));
  EXPECT_NE(table.add(a), table.add(b));
  EXPECT_EQ(3u, table.size());
}

TEST(SymTable, NamesTheExpressionWithoutAValue) {
  std::vector<int64_t> result;
  SymTable division({"n"});
  division.add(SymExpr::symbol("n"));
  uint32_t bad = division.add(*SymExpr::parse("floordiv(8, n)"));
  EXPECT_EQ(bad, division.evaluate({0}, result));
  EXPECT_FALSE(division.evaluate({2}, result));

  SymTable unknown({"n"});
  EXPECT_EQ(unknown.add(SymExpr::symbol("m")), unknown.evaluate({1}, result));

  SymTable overflow({"n"});
  uint32_t square = overflow.add(*SymExpr::parse("n*n"));
  EXPECT_EQ(square, overflow.evaluate({int64_t(1) << 32}, result));
  overflow.add(SymExpr(INT64_MAX) + 1);
  EXPECT_EQ(square + 1, overflow.evaluate({1}, result));
}

} // namespace
