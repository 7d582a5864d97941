//===- Session.cpp - Running an artifact ----------------------------------===//
//
// Before a run: bind the symbols from the inputs' dimensions, check every
// shape against its expressions, choose the program and evaluate its sizes.
// What does not change between two runs is not computed again.
//
//===----------------------------------------------------------------------===//

#include "fusion/Runtime/Session.h"

#include "Executor.h"
#include "fusion/Artifact/Dump.h"
#include "fusion/Artifact/Encoding.h"

#include <algorithm>

using namespace fusion;
using namespace fusion::artifact;

static std::string listText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// `[1, past + seq = 7]`: what a shape says and what it comes to.
static std::string expectedText(const std::vector<SymExpr> &shape,
                                const std::vector<int64_t> &values) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i ? ", " : "") + shape[i].str();
    if (!shape[i].isConstant())
      text += " = " + std::to_string(values[i]);
  }
  return text + "]";
}

Session::Session(std::shared_ptr<const LoadedModel> shared)
    : model(std::move(shared)), execution(model->executor->createSession()),
      inputs(model->model().inputs.size()),
      outputs(model->model().outputs.size()),
      symbols(model->model().symbols.size()),
      programValues(model->programs.size()) {
  for (size_t i = 0; i < inputs.size(); ++i)
    inputs[i].view.type = model->model().inputs[i].type;
  for (size_t i = 0; i < outputs.size(); ++i)
    outputs[i].view.type = model->model().outputs[i].type;
  for (uint32_t i = 0; i < inputs.size(); ++i) {
    Role role = model->model().inputs[i].role;
    if (role == Role::CachedLengths)
      bindPerSequence(i, lengths);
    else if (role == Role::TokenCounts)
      bindPerSequence(i, counts);
  }
}

/// The reader has checked the input's type and shape.
void Session::bindPerSequence(uint32_t input, std::vector<int32_t> &values) {
  const TensorInfo &info = model->model().inputs[input];
  values.resize(static_cast<size_t>(*info.shape[0].asConstant()));
  inputs[input] = {true,
                   {info.type,
                    {static_cast<int64_t>(values.size())},
                    values.data(),
                    4 * values.size(),
                    Device::Host}};
}

Session::~Session() = default;

Result<std::unique_ptr<Session>>
Session::create(std::shared_ptr<const LoadedModel> model) {
  return std::unique_ptr<Session>(new Session(std::move(model)));
}

Status Session::failure(const std::string &text) const {
  return Status(StatusCode::InvalidInput, "'" + model->path() + "': " + text);
}

Status Session::checkMemory(Device memory) const {
  if (memory == Device::Host || model->device() == Device::Cuda)
    return {};
  return Status(StatusCode::Usage,
                "memory of a card was given to a model opened for the host");
}

Status Session::setInput(uint32_t index, DType type, std::vector<int64_t> shape,
                         const void *data, Device memory) {
  if (index >= inputs.size())
    return Status(StatusCode::Usage,
                  "there is no input number " + std::to_string(index));
  if (const TensorInfo &info = model->model().inputs[index]; gives(info))
    return Status(StatusCode::Usage, "input '" + info.name +
                                         "' is the session's own: its " +
                                         name(info.role));
  auto count = elementCount(shape);
  if (!count)
    return failure("input '" + model->model().inputs[index].name +
                   "': impossible shape " + listText(shape));
  if (*count > 0 && !data)
    return Status(StatusCode::Usage, "an input's data is null");
  if (Status s = checkMemory(memory); !s)
    return s;
  static const uint64_t nothing = 0;
  if (!data)
    memory = Device::Host;
  inputs[index] = {true,
                   {type, std::move(shape), data ? data : &nothing,
                    packedBytes(type, *count), memory}};
  return {};
}

