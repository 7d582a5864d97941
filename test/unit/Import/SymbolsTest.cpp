//===- SymbolsTest.cpp - Merging of sizes ---------------------------------===//

#include "Symbols.h"

#include <gtest/gtest.h>

using namespace fusion;

namespace {

SymExpr parse(const char *text) { return *SymExpr::parse(text); }

struct SymbolsTest : testing::Test {
  SymExpr declare(const char *name) {
    symbols.addPlainName(name);
    return symbols.declare(name, "unnamed");
  }
  Symbols symbols;
};

TEST_F(SymbolsTest, LaterSymbolGivesWay) {
  SymExpr a = declare("a"), b = declare("b");
  EXPECT_TRUE(symbols.unify(a, b));
  EXPECT_EQ(symbols.resolve(b), a);
  EXPECT_TRUE(symbols.changed());
}

TEST_F(SymbolsTest, SumIsKeptAsTheBase) {
  SymExpr seq = declare("seq"), total = declare("total");
  SymExpr past = declare("past");
  EXPECT_TRUE(symbols.unify(total, past + seq));
  EXPECT_EQ(symbols.resolve(total).str(), "past + seq");
  EXPECT_EQ(symbols.resolve(past), past);
}

TEST_F(SymbolsTest, CommonFactorsCancel) {
  SymExpr b = declare("b"), s = declare("s"), c = declare("c");
  EXPECT_TRUE(symbols.unify(b * s * SymExpr(64), c * s * SymExpr(64)));
  EXPECT_EQ(symbols.resolve(c), b);
}

TEST_F(SymbolsTest, ConstantsConflict) {
  EXPECT_FALSE(symbols.unify(4, 5));
  // a + 2 == 1 has no size a.
  EXPECT_FALSE(symbols.unify(declare("a") + SymExpr(2), 1));
  EXPECT_FALSE(symbols.changed());
}

TEST_F(SymbolsTest, WhatCannotBeSolvedIsAGuard) {
  SymExpr a = declare("a"), b = declare("b");
  EXPECT_TRUE(symbols.unify(a * b, a * a + SymExpr(3)));
  EXPECT_FALSE(symbols.changed());
  EXPECT_EQ(symbols.guards().count("a*b == a*a + 3"), 1u);
}

TEST_F(SymbolsTest, ChainsResolveFully) {
  SymExpr a = declare("a"), b = declare("b"), c = declare("c");
  EXPECT_TRUE(symbols.unify(c, b + SymExpr(1)));
  EXPECT_TRUE(symbols.unify(b, a));
  EXPECT_EQ(symbols.resolve(c), a + SymExpr(1));
}

TEST_F(SymbolsTest, Proofs) {
  SymExpr a = declare("a"), b = declare("b");
  EXPECT_TRUE(symbols.provesAtMost(a, a + b));
  EXPECT_FALSE(symbols.provesAtMost(a, b));
  EXPECT_TRUE(symbols.provesUnequal(a, -1));
  EXPECT_FALSE(symbols.provesUnequal(a, 1));
  EXPECT_TRUE(symbols.provesAtMost(0, parse("floordiv(a, 2)")));
  EXPECT_FALSE(symbols.provesAtMost(0, parse("min(a - 3, b)")));
}

TEST_F(SymbolsTest, AssumptionsBoundSymbols) {
  SymExpr a = declare("a");
  symbols.assumeAtMost(a, 256);
  symbols.assumeAtMost(a, 512);
  EXPECT_EQ(symbols.upperBounds().at("a"), 256);
  EXPECT_EQ(symbols.guards().count("a <= 256"), 1u);
}

TEST_F(SymbolsTest, ExpressionsInNames) {
  declare("past");
  declare("seq");
  EXPECT_EQ(symbols.declare("seq + past", "x").str(), "past + seq");
}

TEST_F(SymbolsTest, ExpressionOverUnboundNamesIsOneSymbol) {
  EXPECT_EQ(symbols.declare("old + new", "x").str(), "old___new");
}

TEST_F(SymbolsTest, OddNamesStayApart) {
  SymExpr a = symbols.declare("a-b", "x"), b = symbols.declare("a.b!", "x");
  SymExpr c = symbols.declare("a_b", "x"), again = symbols.declare("a-b", "x");
  EXPECT_NE(a, c);
  EXPECT_NE(a, b);
  EXPECT_EQ(a, again);
  EXPECT_EQ(symbols.declare("3rd", "x").str(), "d_3rd");
  EXPECT_EQ(symbols.declare("", "ids_dim0").str(), "ids_dim0");
}

} // namespace
