//===- CardFlashAttention.cpp - Attention on tensor cores -----------------===//

#include "fusion/Kernels/CardAttention.h"

#include "CardFamilies.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

bool AttentionGroup::limitsRight() const {
  AttentionOp attention = op;
  return attention.getCausal() || attention.getWindowRight() >= 0;
}

// Causal, with an offset that is never negative: every query sees key 0.
bool AttentionGroup::everyRowSees() const {
  AttentionOp attention = op;
  if (attention.getBias() || attention.getKeyMask() ||
      attention.getValidLengths() || attention.getOffsets() ||
      attention.getWindowLeft() >= 0)
    return false;
  SymExpr shift = getExpr(attention.getCausalOffsetAttr());
  return llvm::all_of(shift.polynomial(),
                      [](const auto &term) { return term.second >= 0; });
}

static bool isMultiple(const SymExpr &value, int64_t of) {
  return value == SymExpr(0) || value.exactDiv(SymExpr(of)).has_value();
}

/// Rows of 16-bit elements that start at multiples of 16 bytes of an argument.
static std::optional<StridedView> getRows(Value value) {
  Type element = elementType(value);
  if (!element.isF16() && !element.isBF16())
    return std::nullopt;
  auto view = getStridedView(value);
  if (!view || view->strides.back() != SymExpr(1) ||
      !isMultiple(view->offset, 8))
    return std::nullopt;
  for (const SymExpr &stride : ArrayRef(view->strides).drop_back())
    if (!isMultiple(stride, 8))
      return std::nullopt;
  return view;
}

/// The attention of the body; null, with a reason, when it is not its only
/// hero.
static AttentionOp findAttention(Block &body, std::string &reason) {
  AttentionOp found;
  for (Operation &op : body) {
    if (auto attention = dyn_cast<AttentionOp>(op)) {
      if (found) {
        reason = "two attentions in one kernel";
        return {};
      }
      found = attention;
    } else if (isa<MatmulOp, ScatterNdOp, ScatterElementsOp>(op)) {
      reason = "attention with another hero beside it";
      return {};
    }
  }
  if (!found)
    reason = "no attention";
  return found;
}

/// Appends of this step's rows, in place, to the caches that the attention
/// reads: sets the fields of `group`. False where there are others.
static bool takeAppends(Block &body, AttentionGroup &group) {
  AttentionOp op = group.op;
  for (Operation &other : body)
    if (auto append = dyn_cast<KvAppendOp>(other)) {
      bool isKey = append.getResult() == op.getKey();
      bool isValue = append.getResult() == op.getValue();
      KvAppendOp &slot = isKey ? group.appendKey : group.appendValue;
      if (isKey == isValue || slot || append.getAxis() != 2 ||
          append.getLengths() || !isa<BlockArgument>(append.getPast()) ||
          !hasStorage(append.getPast().getType()))
        return false;
      slot = append;
    }
  if (!group.appendKey && !group.appendValue)
    return true;
  if (!group.appendKey || !group.appendValue)
    return false;
  group.past = getSymShape(group.appendKey.getPast())[2];
  // Every new row is seen by the last query, so that some part has it.
  return getSymShape(group.appendValue.getPast())[2] == group.past &&
         getSymShape(group.appendKey.getUpdate())[2] == group.rows &&
         getSymShape(group.appendValue.getUpdate())[2] == group.rows &&
         op.getCausal() && op.getWindowRight() < 0 && !op.getValidLengths() &&
         getExpr(op.getCausalOffsetAttr()) == group.past;
}

