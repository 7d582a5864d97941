//===- Gather.cpp - Elements by index, triangles --------------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;
using namespace fusion::onnxfile;

/// Refuses constant indices that lie outside of a constant size.
static LogicalResult checkIndices(NodeImport &n, size_t input,
                                  const SymExpr &size) {
  const SymTensor *indices = n.sym(input);
  auto limit = size.asConstant();
  if (!indices || !limit)
    return success();
  for (const SymExpr &index : indices->values)
    if (auto constant = index.asConstant();
        constant && (*constant >= *limit || *constant < -*limit))
      return n.fail("index " + Twine(*constant) +
                    " is out of range for an axis of " + Twine(*limit));
  return success();
}

static LogicalResult gather(NodeImport &n) {
  SymShape data = n.shape(0);
  auto axis = n.axis(n.getInt("axis", 0), data.size());
  if (failed(axis) || failed(checkIndices(n, 1, data[*axis])))
    return failure();
  n.output(0,
           GatherOp::create(n.builder, n.loc, n.input(0), n.input(1), *axis));
  return success();
}

static LogicalResult gatherElements(NodeImport &n) {
  SymShape data = n.shape(0);
  auto axis = n.axis(n.getInt("axis", 0), data.size());
  if (failed(axis) || failed(checkIndices(n, 1, data[*axis])))
    return failure();
  if (n.rank(1) != static_cast<int64_t>(data.size()))
    return n.fail("expected data and indices of equal rank");
  n.output(0, GatherElementsOp::create(n.builder, n.loc, n.input(0), n.input(1),
                                       *axis));
  return success();
}

/// The result of indexing data by tuples along the last axis of indices:
/// indices[:-1] followed by what the tuples leave of data.
static FailureOr<SymShape> tupleShape(NodeImport &n, int64_t batch) {
  SymShape data = n.shape(0), indices = n.shape(1);
  if (indices.empty() || batch < 0 ||
      batch >= static_cast<int64_t>(std::min(data.size(), indices.size())))
    return n.fail("batch_dims " + Twine(batch) + " is out of range");
  auto width = indices.back().asConstant();
  if (!width || *width < 1 ||
      *width > static_cast<int64_t>(data.size()) - batch)
    return n.fail("expected index tuples of 1 to " +
                  Twine(data.size() - batch) + " elements, found " +
                  indices.back().str());
  for (int64_t i = 0; i < batch; ++i)
    if (failed(n.equate(data[i], indices[i], "a batch axis")))
      return failure();
  SymShape shape(indices.begin(), indices.end() - 1);
  shape.append(data.begin() + batch + *width, data.end());
  return shape;
}

static LogicalResult gatherNd(NodeImport &n) {
  int64_t batch = n.getInt("batch_dims", 0);
  auto shape = tupleShape(n, batch);
  if (failed(shape))
    return failure();
  n.output(0, GatherNdOp::create(n.builder, n.loc,
                                 getTensorType(*shape, elementType(n.input(0))),
                                 n.input(0), n.input(1),
                                 n.builder.getI64IntegerAttr(batch)));
  return success();
}

static LogicalResult scatterNd(NodeImport &n) {
  auto shape = tupleShape(n, 0);
  if (failed(shape))
    return failure();
  SymShape updates = n.shape(2);
  if (updates.size() != shape->size())
    return n.fail("expected updates of rank " + Twine(shape->size()) +
                  ", found " + Twine(updates.size()));
  for (auto [a, b] : llvm::zip(*shape, updates))
    if (failed(n.equate(a, b, "updates and indexed slices")))
      return failure();
  n.output(0, ScatterNdOp::create(
                  n.builder, n.loc, n.input(0), n.input(1), n.input(2),
                  n.builder.getStringAttr(n.getString("reduction", "none"))));
  return success();
}

static LogicalResult scatterElements(NodeImport &n) {
  SymShape data = n.shape(0);
  auto axis = n.axis(n.getInt("axis", 0), data.size());
  if (failed(axis) || failed(checkIndices(n, 1, data[*axis])))
    return failure();
  SymShape indices = n.shape(1), updates = n.shape(2);
  if (indices.size() != data.size() || updates.size() != data.size())
    return n.fail("expected data, indices and updates of equal rank");
  for (auto [a, b] : llvm::zip(indices, updates))
    if (failed(n.equate(a, b, "indices and updates")))
      return failure();
  n.output(0, ScatterElementsOp::create(
                  n.builder, n.loc, n.input(0), n.input(1), n.input(2),
                  n.builder.getI64IntegerAttr(*axis),
                  n.builder.getStringAttr(n.getString("reduction", "none"))));
  return success();
}

static LogicalResult trilu(NodeImport &n) {
  if (n.rank(0) < 2)
    return n.fail("expected an input of rank 2 or more");
  SymExpr k = 0;
  if (n.hasInput(1)) {
    const SymTensor *value = n.sym(1);
    if (!value)
      return n.failUnknown(1, "diagonal");
    if (value->values.size() != 1)
      return n.fail("expected a diagonal of one element, found " +
                    Twine(value->values.size()));
    k = n.symbols().resolve(value->values[0]);
  }
  n.output(0, TriluOp::create(n.builder, n.loc, n.input(0),
                              getExprAttr(n.builder.getContext(), k),
                              n.getInt("upper", 1) != 0));
  return success();
}

void fusion::addGatherHandlers(HandlerMap &map) {
  map["::Gather"] = gather;
  map["::GatherElements"] = gatherElements;
  map["::GatherND"] = gatherNd;
  map["::ScatterND"] = scatterNd;
  map["::ScatterElements"] = scatterElements;
  map["::Trilu"] = trilu;
  map["com.microsoft::Trilu"] = trilu;
}