Status Session::setOutput(uint32_t index, void *data, uint64_t bytes,
                          Device memory) {
  if (index >= outputs.size())
    return Status(StatusCode::Usage,
                  "there is no output number " + std::to_string(index));
  if (Status s = checkMemory(memory); !s)
    return s;
  outputs[index].given = data;
  outputs[index].givenBytes = bytes;
  outputs[index].givenMemory = memory;
  return {};
}

const Program &Session::lastProgram() const {
  return *model->programs[theProgram].program;
}

Status Session::truncate(int64_t length) {
  if (length < 0 || length > theLength)
    return Status(StatusCode::Usage,
                  "cannot truncate to " + std::to_string(length) +
                      " tokens: " + std::to_string(theLength) + " are cached");
  theLength = length;
  for (int32_t &own : lengths)
    own = std::min(own, static_cast<int32_t>(length));
  return {};
}

Status Session::truncateSequence(size_t sequence, int64_t length) {
  if (sequence >= lengths.size())
    return Status(StatusCode::Usage, "there is no sequence number " +
                                         std::to_string(sequence) +
                                         " with a cached length of its own");
  if (length < 0 || length > lengths[sequence])
    return Status(StatusCode::Usage,
                  "cannot truncate to " + std::to_string(length) + " tokens: " +
                      std::to_string(lengths[sequence]) + " are cached");
  lengths[sequence] = static_cast<int32_t>(length);
  theLength = *std::max_element(lengths.begin(), lengths.end());
  return {};
}

Status Session::setTokenCounts(std::vector<int64_t> counts) {
  if (!counts.empty() && counts.size() != lengths.size())
    return Status(StatusCode::Usage, "token counts of " +
                                         std::to_string(counts.size()) +
                                         " sequences were given, and " +
                                         std::to_string(lengths.size()) +
                                         " have cached lengths of their own");
  tokenCounts = std::move(counts);
  return {};
}

Status Session::checkTokenCounts() const {
  int64_t most = tokenCounts.empty() ? 0 : appendedTokens();
  for (int64_t count : tokenCounts)
    if (count < 0 || count > most)
      return Status(StatusCode::Usage, "a sequence cannot keep " +
                                           std::to_string(count) + " of " +
                                           std::to_string(most) + " tokens");
  return {};
}

/// Tokens of this run that are none of the padding.
int32_t Session::keptTokens(size_t sequence) const {
  return static_cast<int32_t>(tokenCounts.empty() ? appendedTokens()
                                                  : tokenCounts[sequence]);
}

/// The tokens of a run that has succeeded are cached.
void Session::advance() {
  theLength += appendedTokens();
  if (lengths.empty())
    return;
  for (size_t i = 0; i < lengths.size(); ++i)
    lengths[i] += keptTokens(i);
  theLength = *std::max_element(lengths.begin(), lengths.end());
  tokenCounts.clear();
}

void Session::reset() {
  theLength = 0;
  std::fill(lengths.begin(), lengths.end(), 0);
  tokenCounts.clear();
  execution->clearStates();
}

Status Session::checkInputTypes() const {
  const Model &m = model->model();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo &info = m.inputs[i];
    const TensorView &view = inputs[i].view;
    auto expected = [&](const std::string &found) {
      return failure("input '" + info.name + "': expected " +
                     shapeText(info.shape, info.type) + ", " + found);
    };
    if (!inputs[i].bound)
      return expected("none was given");
    if (view.type != info.type)
      return expected("found element type " + std::string(name(view.type)));
    if (view.shape.size() != info.shape.size())
      return expected("found shape " + listText(view.shape));
  }
  return {};
}