std::optional<AttentionGroup> kernels::getAttentionGroup(Block &body,
                                                         std::string &reason) {
  auto decline = [&](const char *why) {
    reason = why;
    return std::nullopt;
  };
  AttentionGroup group{};
  group.op = findAttention(body, reason);
  if (!group.op)
    return std::nullopt;
  if (group.op.getOffsets())
    return decline("each sequence has a length of its own");
  SymShape q = getSymShape(group.op.getQuery());
  SymShape k = getSymShape(group.op.getKey());
  SymShape v = getSymShape(group.op.getValue());
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    return decline("attention not over four axes");
  group.batch = q[0];
  group.rows = q[2];
  group.keys = k[2];
  if (!takeAppends(body, group))
    return decline("appends of another kind than this step's rows in place");
  auto heads = q[1].asConstant(), kvHeads = k[1].asConstant();
  auto depth = q[3].asConstant();
  if (!heads || !kvHeads || !depth || *kvHeads < 1 || *heads % *kvHeads)
    return decline("numbers of heads are not known");
  if (v[3] != q[3] || *depth % 16 || *depth < 16 || *depth > 256)
    return decline("head size is not a multiple of 16 up to 256");
  bool appends = bool(group.appendKey);
  Value keyTensor = appends ? group.appendKey.getPast() : group.op.getKey();
  Value valueTensor =
      appends ? group.appendValue.getPast() : group.op.getValue();
  auto key = getRows(keyTensor), value = getRows(valueTensor);
  if (!key || !value || elementType(keyTensor) != elementType(valueTensor) ||
      elementType(group.op.getQuery()) != elementType(keyTensor))
    return decline("keys or values are not rows of 16-bit elements");
  SymShape space = getSymShape(group.op.getResult());
  unsigned found = 0;
  for (auto [number, result] :
       llvm::enumerate(body.getTerminator()->getOperands())) {
    if (appends && result == group.appendKey.getResult()) {
      group.keyResult = number;
      ++found;
    } else if (appends && result == group.appendValue.getResult()) {
      group.valueResult = number;
      ++found;
    } else if (auto output = getStridedOutput(result, space)) {
      group.outputs.push_back({unsigned(number), *output});
    } else {
      return decline("a result is not over the attention's rows");
    }
  }
  if (appends && found != 2)
    return decline("a cache is not a result");
  group.key = *key;
  group.value = *value;
  group.heads = *heads;
  group.kvHeads = *kvHeads;
  group.group = *heads / *kvHeads;
  group.depth = *depth;
  return group;
}

//===----------------------------------------------------------------------===//
// Decode
//===----------------------------------------------------------------------===//

static void layOutDecode(DecodeAttention &p) {
  int64_t depth = p.group.depth;
  unsigned at = 0;
  auto place = [&](unsigned &where, int64_t bytes) {
    where = at;
    at = unsigned(llvm::alignTo(at + bytes, 128));
  };
  // Where the partial sums of warps lie, the words of other parts come later.
  place(p.partials, std::max<int64_t>(p.warps * p.queries * depth * 4,
                                      (p.words + kDecodeParts) * 16));
  place(p.maxima, p.warps * p.queryTiles * 64);
  place(p.query, p.queries * depth * 2);
  place(p.fresh, p.group.appendKey ? 2 * p.rows * depth * 2 : 0);
  place(p.barriers, p.warps * p.stages * 8);
  // Fragments read whole vectors: up to 96 bytes past a row.
  place(p.ring, int64_t(p.warps) * p.stages * p.stageBytes() + 128);
  p.sharedBytes = at;
}

std::optional<DecodeAttention>
kernels::getDecodeAttention(Block &body, std::string &reason) {
  auto group = getAttentionGroup(body, reason);
  if (!group)
    return std::nullopt;
  auto decline = [&](const char *why) {
    reason = why;
    return std::nullopt;
  };
  DecodeAttention p{};
  p.group = *group;
  auto rows = group->rows.asConstant();
  if (!rows || *rows < 1)
    return decline("number of query rows is not known");
  p.rows = *rows;
  p.queries = p.rows * group->group;
  p.queryTiles = unsigned(llvm::divideCeil(p.queries, 8));
  if (p.queries > (group->depth <= 128 ? 16 : 8))
    return decline("more queries a KV head than decode handles");
  p.words = p.queries * group->depth / 2;
  SymExpr width = group->depth;
  p.contiguous =
      group->key.strides[2] == width && group->value.strides[2] == width;
  p.stages = 2;
  p.warps = group->depth <= 128 ? 8 : 4;
  SymExpr segments = group->batch * SymExpr(group->kvHeads);
  // A row that sees nothing but still averages all keys is not split.
  bool whole = group->op.getMaskedRows() == "uniform" && !group->everyRowSees();
  if (whole)
    p.parts = 1;
  else if (auto known = segments.asConstant())
    p.parts = unsigned(std::clamp<int64_t>(
        kDecodeBlocks / std::max<int64_t>(*known, 1), 1, kDecodeParts));
  p.blocks = kDecodeBlocks;
  if (auto known = segments.asConstant())
    p.blocks = std::min<int64_t>(kDecodeBlocks, *known * p.parts);
  layOutDecode(p);
  return p;
}

//===----------------------------------------------------------------------===//
// Prefill
//===----------------------------------------------------------------------===//

