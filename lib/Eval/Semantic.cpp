//===- Semantic.cpp - Evaluation of matmul, norms, rope, attention --------===//

#include "Detail.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace fusion;
using namespace fusion::eval;
using namespace fusion::eval::detail;

/// A matrix operand as [batch..., rows, columns] with strides.
struct MatrixView {
  const Tensor *tensor;
  std::vector<int64_t> batch;
  int64_t rows, columns, rowStride, columnStride;

  MatrixView(const Tensor &t, bool isLhs, bool transposed) : tensor(&t) {
    if (t.shape.size() == 1) {
      rows = isLhs ? 1 : t.shape[0];
      columns = isLhs ? t.shape[0] : 1;
      rowStride = columnStride = 1;
      return;
    }
    batch.assign(t.shape.begin(), t.shape.end() - 2);
    rows = t.shape[t.shape.size() - 2];
    columns = t.shape.back();
    rowStride = columns;
    columnStride = 1;
    if (transposed) {
      std::swap(rows, columns);
      std::swap(rowStride, columnStride);
    }
  }
  double at(int64_t base, int64_t r, int64_t c) const {
    return tensor->get(base * rows * columns + r * rowStride +
                       c * columnStride);
  }
};

static Tensor matmul(const Frame &f, MatmulOp op) {
  MatrixView a(f.operand(0), true, op.getTransposeLhs());
  MatrixView b(f.operand(1), false, op.getTransposeRhs());
  Tensor out = f.makeResult();
  int64_t matrix = a.rows * b.columns;
  std::vector<int64_t> batch(f.shape);
  batch.resize(std::max(a.batch.size(), b.batch.size()));
  forEach(batch, [&](int64_t flat, ArrayRef<int64_t> index) {
    int64_t ba = broadcastIndex(index, a.batch),
            bb = broadcastIndex(index, b.batch);
    for (int64_t i = 0; i < a.rows; ++i)
      for (int64_t j = 0; j < b.columns; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < a.columns; ++k)
          sum += a.at(ba, i, k) * b.at(bb, k, j);
        out.set(flat * matrix + i * b.columns + j, sum);
      }
  });
  return out;
}

static Tensor dequantize(const Frame &f, DequantizeOp op) {
  // Optional operands are null in the frame; see Evaluator::evaluateOp.
  const Tensor &q = f.operand(0), &scale = f.operand(1);
  const Tensor *zero = f.operands[2], *group = f.operands[3];
  Tensor out = f.makeResult();
  int64_t axis = op.getAxis(), block = op.getBlockSize();
  forEach(f.shape, [&](int64_t i, ArrayRef<int64_t> index) {
    int64_t s = 0;
    if (block > 0) {
      for (auto [a, k] : llvm::enumerate(index)) {
        int64_t at = static_cast<int64_t>(a) != axis ? k
                     : group                         ? group->ints[k]
                                                     : k / block;
        s = s * scale.shape[a] + at;
      }
    } else if (scale.size() > 1) {
      s = index[axis];
    }
    double z = zero ? zero->get(s) : double(op.getImplicitZeroPoint());
    out.set(i, (q.get(i) - z) * scale.get(s));
  });
  return out;
}

static Tensor rmsNorm(const Frame &f, RmsNormOp op) {
  const Tensor &in = f.operand(0);
  const Tensor *weight = f.operands.size() > 1 ? f.operands[1] : nullptr;
  Tensor out = f.makeResult(), rounded = f.makeResult();
  int64_t n = f.shape.back();
  double epsilon = op.getEpsilon().convertToFloat();
  std::vector<double> scale;
  for (int64_t row = 0, rows = n ? in.size() / n : 0; row < rows; ++row) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i)
      sum += in.get(row * n + i) * in.get(row * n + i);
    scale.push_back(1 / std::sqrt(sum / n + epsilon));
  }
  forEach(f.shape, [&](int64_t i, ArrayRef<int64_t> index) {
    double x = in.get(i) * scale[i / n];
    if (op.getCastBeforeScale()) {
      rounded.set(i, x);
      x = rounded.get(i);
    }
    out.set(i,
            weight ? x * weight->get(broadcastIndex(index, weight->shape)) : x);
  });
  return out;
}

