//===- PackWeights.cpp - Which quantised weights are packed ---------------===//
//
// A weight of 4 or 8 bits that a product on the card reads is stored in the
// order in which tensor cores want it; its scales and zero points likewise. All
// functions for the card read the same bytes: a table that is also gathered
// from, too. So a weight is packed only where each of its uses is in a group,
// as codes, scales or zero points, and where no code of FP8 is a NaN or an
// infinity.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "fusion/Kernels/LowBit.h"

using namespace mlir;
using namespace fusion;
using kernels::LowBitWeight;
using kernels::PackedLayout;

namespace {

/// What a constant holds: equal ones are one weight.
using Key = std::pair<Attribute, Type>;

std::optional<Key> keyOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto weight = dyn_cast_or_null<fusion::WeightOp>(op))
    return Key(weight.getSource(), weight.getType());
  if (auto constant = dyn_cast_or_null<fusion::ConstantOp>(op))
    return Key(constant.getValue(), constant.getType());
  return std::nullopt;
}

/// Everything that one product reads: packed together or not at all.
using Parts = SmallVector<std::pair<Key, PackedLayout>, 3>;

class WeightPacking {
public:
  void collect(func::FuncOp function) {
    for (Operation &op : function.front())
      if (isa<fusion::WeightOp, fusion::ConstantOp>(op))
        for (OpOperand &use : op.getUses())
          collectUse(use);
    for (auto group : function.getOps<GroupOp>())
      for (auto product : group.getBlock()->getOps<MatmulOp>())
        collectProduct(group, product);
  }

  /// Settles what is packed: a part that cannot be leaves its product's others.
  void settle() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Parts &parts : products) {
        auto fits = [&](const std::pair<Key, PackedLayout> &part) {
          auto it = layouts.find(part.first);
          return it->second == part.second && !blocked.contains(part.first);
        };
        const auto *other = llvm::find_if_not(parts, fits);
        if (other == parts.end())
          continue;
        StringRef why = blocked.lookup(other->first);
        if (why.empty())
          why = "its codes, scales and zero points serve each other elsewhere";
        for (const auto &part : parts)
          changed |= blocked.try_emplace(part.first, why).second;
      }
    }
  }

  void mark(GroupOp group) {
    SmallVector<int64_t> fragments, strips;
    StringRef unpacked;
    for (auto [i, input] : llvm::enumerate(group.getInputs())) {
      auto key = keyOf(input);
      auto it = key ? layouts.find(*key) : layouts.end();
      if (it == layouts.end())
        continue;
      if (auto why = blocked.find(*key); why != blocked.end()) {
        unpacked = why->second;
        continue;
      }
      (it->second == PackedLayout::Fragments ? fragments : strips)
          .push_back(int64_t(i));
    }
    bool product = !group.getBlock()->getOps<MatmulOp>().empty();
    if (!product)
      unpacked = "";
    if (fragments.empty() && strips.empty() && unpacked.empty())
      return;
    Builder builder(group.getContext());
    KernelConfigAttr config = group.getKernelAttr();
    NamedAttrList params(config.getParams());
    if (!fragments.empty())
      params.set(kernels::kFragmentsParam,
                 builder.getDenseI64ArrayAttr(fragments));
    if (!strips.empty())
      params.set(kernels::kStripsParam, builder.getDenseI64ArrayAttr(strips));
    if (!unpacked.empty())
      params.set(kernels::kUnpackedParam, builder.getStringAttr(unpacked));
    group.setKernelAttr(
        KernelConfigAttr::get(group.getContext(), config.getFamily(),
                              params.getDictionary(group.getContext())));
  }

private:
  /// Readers of a packed operand go through its layout: those that take memory
  /// by strides are none of them.
  void collectUse(OpOperand &use) {
    auto group = dyn_cast<GroupOp>(use.getOwner());
    bool known = false;
    if (group) {
      BlockArgument argument =
          group.getBlock()->getArgument(use.getOperandNumber());
      known = llvm::all_of(argument.getUsers(), [](Operation *user) {
        return isa<DequantizeOp, GatherOp>(user);
      });
    }
    if (!known)
      blocked.try_emplace(
          *keyOf(use.get()),
          "its codes, scales or zero points are read by other ops too");
  }

  void collectProduct(GroupOp group, MatmulOp product) {
    std::string reason;
    auto weight = kernels::describeLowBitWeight(product, reason);
    if (!weight)
      return;
    Parts parts;
    bool constant = true;
    auto add = [&](BlockArgument argument, PackedLayout layout) {
      auto key = keyOf(group.getInputs()[argument.getArgNumber()]);
      constant &= key.has_value();
      if (key)
        parts.push_back({*key, layout});
    };
    add(weight->codes, PackedLayout::Fragments);
    if (weight->scales && !weight->oneScale)
      add(weight->scales, PackedLayout::Strips);
    if (weight->zeros && !weight->oneScale)
      add(weight->zeros, PackedLayout::Strips);
    for (auto &part : parts) {
      auto [it, inserted] = layouts.insert(part);
      if (it->second != part.second)
        blocked.try_emplace(part.first, "one tensor is codes and scales");
      else if (!constant)
        blocked.try_emplace(part.first, "it is not constant in all parts");
      else if (inserted &&
               holdsSpecialCodes(part.first.first, part.first.second))
        blocked.try_emplace(part.first,
                            "codes or scales of FP8 hold NaN or infinity");
    }
    products.push_back(std::move(parts));
  }

  llvm::MapVector<Key, PackedLayout> layouts;
  llvm::DenseMap<Key, StringRef> blocked; ///< and why
  SmallVector<Parts> products;
};

} // namespace

void fusion::packLowBitWeights(ModuleOp module) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>()) {
    auto device =
        function->getAttrOfType<StringAttr>(FusionDialect::kDeviceAttr);
    if (device && device.getValue() == "card")
      functions.push_back(function);
  }
  WeightPacking packing;
  for (func::FuncOp function : functions)
    packing.collect(function);
  packing.settle();
  for (func::FuncOp function : functions)
    for (auto group : function.getOps<GroupOp>())
      packing.mark(group);
}
