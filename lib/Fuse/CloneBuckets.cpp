//===- CloneBuckets.cpp - One function for each class of token rows -------===//

#include "Buckets.h"

#include "fusion/Dialect/Fusion/Symbols.h"
#include "fusion/Fuse/Passes.h"
#include "fusion/Target/Device.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::fuse;

namespace fusion {
#define GEN_PASS_DEF_CLONEBUCKETS
#include "fusion/Fuse/Passes.h.inc"
} // namespace fusion

//===----------------------------------------------------------------------===//
// Token rows
//===----------------------------------------------------------------------===//

static bool isTokenIds(Value argument) {
  auto type = dyn_cast<RankedTensorType>(argument.getType());
  return type && type.getRank() == 2 && type.getElementType().isInteger();
}

/// Whether `value`, through casts and views, is the index of a gather from a
/// constant along its first axis.
static bool picksRows(Value value, unsigned depth = 0) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    OpClass kind = classOf(user);
    if (kind == OpClass::Gather && use.getOperandNumber() == 1 &&
        user->getNumOperands() == 2)
      return true;
    bool passes = kind == OpClass::View || isa<CastOp>(user);
    if (passes && depth < 4 && picksRows(user->getResult(0), depth + 1))
      return true;
  }
  return false;
}

static std::optional<TokenRows> rowsOf(Value argument) {
  SymShape shape = getSymShape(argument);
  if (shape.size() < 2)
    return std::nullopt;
  auto tokens = shape[1].asSymbol();
  if (!tokens)
    return std::nullopt;
  TokenRows rows{shape[0] * shape[1], *tokens, {}};
  for (const std::string &symbol : rows.rows.symbols())
    rows.all.push_back(symbol);
  return rows;
}

