//===- Session.h - Running an artifact --------------------------*- C++ -*-===//
//
// The C++ side of fusion-c/Runtime.h. A LoadedModel is shared and immutable; a
// Session is used by one thread at a time.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_RUNTIME_SESSION_H
#define FUSION_RUNTIME_SESSION_H

#include "fusion/Artifact/Reader.h"
#include "fusion/Runtime/Buffer.h"
#include "fusion/Runtime/Profile.h"

#include <memory>

namespace fusion {

class Executor;
class ExecutorSession;
struct CompiledProgram;
class SymTable;

enum class Device { Host, Cuda };

/// `host`, `cuda` or `cuda:N`: the device and the card's number.
std::optional<std::pair<Device, int32_t>> parseDevice(const std::string &text);

/// How a card is used.
struct CudaOptions {
  std::string driver = "libcuda.so.1"; ///< the library to open
  int32_t card = 0;                    ///< its number
};

class LoadedModel {
public:
  /// `threads` counts the host executor's threads, the caller's included; 0
  /// takes one a processor.
  static Result<std::shared_ptr<const LoadedModel>>
  open(const std::string &path, Device device = Device::Host,
       unsigned threads = 0, const CudaOptions &cuda = {});
  ~LoadedModel();

  const artifact::Model &model() const { return file->model(); }
  const std::string &path() const { return file->path(); }
  /// Whether there are programs of the set for the device.
  bool hasSet(const std::string &set) const;
  Device device() const { return theDevice; }
  int32_t card() const { return theCard; } ///< its number

private:
  friend class Session;
  LoadedModel() = default;
  void compile();
  bool runsOn(const artifact::Program &program) const;

  /// Places in `signature`.
  using Shape = std::vector<uint32_t>;
  struct GuardPlaces {
    uint32_t left, right;
  };

  std::unique_ptr<artifact::Artifact> file;
  Device theDevice = Device::Host;
  int32_t theCard = 0;
  std::vector<CompiledProgram> programs;
  /// Everything about the interface: shapes, guards, rows of the programs.
  std::unique_ptr<SymTable> signature;
  std::vector<Shape> inputs, outputs, states;
  std::vector<GuardPlaces> guards;
  std::vector<uint32_t> rows;
  uint32_t appended = 0;
  std::unique_ptr<Executor> executor; ///< last: it refers to the rest
};

/// A tensor that somebody else owns.
struct TensorView {
  artifact::DType type = artifact::DType::F32;
  std::vector<int64_t> shape;
  const void *data = nullptr;
  uint64_t bytes = 0;
  Device memory = Device::Host; ///< where `data` points
};

/// Asks for the index of the largest element in the last row of an output (the
/// first of equal ones), where the device can find it without a copy.
struct Greedy {
  uint32_t output = 0;
  bool done = false;  ///< else the output is there as usual
  int64_t index = -1; ///< -1: all are NaN. The output itself is not copied
};

struct RunOptions {
  std::string set;              ///< Program::set
  Profile *profile = nullptr;   ///< gets the times of the launches
  Observer *observer = nullptr; ///< sees the buffers after each launch
  /// Card: replay captured graphs instead of issuing launch by launch.
  bool graphs = true;
  /// Card: gets the time between the first launch's begin and the last one's
  /// end, as the card measures it.
  double *deviceSeconds = nullptr;
  Greedy *greedy = nullptr;
};

class Session {
public:
  static Result<std::unique_ptr<Session>>
  create(std::shared_ptr<const LoadedModel> model);
  ~Session();

  const LoadedModel &loaded() const { return *model; }

  /// `data` must stay valid until the input is bound again. Memory of the card
  /// that the model runs on is read where it is; what fills it must have
  /// finished before run().
  Status setInput(uint32_t index, artifact::DType type,
                  std::vector<int64_t> shape, const void *data,
                  Device memory = Device::Host);
  /// Writes the output to the caller's memory; null goes back to our own.
  Status setOutput(uint32_t index, void *data, uint64_t bytes,
                   Device memory = Device::Host);
  Status run(const RunOptions &options = {});

  /// Of the last run.
  const TensorView &output(uint32_t index) const { return outputs[index].view; }
  const artifact::Program &lastProgram() const;
  int64_t lastRows() const { return theRows; } ///< token rows; 0 when unknown

  /// Tokens in the states: of the longest sequence of the batch.
  int64_t length() const { return theLength; }
  Status truncate(int64_t length);
  void reset();

  /// Sequences with cached lengths of their own (--kv-lengths=own); 0 where
  /// the batch has one length.
  size_t sequences() const { return lengths.size(); }
  int64_t sequenceLength(size_t sequence) const { return lengths[sequence]; }
  Status truncateSequence(size_t sequence, int64_t length);
  /// How many tokens of the next run each sequence keeps; the rest of its row
  /// is padding. Empty: all of them.
  Status setTokenCounts(std::vector<int64_t> counts);
  /// Whether the session gives this input itself.
  static bool gives(const artifact::TensorInfo &input) {
    return input.role == artifact::Role::CachedLengths ||
           input.role == artifact::Role::TokenCounts;
  }

private:
  struct Input {
    bool bound = false;
    TensorView view;
  };
  struct Output {
    TensorView view;
    Buffer own;
    void *given = nullptr;
    uint64_t givenBytes = 0;
    Device givenMemory = Device::Host;
  };

  explicit Session(std::shared_ptr<const LoadedModel> model);
  Status checkInputTypes() const;
  Status bindSymbols();
  Status checkShapes() const;
  Status checkInputShape(uint32_t index) const;
  Status checkGuards() const;
  Status prepareStates();
  Status prepareOutputs(const RunOptions &options);
  Result<uint32_t> selectProgram(const std::string &set) const;
  int64_t appendedTokens() const;
  Status checkTokenCounts() const;
  void bindPerSequence(uint32_t input, std::vector<int32_t> &values);
  int32_t keptTokens(size_t sequence) const;
  void advance();
  std::vector<int64_t> shapeOf(const std::vector<uint32_t> &places) const;
  Status failure(const std::string &text) const;
  Status checkMemory(Device memory) const;

  std::shared_ptr<const LoadedModel> model;
  std::unique_ptr<ExecutorSession> execution;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<int64_t> symbols;   ///< values of Model::symbols
  std::vector<int64_t> interface; ///< values of LoadedModel::signature
  struct ProgramValues {
    std::vector<int64_t> symbols, values;
  };
  std::vector<ProgramValues> programValues; ///< of the last symbols
  std::vector<uint64_t> stateBytes;
  bool statesMade = false;
  int64_t theLength = 0, theRows = 0;
  std::vector<int32_t> lengths;     ///< of each sequence, what the input holds
  std::vector<int32_t> counts;      ///< what the input of token counts holds
  std::vector<int64_t> tokenCounts; ///< of the next run
  uint32_t theProgram = 0;
};

} // namespace fusion

#endif // FUSION_RUNTIME_SESSION_H