static Tensor layerNorm(const Frame &f, LayerNormOp op) {
  const Tensor &in = f.operand(0), &weight = f.operand(1);
  const Tensor *bias = f.operands.size() > 2 ? f.operands[2] : nullptr;
  Tensor out = f.makeResult();
  int64_t axis = *normalizeAxis(op.getAxis(), f.shape.size()), n = 1;
  for (size_t i = axis; i < f.shape.size(); ++i)
    n *= f.shape[i];
  double epsilon = op.getEpsilon().convertToFloat();
  std::vector<double> means, scales;
  for (int64_t row = 0, rows = n ? in.size() / n : 0; row < rows; ++row) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; ++i)
      mean += in.get(row * n + i) / n;
    for (int64_t i = 0; i < n; ++i)
      variance += std::pow(in.get(row * n + i) - mean, 2) / n;
    means.push_back(mean);
    scales.push_back(1 / std::sqrt(variance + epsilon));
  }
  forEach(f.shape, [&](int64_t i, ArrayRef<int64_t> index) {
    double x = (in.get(i) - means[i / n]) * scales[i / n];
    x *= weight.get(broadcastIndex(index, weight.shape));
    if (bias)
      x += bias->get(broadcastIndex(index, bias->shape));
    out.set(i, x);
  });
  return out;
}

static Tensor rope(const Frame &f, RopeOp op) {
  const Tensor &in = f.operand(0);
  Tensor out = f.makeResult();
  int64_t width = f.shape.back();
  int64_t rotary = op.getRotaryDim() ? op.getRotaryDim() : width;
  int64_t half = rotary / 2;
  forEach(f.shape, [&](int64_t i, ArrayRef<int64_t> index) {
    int64_t e = index.back();
    if (e >= rotary) {
      out.set(i, in.get(i));
      return;
    }
    bool first = op.getInterleaved() ? e % 2 == 0 : e < half;
    int64_t step = op.getInterleaved() ? 1 : half;
    int64_t pair = op.getInterleaved() ? e / 2 : e % half;
    auto table = [&](const Tensor &t) {
      SmallVector<int64_t> at(index);
      at.back() = t.shape.back() == half ? pair : e;
      return t.get(broadcastIndex(at, t.shape));
    };
    double other = first ? -in.get(i + step) : in.get(i - step);
    out.set(i, in.get(i) * table(f.operand(1)) + other * table(f.operand(2)));
  });
  return out;
}

/// The score of query i and key j of a head, or nullopt when masked.
struct Scores {
  const Frame &f;
  AttentionOp op;
  int64_t offset;

  std::optional<double> at(int64_t b, int64_t h, int64_t i, int64_t j) {
    const Tensor &q = f.operand(0), &k = f.operand(1);
    int64_t heads = q.shape[1], kv = k.shape[1], rows = q.shape[2],
            keys = k.shape[2], width = q.shape[3];
    int64_t here = i + (f.operands[6] ? f.operands[6]->ints[b] : offset);
    if ((op.getCausal() && j > here) ||
        (op.getWindowLeft() >= 0 && j < here - op.getWindowLeft()) ||
        (op.getWindowRight() >= 0 && j > here + op.getWindowRight()))
      return std::nullopt;
    if (f.operands[5] && j >= f.operands[5]->ints[b])
      return std::nullopt;
    if (f.operands[4] && !f.operands[4]->ints[b * keys + j])
      return std::nullopt;
    double sum = 0;
    for (int64_t d = 0; d < width; ++d)
      sum += q.get(((b * heads + h) * rows + i) * width + d) *
             k.get(((b * kv + h / (heads / kv)) * keys + j) * width + d);
    sum *= op.getScale().convertToFloat();
    if (double cap = op.getSoftcap().convertToFloat())
      sum = cap * std::tanh(sum / cap);
    const Tensor *bias = f.operands[3];
    if (!bias)
      return sum;
    double add = bias->get(broadcastIndex({b, h, i, j}, bias->shape));
    if (bias->isFloat())
      return sum + add;
    return add != 0 ? std::optional<double>(sum) : std::nullopt;
  }
};