Status Session::bindSymbols() {
  const Model &m = model->model();
  for (size_t i = 0; i < m.symbols.size(); ++i) {
    const Symbol &s = m.symbols[i];
    if (s.source == Symbol::Source::CachedLength) {
      symbols[i] = theLength;
      continue; // checked against the capacity of the states
    }
    symbols[i] = inputs[s.input].view.shape[s.axis];
    if (symbols[i] < s.lower || symbols[i] > s.upper)
      return failure("input '" + m.inputs[s.input].name +
                     "': expected dimension " + std::to_string(s.axis) + " ('" +
                     s.name + "') in " + std::to_string(s.lower) + ".." +
                     (s.upper == INT64_MAX ? "" : std::to_string(s.upper)) +
                     ", found " + std::to_string(symbols[i]) +
                     "; compile with another range (--dim) to allow it");
  }
  if (auto place = model->signature->evaluate(symbols, interface))
    return failure("the size " + model->signature->expression(*place).str() +
                   " has no value for these inputs");
  return {};
}

std::vector<int64_t>
Session::shapeOf(const std::vector<uint32_t> &places) const {
  std::vector<int64_t> shape;
  for (uint32_t place : places)
    shape.push_back(interface[place]);
  return shape;
}

Status Session::checkInputShape(uint32_t index) const {
  const std::vector<uint32_t> &places = model->inputs[index];
  const std::vector<int64_t> &found = inputs[index].view.shape;
  auto same = [&](uint32_t place, int64_t size) {
    return interface[place] == size;
  };
  if (std::equal(places.begin(), places.end(), found.begin(), found.end(),
                 same))
    return {};
  const TensorInfo &info = model->model().inputs[index];
  std::vector<int64_t> expected = shapeOf(places);
  return failure("input '" + info.name + "': expected shape " +
                 expectedText(info.shape, expected) + ", found " +
                 listText(found));
}

Status Session::checkGuards() const {
  for (size_t i = 0; i < model->guards.size(); ++i) {
    int64_t left = interface[model->guards[i].left],
            right = interface[model->guards[i].right];
    const Guard &g = model->model().guards[i];
    if (left != right)
      return failure("expected " + g.left.str() + " (" + std::to_string(left) +
                     ") to equal " + g.right.str() + " (" +
                     std::to_string(right) + "): " + g.reason);
  }
  return {};
}

Status Session::checkShapes() const {
  for (uint32_t i = 0; i < inputs.size(); ++i)
    if (Status s = checkInputShape(i); !s)
      return s;
  return checkGuards();
}

int64_t Session::appendedTokens() const {
  const Model &m = model->model();
  if (m.appended != SymExpr())
    return interface[model->appended];
  for (size_t i = 0; i < m.inputs.size(); ++i)
    if (m.inputs[i].role == Role::TokenIds && !inputs[i].view.shape.empty())
      return inputs[i].view.shape.back();
  return 0;
}

Status Session::prepareStates() {
  const Model &m = model->model();
  int64_t more = appendedTokens();
  std::vector<uint64_t> bytes;
  for (size_t i = 0; i < m.states.size(); ++i) {
    const State &state = m.states[i];
    std::vector<int64_t> shape = shapeOf(model->states[i]);
    auto count = elementCount(shape);
    if (!count)
      return failure("state '" + state.name + "' has the impossible shape " +
                     listText(shape));
    bytes.push_back(packedBytes(state.type, *count));
    if (state.lengthAxis >= 0 &&
        theLength + more > shape[static_cast<size_t>(state.lengthAxis)])
      return failure(
          "the cache holds " +
          std::to_string(shape[static_cast<size_t>(state.lengthAxis)]) +
          " tokens: " + std::to_string(theLength) + " cached and " +
          std::to_string(more) +
          " new ones do not fit; compile with a larger --max-context");
  }
  if (statesMade && bytes == stateBytes)
    return {};
  if (theLength > 0)
    return failure("these inputs need states of another size than the cached "
                   "tokens; reset the session first");
  if (Status s = execution->allocateStates(bytes); !s)
    return s;
  stateBytes = bytes;
  statesMade = true;
  return {};
}

