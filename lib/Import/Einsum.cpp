//===- Einsum.cpp - Einstein sums of one or two operands ------------------===//
//
// Each letter of the equation is, for two operands, a batch axis (in both and
// in the result), a contracted axis (in both only), or a row or column axis (in
// one of them and in the result). Axes of one kind become one, the product is a
// matmul, and the result is given the equation's order. The axes of an ellipsis
// get letters of their own; a letter twice in a term stands for the diagonal.
//
//===----------------------------------------------------------------------===//

#include "Importer.h"

using namespace mlir;
using namespace fusion;

namespace {

/// A tensor whose axes have letters.
struct Labelled {
  Value value;
  std::string axes;
};

class Equation {
public:
  Equation(NodeImport &n) : n(n) {}

  LogicalResult parse(StringRef text, std::vector<std::string> &inputs,
                      std::string &output) {
    std::string spaceless;
    for (char c : text)
      if (c != ' ')
        spaceless += c;
    StringRef rest(spaceless);
    auto [left, right] = rest.split("->");
    SmallVector<StringRef> terms;
    left.split(terms, ',');
    std::map<char, int> count;
    std::string dots;
    for (auto [i, term] : llvm::enumerate(terms)) {
      if (i >= n.numInputs())
        break;
      inputs.push_back(spell(term, n.rank(i), dots));
      for (char c : inputs.back())
        ++count[c];
    }
    output = spell(right, right.size() + dots.size() - 3, dots);
    if (!rest.contains("->")) { // the ellipsis, then what occurs once, in order
      output = dots;
      for (auto [letter, times] : count)
        if (times == 1 && dots.find(letter) == std::string::npos)
          output += letter;
    }
    for (const std::string &axes : inputs)
      if (failed(check(axes, /*once=*/false)))
        return failure();
    for (char c : output)
      if (!count.count(c))
        return n.fail("the equation's result has an axis of its own");
    return check(output, /*once=*/true);
  }

  /// Checks ranks, and merges the sizes of equal letters.
  LogicalResult bind(const Labelled &x) {
    SymShape shape = getSymShape(x.value);
    if (shape.size() != x.axes.size())
      return n.fail("the equation '" + n.getString("equation", "") +
                    "' does not fit an operand of rank " + Twine(shape.size()));
    for (auto [letter, size] : llvm::zip(x.axes, shape)) {
      auto [it, inserted] = sizes.emplace(letter, size);
      if (!inserted &&
          failed(n.equate(it->second, size, "axes with one letter")))
        return failure();
    }
    return success();
  }

  /// Keeps the elements whose places along axes of one letter are equal.
  Labelled diagonal(Labelled x) {
    for (size_t first = 0; first < x.axes.size(); ++first)
      for (size_t other; (other = x.axes.find(x.axes[first], first + 1)) !=
                         std::string::npos;) {
        Value equal = EqualOp::create(n.builder, n.loc, places(x, first),
                                      places(x, other));
        Value zero = n.scalar(0, elementType(x.value));
        x.value = WhereOp::create(n.builder, n.loc, equal, x.value, zero);
        x.value = ReduceSumOp::create(n.builder, n.loc, x.value,
                                      {static_cast<int64_t>(other)}, false);
        x.axes.erase(other, 1);
      }
    return x;
  }

  /// Sums over axes that nothing else has.
  Labelled reduce(Labelled x, const std::string &keep) {
    SmallVector<int64_t> axes;
    std::string left;
    for (auto [i, letter] : llvm::enumerate(x.axes))
      if (keep.find(letter) == std::string::npos)
        axes.push_back(i);
      else
        left += letter;
    if (!axes.empty())
      x.value = ReduceSumOp::create(n.builder, n.loc, x.value, axes, false);
    x.axes = left;
    return x;
  }

  Value permute(const Labelled &x, const std::string &order) {
    SmallVector<int64_t> perm;
    for (char letter : order)
      perm.push_back(x.axes.find(letter));
    return n.transpose(x.value, perm);
  }

  SymShape sizesOf(const std::string &axes) {
    SymShape shape;
    for (char letter : axes)
      shape.push_back(n.symbols().resolve(sizes.at(letter)));
    return shape;
  }