static eval::detail::Result attention(const Frame &f, AttentionOp op,
                                      std::string &why) {
  auto offset = f.size(getExpr(op.getCausalOffsetAttr()));
  if (!offset) {
    why = "no value for the causal offset";
    return std::nullopt;
  }
  const Tensor &k = f.operand(1), &v = f.operand(2);
  int64_t keys = k.shape[2], group = f.shape[1] / k.shape[1];
  Scores scores{f, op, *offset};
  Tensor out = f.makeResult();
  int64_t row = 0;
  std::vector<int64_t> rows(f.shape.begin(), f.shape.end() - 1);
  forEach(rows, [&](int64_t, ArrayRef<int64_t> at) {
    std::vector<double> p(keys);
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    bool any = false;
    for (int64_t j = 0; j < keys; ++j) {
      auto s = scores.at(at[0], at[1], at[2], j);
      p[j] = s.value_or(-std::numeric_limits<double>::infinity());
      any |= s.has_value();
      top = std::max(top, p[j]);
    }
    bool empty = !any || top == -std::numeric_limits<double>::infinity();
    for (double &x : p) {
      x = !empty                            ? std::exp(x - top)
          : op.getMaskedRows() == "uniform" ? 1
          : op.getMaskedRows() == "zero"    ? 0
                                            : NAN;
      sum += x;
    }
    for (int64_t d = 0; d < f.shape[3]; ++d) {
      double y = 0;
      for (int64_t j = 0; j < keys; ++j)
        y += p[j] * v.get(((at[0] * v.shape[1] + at[1] / group) * keys + j) *
                              f.shape[3] +
                          d);
      out.set(row++, sum == 0 ? 0 : y / sum);
    }
  });
  return out;
}

static eval::detail::Result append(const Frame &f, KvAppendOp op,
                                   std::string &why) {
  const Tensor &past = f.operand(0), &update = f.operand(1);
  const Tensor *lengths = f.operands.size() > 2 ? f.operands[2] : nullptr;
  Tensor out = f.makeResult();
  int64_t axis = op.getAxis(), size = f.shape[axis], rows = update.shape[axis];
  if (lengths)
    for (int64_t length : lengths->ints)
      if (length < 0 || length > size - rows) {
        why = "a length of " + std::to_string(length) + " leaves no room for " +
              std::to_string(rows) + " rows of " + std::to_string(size);
        return std::nullopt;
      }
  forEach(f.shape, [&](int64_t i, ArrayRef<int64_t> index) {
    SmallVector<int64_t> at(index);
    int64_t start = lengths ? lengths->ints[index[0]] : past.shape[axis];
    bool isNew = at[axis] >= start && at[axis] < start + rows;
    if (isNew)
      at[axis] -= start;
    else if (at[axis] >= past.shape[axis])
      return out.set(i, 0);
    const Tensor &from = isNew ? update : past;
    out.set(i, from.get(broadcastIndex(at, from.shape)));
  });
  return out;
}

eval::detail::Result eval::detail::evaluateSemantic(const Frame &f,
                                                    std::string &why) {
  if (auto op = dyn_cast<MatmulOp>(f.op))
    return matmul(f, op);
  if (auto op = dyn_cast<DequantizeOp>(f.op))
    return dequantize(f, op);
  if (auto op = dyn_cast<RmsNormOp>(f.op))
    return rmsNorm(f, op);
  if (auto op = dyn_cast<LayerNormOp>(f.op))
    return layerNorm(f, op);
  if (auto op = dyn_cast<RopeOp>(f.op))
    return rope(f, op);
  if (auto op = dyn_cast<AttentionOp>(f.op))
    return attention(f, op, why);
  if (auto op = dyn_cast<KvAppendOp>(f.op))
    return append(f, op, why);
  return std::nullopt;
}