Status Session::prepareOutputs(const RunOptions &options) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    Output &out = outputs[i];
    const TensorInfo &info = model->model().outputs[i];
    const std::vector<uint32_t> &places = model->outputs[i];
    out.view.shape.clear();
    for (uint32_t place : places)
      out.view.shape.push_back(interface[place]);
    auto count = elementCount(out.view.shape);
    auto where = [&] { return "output '" + info.name + "'"; };
    if (!count)
      return failure(where() + " would have shape " + listText(out.view.shape));
    out.view.bytes = packedBytes(info.type, *count);
    if (out.given) {
      if (out.givenBytes < out.view.bytes)
        return failure(where() + " has " + std::to_string(out.view.bytes) +
                       " bytes, and memory for " +
                       std::to_string(out.givenBytes) + " was given");
      out.view.data = out.given;
      out.view.memory = out.givenMemory;
      continue;
    }
    out.view.memory = Device::Host;
    // Where only the largest element is wanted, the rest is not copied.
    bool copied = !options.greedy || options.greedy->output != i;
    out.view.data = copied ? execution->reserveOutput(static_cast<uint32_t>(i),
                                                      out.view.bytes)
                           : nullptr;
    if (out.view.data)
      continue;
    if (!out.own.reserve(out.view.bytes))
      return Status(StatusCode::Failed, "no memory for " + where() + " (" +
                                            std::to_string(out.view.bytes) +
                                            " bytes)");
    out.view.data = out.own.data();
  }
  return {};
}

Result<uint32_t> Session::selectProgram(const std::string &set) const {
  const Model &m = model->model();
  int64_t rows = 0;
  for (uint32_t i = 0; i < m.programs.size(); ++i) {
    const Program &p = m.programs[i];
    if (p.set != set || !model->runsOn(p))
      continue;
    rows = interface[model->rows[i]];
    bool fits = rows >= p.minRows && rows <= p.maxRows;
    for (const auto &[symbol, value] : p.fixed)
      for (size_t s = 0; s < m.symbols.size(); ++s)
        fits &= m.symbols[s].name != symbol || symbols[s] == value;
    if (fits)
      return i;
  }
  if (!model->hasSet(set))
    return failure(set.empty() ? "it holds no program"
                               : "it holds no program set '" + set + "'");
  return failure("no program was compiled for " + std::to_string(rows) +
                 " rows; compile with another range (--dim) to allow it");
}

Status Session::run(const RunOptions &options) {
  if (Status s = checkInputTypes(); !s)
    return s;
  if (Status s = bindSymbols(); !s)
    return s;
  if (Status s = checkShapes(); !s)
    return s;
  auto selected = selectProgram(options.set);
  if (!selected)
    return selected.status();
  if (Status s = checkTokenCounts(); !s)
    return s;
  for (size_t i = 0; i < counts.size(); ++i)
    counts[i] = keptTokens(i);
  if (Status s = prepareStates(); !s)
    return s;
  if (Status s = prepareOutputs(options); !s)
    return s;
  theProgram = *selected;
  theRows = interface[model->rows[theProgram]];
  const SymTable &table = model->programs[theProgram].table;
  ProgramValues &values = programValues[theProgram];
  if (values.symbols != symbols || values.values.size() != table.size()) {
    values.symbols.clear();
    if (auto place = table.evaluate(symbols, values.values))
      return failure("the size " + table.expression(*place).str() +
                     " has no value for these inputs");
    values.symbols = symbols;
  }
  std::vector<StepTensor> in, out;
  for (const Input &i : inputs)
    in.push_back({const_cast<void *>(i.view.data), i.view.bytes,
                  i.view.memory == Device::Cuda});
  for (const Output &o : outputs)
    out.push_back({const_cast<void *>(o.view.data), o.view.bytes,
                   o.view.memory == Device::Cuda});
  Status status =
      execution->run({theProgram, symbols, values.values, in, out, options});
  if (!status)
    return Status(status.code(),
                  "'" + model->path() + "': " + status.message());
  if (options.profile)
    options.profile->rows.resize(options.profile->runs, theRows);
  if (!model->model().states.empty())
    advance();
  return {};
}