  Labelled product(const Labelled &a, const Labelled &b,
                   const std::string &output) {
    auto has = [](const std::string &axes, char letter) {
      return axes.find(letter) != std::string::npos;
    };
    std::string batch, rows, inner, columns;
    for (char letter : a.axes)
      (!has(b.axes, letter)  ? rows
       : has(output, letter) ? batch
                             : inner) += letter;
    for (char letter : b.axes)
      if (!has(a.axes, letter))
        columns += letter;
    auto joined = [&](const std::string &first, const std::string &second) {
      SymShape shape = sizesOf(batch);
      shape.push_back(numElements(sizesOf(first)));
      shape.push_back(numElements(sizesOf(second)));
      return shape;
    };
    Value left =
        n.reshape(permute(a, batch + rows + inner), joined(rows, inner));
    Value right =
        n.reshape(permute(b, batch + inner + columns), joined(inner, columns));
    // An outer product has nothing to sum.
    Value result =
        inner.empty()
            ? Value(MulOp::create(n.builder, n.loc, left,
                                  n.reshape(right, joined("", columns))))
            : Value(MatmulOp::create(n.builder, n.loc, left, right));
    std::string axes = batch + rows + columns;
    return {n.reshape(result, sizesOf(axes)), axes};
  }

private:
  /// 0, 1, 2, ... along one axis, of the operand's rank.
  Value places(const Labelled &x, size_t axis) {
    MLIRContext *context = n.builder.getContext();
    SymExpr size = getSymShape(x.value)[axis];
    Value line = IotaOp::create(
        n.builder, n.loc, getTensorType({size}, n.builder.getI64Type()),
        getExprAttr(context, 0), getExprAttr(context, 1));
    SymShape shape(x.axes.size(), SymExpr(1));
    shape[axis] = size;
    return n.reshape(line, shape);
  }

  /// The term with letters in place of `...`, for as many axes as the operand
  /// has besides; all ellipses name the same axes.
  static std::string spell(StringRef term, size_t rank, std::string &dots) {
    size_t place = term.find("...");
    if (place == StringRef::npos)
      return term.str();
    size_t named = term.size() - 3;
    size_t axes = rank > named ? rank - named : 0;
    for (unsigned char next = 0x80 + dots.size(); dots.size() < axes; ++next)
      dots += static_cast<char>(next);
    return (term.take_front(place) + StringRef(dots).take_back(axes) +
            term.drop_front(place + 3))
        .str();
  }

  LogicalResult check(const std::string &axes, bool once) {
    std::set<char> seen;
    for (char c : axes)
      if ((!std::isalpha(static_cast<unsigned char>(c)) && c >= 0) ||
          (!seen.insert(c).second && once))
        return n.fail("the equation '" + n.getString("equation", "") +
                      "' is not supported (letters, each once in the result)");
    return success();
  }

  NodeImport &n;
  std::map<char, SymExpr> sizes;
};

} // namespace

static LogicalResult einsum(NodeImport &n) {
  Equation equation(n);
  std::vector<std::string> terms;
  std::string output;
  if (failed(equation.parse(n.getString("equation", ""), terms, output)))
    return failure();
  if (terms.size() != n.numInputs() || terms.size() > 2)
    return n.fail(
        "expected an equation of one or two terms, as many as inputs");
  SmallVector<Labelled> operands;
  for (auto [i, axes] : llvm::enumerate(terms)) {
    operands.push_back({n.input(i), axes});
    if (failed(equation.bind(operands.back())))
      return failure();
    operands.back() = equation.diagonal(operands.back());
  }
  Labelled result;
  if (operands.size() == 1) {
    result = equation.reduce(operands[0], output);
  } else {
    Labelled a = equation.reduce(operands[0], output + terms[1]);
    Labelled b = equation.reduce(operands[1], output + terms[0]);
    result = equation.product(a, b, output);
  }
  n.output(0, equation.permute(result, output));
  return success();
}

void fusion::addEinsumHandlers(HandlerMap &map) { map["::Einsum"] = einsum; }
