//===- Sequence.cpp - Pieces of a tensor by way of a sequence -------------===//
//
// An exporter that does not simplify writes a split as SplitToSequence and a
// SequenceAt for each piece. A sequence is no value here: SequenceAt becomes
// the slice that it picks, and reads what the split reads.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using namespace fusion;
using onnxfile::Graph;
using onnxfile::Node;

static bool isOnnx(const Node &node, StringRef opType) {
  return node.domain.empty() && node.opType == opType;
}

namespace {
/// Where a piece lies along the split axis.
struct Piece {
  int64_t start, size;
};
} // namespace

/// Piece `index` of an axis of `size`, split as the node says.
static FailureOr<Piece> findPiece(NodeImport &n, const Node &split,
                                  const SymExpr &size, int64_t index) {
  bool given = split.inputs.size() > 1 && !split.inputs[1].empty();
  const SymTensor *sizes = given ? n.importer.getSym(split.inputs[1]) : nullptr;
  auto lengths = sizes ? sizes->constants() : std::nullopt;
  if (given && !lengths)
    return n.fail("the lengths of the pieces are not known at compile time");
  std::vector<int64_t> pieces;
  if (given && sizes->dims.size() == 1) {
    pieces = *lengths;
    if (llvm::any_of(pieces, [](int64_t l) { return l < 0 || l > INT32_MAX; }))
      return n.fail("a piece has an impossible length");
    int64_t sum = std::accumulate(pieces.begin(), pieces.end(), int64_t(0));
    if (failed(n.equate(SymExpr(sum), size, "the pieces and the split axis")))
      return failure();
  } else {
    int64_t length = given ? lengths->front() : 1;
    auto whole = size.asConstant();
    if (!whole || length < 1 || *whole / length > 65536)
      return n.fail("expected a split of an axis of constant size, found " +
                    size.str());
    for (int64_t at = 0; at < *whole; at += std::min(length, *whole - at))
      pieces.push_back(std::min(length, *whole - at));
  }
  int64_t count = pieces.size();
  if (index < -count || index >= count)
    return n.fail("piece " + Twine(index) + " of " + Twine(count));
  auto piece = pieces.begin() + (index < 0 ? index + count : index);
  return Piece{std::accumulate(pieces.begin(), piece, int64_t(0)), *piece};
}

static LogicalResult sequenceAt(NodeImport &n) {
  const Graph &graph = n.importer.model.graph;
  auto split = llvm::find_if(graph.nodes, [&](const Node &node) {
    return isOnnx(node, "SplitToSequence") &&
           llvm::is_contained(node.outputs, n.node.inputs[0]);
  });
  Value x = split == graph.nodes.end() || split->inputs.empty()
                ? Value()
                : n.importer.getValue(split->inputs[0]);
  if (!x)
    return n.fail("only pieces of SplitToSequence outside of branches are "
                  "supported");
  auto index = n.constants(1, "position");
  if (failed(index))
    return failure();
  if (index->size() != 1)
    return n.fail("expected one position, found " + Twine(index->size()));
  auto intOf = [&](const char *name, int64_t otherwise) {
    const onnxfile::Attribute *a = split->find(name);
    return a && a->kind == onnxfile::Attribute::Kind::Int ? a->i : otherwise;
  };
  SymShape shape = getSymShape(x);
  auto axis = n.axis(intOf("axis", 0), shape.size());
  if (failed(axis))
    return failure();
  auto piece =
      findPiece(n, *split, n.symbols().resolve(shape[*axis]), index->front());
  if (failed(piece))
    return failure();
  Value part = n.slice(x, *axis, SymExpr(piece->start), SymExpr(piece->size));
  bool given = split->inputs.size() > 1 && !split->inputs[1].empty();
  if (!given && !intOf("keepdims", 1)) {
    shape.erase(shape.begin() + *axis);
    part = n.reshape(part, shape);
  }
  n.output(0, part);
  return success();
}

void fusion::addSequenceHandlers(HandlerMap &map) {
  map["::SequenceAt"] = sequenceAt;
}
