//===- SessionInputs.cpp - Inputs that the session gives ------------------===//

#include "SessionInputs.h"

#include "fusion/Dialect/Fusion/FusionOps.h"

using namespace mlir;
using namespace fusion;

static bool hasArgument(func::FuncOp main, StringRef attribute,
                        StringRef text) {
  for (unsigned i = 0; i < main.getNumArguments(); ++i)
    if (auto found = main.getArgAttrOfType<StringAttr>(i, attribute))
      if (found.getValue() == text)
        return true;
  return false;
}

BlockArgument fusion::findRole(func::FuncOp main, StringRef role) {
  for (BlockArgument argument : main.getArguments()) {
    auto found = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                   FusionDialect::kRoleAttr);
    if (found && found.getValue() == role)
      return argument;
  }
  return {};
}

FailureOr<int64_t> fusion::countSequences(func::FuncOp main) {
  BlockArgument ids = findRole(main, "token_ids");
  SymShape shape = ids ? getSymShape(ids) : SymShape();
  auto batch = shape.size() == 2 ? shape[0].asConstant() : std::nullopt;
  if (!batch)
    return main.emitError() << "--kv-lengths=own: expected token ids [batch, "
                               "tokens] of a known batch; fix it with --dim "
                               "batch=N";
  return *batch;
}

Value fusion::addSequenceInput(func::FuncOp main, StringRef role,
                               int64_t batch) {
  MLIRContext *context = main.getContext();
  std::string name = role.str();
  while (hasArgument(main, FusionDialect::kNameAttr, name))
    name += "_";
  auto text = [&](StringRef value) { return StringAttr::get(context, value); };
  auto attrs = DictionaryAttr::get(
      context, {NamedAttribute(FusionDialect::kNameAttr, text(name)),
                NamedAttribute(FusionDialect::kRoleAttr, text(role))});
  unsigned at = main.getNumArguments();
  auto type = RankedTensorType::get({batch}, IntegerType::get(context, 32));
  (void)main.insertArgument(at, type, attrs, NameLoc::get(text(name)));
  return main.getArgument(at);
}