std::optional<TokenRows> fuse::findTokenRows(func::FuncOp func) {
  for (auto [i, argument] : llvm::enumerate(func.getArguments())) {
    auto role = func.getArgAttrOfType<StringAttr>(i, FusionDialect::kRoleAttr);
    auto name = func.getArgAttrOfType<StringAttr>(i, FusionDialect::kNameAttr);
    if ((role && role == "token_ids") || (name && name == "inputs_embeds"))
      return rowsOf(argument);
  }
  for (Value argument : func.getArguments())
    if (isTokenIds(argument) && picksRows(argument))
      return rowsOf(argument);
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Bucket attribute
//===----------------------------------------------------------------------===//

DictionaryAttr fuse::makeBucket(MLIRContext *context, const SymExpr &rows,
                                int64_t min, int64_t max,
                                const std::map<std::string, int64_t> &fixed) {
  Builder b(context);
  NamedAttrList attrs;
  attrs.append("rows", getExprAttr(context, rows));
  if (min >= 0)
    attrs.append("min", b.getI64IntegerAttr(min));
  if (max >= 0)
    attrs.append("max", b.getI64IntegerAttr(max));
  NamedAttrList values;
  for (const auto &[name, value] : fixed)
    values.append(name, b.getI64IntegerAttr(value));
  if (!values.empty())
    attrs.append("fixed", values.getDictionary(context));
  return attrs.getDictionary(context);
}

/// Rows of a token of each sequence: one, or as many as the batch always has.
static int64_t rowsOfStep(const TokenRows &rows) {
  return rows.rows.evaluate([](std::string_view) { return 1; }).value_or(1);
}

/// Tokens of a sequence that are typical of a bucket: its only number, a few,
/// or a prompt.
static int64_t likelyTokens(DictionaryAttr bucket, const TokenRows &rows) {
  auto max = bucket.getAs<IntegerAttr>("max");
  int64_t step = std::max<int64_t>(1, rowsOfStep(rows));
  return max ? std::max<int64_t>(1, max.getInt() / 4 / step) : 512;
}

std::map<std::string, int64_t> fuse::likelySizes(func::FuncOp func) {
  static constexpr int64_t context = 1024;
  std::map<std::string, int64_t> sizes;
  std::optional<TokenRows> rows = findTokenRows(func);
  for (const std::string &symbol : collectSymbols(func))
    sizes[symbol] = context;
  if (!rows)
    return sizes;
  for (const std::string &symbol : rows->all)
    sizes[symbol] = 1;
  auto bucket = func->getAttrOfType<DictionaryAttr>(FusionDialect::kBucketAttr);
  sizes[rows->tokens] = bucket ? likelyTokens(bucket, *rows) : 512;
  return sizes;
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct BucketClass {
  const char *name;
  int64_t min, max;
};

struct CloneBucketsPass final
    : fusion::impl::CloneBucketsBase<CloneBucketsPass> {
  using CloneBucketsBase::CloneBucketsBase;

  void runOnOperation() override {
    const target::DeviceDescription *described = target::findDevice(device);
    if (!described) {
      getOperation().emitError("unknown device '") << device << "'";
      return signalPassFailure();
    }
    SmallVector<func::FuncOp> functions(getOperation().getOps<func::FuncOp>());
    for (func::FuncOp func : functions)
      if (!func.isDeclaration() && failed(split(func, described->isHost())))
        return signalPassFailure();
  }

  LogicalResult split(func::FuncOp func, bool host) {
    std::optional<TokenRows> rows = findTokenRows(func);
    bool cached = false;
    func.walk([&](FusableOpInterface op) {
      cached |= op.getOpClass() == OpClass::Append;
    });
    // A batch of no sequences has no rows to tell a step from a prompt by.
    int64_t step = rows ? rowsOfStep(*rows) : 0;
    if (single || step == 0 || !cached || func.getName() != "main") {
      func->setAttr(FusionDialect::kBucketAttr,
                    makeBucket(&getContext(), rows ? rows->rows : SymExpr(1),
                               -1, -1, {}));
      return success();
    }
    static constexpr BucketClass hostClasses[] = {{"decode", 1, 1},
                                                  {"prefill", 2, -1}};
    static constexpr BucketClass deviceClasses[] = {
        {"decode", 1, 1}, {"small_m", 2, 64}, {"prefill", 65, -1}};
    OpBuilder builder(func);
    for (BucketClass c : host ? ArrayRef<BucketClass>(hostClasses)
                              : ArrayRef<BucketClass>(deviceClasses)) {
      bool isStep = c.max == 1;
      c.min = isStep ? step : std::max(c.min, step + 1);
      c.max = isStep ? step : c.max;
      if (c.max >= 0 && c.max < c.min)
        continue;
      auto clone = cast<func::FuncOp>(builder.clone(*func));
      clone.setName(c.name);
      std::map<std::string, int64_t> fixed;
      if (isStep)
        for (const std::string &symbol : rows->all)
          fixed[symbol] = 1;
      clone->setAttr(
          FusionDialect::kBucketAttr,
          makeBucket(&getContext(), rows->rows, c.min, c.max, fixed));
      if (!fixed.empty() && failed(fix(clone, fixed)))
        return failure();
    }
    func.erase();
    return success();
  }

  /// Fixes symbols, and folds what becomes trivial with them.
  LogicalResult fix(func::FuncOp func,
                    const std::map<std::string, int64_t> &fixed) {
    SymbolMap map;
    for (const auto &[name, value] : fixed)
      map[name] = SymExpr(value);
    substituteSymbols(func, map);
    RewritePatternSet patterns(&getContext());
    for (RegisteredOperationName name : getContext().getRegisteredOperations())
      if (name.getDialectNamespace() == FusionDialect::getDialectNamespace())
        name.getCanonicalizationPatterns(patterns, &getContext());
    GreedyRewriteConfig config;
    config.setUseTopDownTraversal(true);
    return applyPatternsGreedily(func, std::move(patterns), config);
  }
};
} // namespace
