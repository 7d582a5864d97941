//===- Link.cpp - Writes the artifact -------------------------------------===//

#include "fusion/Link/Link.h"

#include "WeightBytes.h"

using namespace mlir;
using namespace fusion;

LogicalResult fusion::linkArtifact(ModuleOp module,
                                   ArrayRef<kernels::CompiledImage> images,
                                   StringRef path, const LinkOptions &options) {
  auto model = buildArtifactModel(module, images, options);
  if (failed(model))
    return failure();

  // The model's weights are the constants that launches read, in order.
  llvm::DenseSet<StringAttr> used;
  module.walk(
      [&](plan::WeightOp op) { used.insert(op.getConstantAttr().getAttr()); });
  SmallVector<plan::ConstantOp> constants;
  for (plan::ConstantOp op : module.getOps<plan::ConstantOp>())
    if (used.contains(op.getSymNameAttr()))
      constants.push_back(op);

  std::vector<std::string_view> code;
  for (const kernels::CompiledImage &image : images)
    code.push_back({reinterpret_cast<const char *>(image.bytes.data()),
                    image.bytes.size()});
  WeightBytes bytes(module);
  Status status =
      artifact::writeArtifact(path.str(), std::move(*model), code,
                              [&](size_t index, artifact::ByteSink &sink) {
                                return bytes.write(constants[index], sink);
                              });
  if (!status)
    return emitError(UnknownLoc::get(module.getContext())) << status.message();
  return success();
}