std::optional<PrefillAttention>
kernels::getPrefillAttention(Block &body, std::string &reason) {
  auto group = getAttentionGroup(body, reason);
  if (!group)
    return std::nullopt;
  auto decline = [&](const char *why) {
    reason = why;
    return std::nullopt;
  };
  if (group->depth < 64)
    return decline("head size below 64");
  if (group->appendKey)
    return decline("appends beside many rows");
  SymShape space{group->batch, group->kvHeads, group->keys};
  for (const StridedView *view : {&group->key, &group->value})
    for (auto [size, stride] : llvm::zip(space, view->strides))
      if (stride == SymExpr(0) && size != SymExpr(1))
        return decline("keys or values are repeated");
  PrefillAttention p{};
  p.group = *group;
  AttentionOp op = group->op;
  p.pairs = group->group % 2 == 0;
  bool averages = op.getMaskedRows() == "uniform" && !group->everyRowSees();
  p.general = averages || op.getBias() || op.getKeyMask() ||
              op.getSoftcap().convertToFloat() != 0 ||
              !(op.getScale().convertToFloat() > 0);
  p.columnBoxes = unsigned(llvm::divideCeil(group->depth, 64));
  p.blockKeys = group->depth <= 128 ? 128 : 64;
  p.queryBuffers = group->depth <= 192 ? 2 : 1;
  p.stages = 2;
  unsigned at = 0;
  auto place = [&](unsigned &where, unsigned bytes) {
    where = at;
    at = unsigned(llvm::alignTo(at + bytes, 1024));
  };
  place(p.query, p.queryBuffers * 2 * p.halfBytes());
  place(p.key, p.stages * p.blockBytes());
  place(p.value, p.stages * p.blockBytes());
  p.barriers = at;
  // Pairs: keys, values, queries full and empty; values to clear.
  p.sharedBytes = at + 7 * 16;
  return p;
}

/// Boxes of 64 columns and `rows` positions of keys or values.
static artifact::TensorMap getMap(const StridedView &view,
                                  const AttentionGroup &group, unsigned rows) {
  artifact::TensorMap map;
  map.argument = view.argument.getArgNumber();
  AttentionOp op = group.op;
  map.type = elementType(op.getKey()).isF16() ? artifact::DType::F16
                                              : artifact::DType::BF16;
  map.byteOffset = view.offset * SymExpr(2);
  map.dims = {group.depth, group.keys, group.kvHeads, group.batch};
  // An axis of size 1 has no stride of its own; any will do.
  for (unsigned axis : {2, 1, 0})
    map.strides.push_back(view.strides[axis] == SymExpr(0)
                              ? SymExpr(group.depth * 2)
                              : view.strides[axis] * SymExpr(2));
  map.box = {64, rows, 1, 1};
  map.swizzle = 128;
  return map;
}

static CardLaunch launchPrefill(KernelOp kernel, const PrefillAttention &p) {
  CardLaunch launch;
  launch.family = CardLaunch::Family::AttentionPrefill;
  // Outside the loop over blocks: what tiles and halves need.
  launch.spillAllowance = 192;
  artifact::CardStage stage;
  stage.symbol = kernel.getSymName().str();
  stage.threads = 3 * 128;
  stage.sharedBytes = p.sharedBytes;
  SymExpr tiles =
      *SymExpr::floorDiv(p.group.rows + SymExpr(int64_t(p.tileRows()) - 1),
                         SymExpr(int64_t(p.tileRows()))) *
      p.group.batch * SymExpr(p.group.heads / int64_t(p.tileHeads()));
  stage.grid = SymExpr::min(tiles, SymExpr(kPrefillBlocks));
  stage.maps.push_back(getMap(p.group.key, p.group, p.blockKeys));
  stage.maps.push_back(getMap(p.group.value, p.group, 64));
  launch.stages.push_back(std::move(stage));
  return launch;
}

static CardLaunch launchDecode(KernelOp kernel, const DecodeAttention &p) {
  CardLaunch launch;
  launch.family = CardLaunch::Family::AttentionDecode;
  artifact::CardStage stage;
  stage.symbol = kernel.getSymName().str();
  stage.threads = p.warps * 32;
  stage.grid = p.blocks;
  stage.sharedBytes = p.sharedBytes;
  launch.stages.push_back(std::move(stage));
  // Parts that meet: no more than there are blocks.
  if (p.parts != 1)
    launch.counterBytes = unsigned(kDecodeBlocks * p.words * 16);
  return launch;
}

void kernels::addFlashAttentions(KernelOp kernel,
                                 std::vector<CardLaunch> &launches) {
  std::string reason;
  if (auto decode = getDecodeAttention(*kernel.getBlock(), reason))
    launches.push_back(launchDecode(kernel, *decode));
  if (auto prefill = getPrefillAttention(*kernel.getBlock(), reason))
    launches.push_back(launchPrefill(kernel, *prefill));
}
