//===- AssignRoles.cpp - What a decoder's inputs and outputs mean ---------===//

#include "fusion/Dialect/Fusion/FusionOps.h"
#include "fusion/Dialect/Fusion/MainFunction.h"
#include "fusion/Dialect/Fusion/Roles.h"
#include "fusion/Raise/Decoder/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace fusion;

namespace fusion {
#define GEN_PASS_DEF_ASSIGNROLES
#include "fusion/Raise/Decoder/Passes.h.inc"
} // namespace fusion

static bool isInteger(Type type) {
  return isa<IntegerType>(elementType(type)) && !elementType(type).isInteger(1);
}

/// Follows casts and reshapes.
static Value throughCasts(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<CastOp, ReshapeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// True when `argument` indexes a constant table along its first axis.
static bool indexesEmbedding(BlockArgument argument) {
  SmallVector<Value> work{argument};
  while (!work.empty()) {
    Value value = work.pop_back_val();
    for (Operation *user : value.getUsers()) {
      if (isa<CastOp, ReshapeOp>(user))
        work.push_back(user->getResult(0));
      auto gather = dyn_cast<GatherOp>(user);
      if (!gather || gather.getIndices() != value || gather.getAxis() != 0)
        continue;
      // A table of one row for each token, not one of positions.
      SymShape table = getSymShape(gather.getData());
      if (table.size() == 2 && !isa<BlockArgument>(gather.getData()))
        return true;
    }
  }
  return false;
}

namespace {
struct AssignRolesPass final : fusion::impl::AssignRolesBase<AssignRolesPass> {
  using AssignRolesBase::AssignRolesBase;

  void setArg(func::FuncOp main, unsigned i, StringRef role) {
    main.setArgAttr(i, FusionDialect::kRoleAttr,
                    StringAttr::get(&getContext(), role));
  }
  void setResult(func::FuncOp main, unsigned i, StringRef role) {
    main.setResultAttr(i, FusionDialect::kRoleAttr,
                       StringAttr::get(&getContext(), role));
  }

  StringRef nameOfArg(func::FuncOp main, unsigned i) {
    auto name = main.getArgAttrOfType<StringAttr>(i, FusionDialect::kNameAttr);
    return name ? name.getValue() : StringRef();
  }
  StringRef nameOfResult(func::FuncOp main, unsigned i) {
    auto name =
        main.getResultAttrOfType<StringAttr>(i, FusionDialect::kNameAttr);
    return name ? name.getValue() : StringRef();
  }

  /// Applies ROLE=NAME options; fails on an unknown role or name.
  LogicalResult applyOptions(func::FuncOp main) {
    for (const std::string &option : roles) {
      auto [text, name] = StringRef(option).split('=');
      StringRef role = canonicalRole(text);
      if (role.empty())
        return main.emitError()
               << "unknown role '" << text << "' in --role " << option
               << ", expected token_ids, attention_mask, position_ids, "
                  "past_key, past_value, present_key, present_value or logits";
      bool found = false;
      for (unsigned i = 0; i < main.getNumArguments(); ++i)
        if (nameOfArg(main, i) == name) {
          setArg(main, i, role);
          found = true;
        }
      for (unsigned i = 0; i < main.getNumResults(); ++i)
        if (nameOfResult(main, i) == name) {
          setResult(main, i, role);
          found = true;
        }
      if (!found)
        return main.emitError() << "--role " << option
                                << " names no input or output of the model";
    }
    return success();
  }

  bool isTaken(func::FuncOp main, StringRef role) {
    auto is = [&](Attribute attr) {
      auto text = dyn_cast_or_null<StringAttr>(attr);
      return text && text.getValue() == role;
    };
    for (unsigned i = 0; i < main.getNumArguments(); ++i)
      if (is(main.getArgAttr(i, FusionDialect::kRoleAttr)))
        return true;
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      if (is(main.getResultAttr(i, FusionDialect::kRoleAttr)))
        return true;
    return false;
  }

  void assignInputs(func::FuncOp main) {
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      if (main.getArgAttr(i, FusionDialect::kRoleAttr))
        continue;
      Type type = main.getArgument(i).getType();
      StringRef role =
          inputRoleByName(nameOfArg(main, i), getSymShape(type).size());
      if (role.starts_with("past_") && !isa<FloatType>(elementType(type)))
        continue;
      if (!role.empty() && !(isSingleRole(role) && isTaken(main, role)))
        setArg(main, i, role);
    }
    // Ids under another name: the integer matrix that indexes the embedding.
    bool ids = isTaken(main, "token_ids");
    for (unsigned i = 0; i < main.getNumArguments() && !ids; ++i) {
      BlockArgument argument = main.getArgument(i);
      if (main.getArgAttr(i, FusionDialect::kRoleAttr) ||
          !isInteger(argument.getType()) || !indexesEmbedding(argument))
        continue;
      setArg(main, i, "token_ids");
      ids = true;
    }
  }

  /// A present output is an append to a past input.
  void assignOutputs(func::FuncOp main) {
    auto returnOp = cast<func::ReturnOp>(main.front().getTerminator());
    SmallVector<unsigned> named, rest;
    for (auto [i, value] : llvm::enumerate(returnOp.getOperands())) {
      if (main.getResultAttr(i, FusionDialect::kRoleAttr))
        continue;
      auto append = throughCasts(value).getDefiningOp<KvAppendOp>();
      auto past =
          append ? dyn_cast<BlockArgument>(append.getPast()) : BlockArgument();
      if (past && past.getOwner() == &main.front()) {
        assignPair(main, append, past.getArgNumber(), i);
        continue;
      }
      StringRef role =
          outputRoleByName(nameOfResult(main, i), getSymShape(value).size());
      if (role.starts_with("present_"))
        setResult(main, i, role);
      else if (isa<FloatType>(elementType(value)) &&
               getSymShape(value).size() >= 2)
        (role == "logits" ? named : rest).push_back(i);
    }
    // By name, else the only other tensor of floats.
    if (isTaken(main, "logits"))
      return;
    if (named.size() == 1)
      setResult(main, named[0], "logits");
    else if (named.empty() && rest.size() == 1)
      setResult(main, rest[0], "logits");
  }

  /// Key or value: by the attention that reads the append.
  void assignPair(func::FuncOp main, KvAppendOp append, unsigned arg,
                  unsigned result) {
    bool isValue = false;
    for (Operation *user : append->getUsers())
      if (auto attention = dyn_cast<AttentionOp>(user))
        isValue = attention.getValue() == append.getResult();
    setArg(main, arg, isValue ? "past_value" : "past_key");
    setResult(main, result, isValue ? "present_value" : "present_key");
  }

  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal())
      return;
    if (failed(checkGraph(main)) || failed(applyOptions(main)))
      return signalPassFailure();
    assignInputs(main);
    assignOutputs(main);
  }
};
} // namespace
