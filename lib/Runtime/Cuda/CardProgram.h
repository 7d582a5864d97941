//===- CardProgram.h - A program's sizes and stages, compiled ---*- C++ -*-===//
//
// What is known about a program of the card before any sizes are: places of
// all its size expressions in one table. The expressions of a kernel's stages
// are over the kernel's own symbols; here the launch's sizes are put in.
//
// A step uploads one block: for each launch the sizes that its kernel reads
// (artifact::CardStage says what they are), then the small inputs.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_LIB_RUNTIME_CUDA_CARDPROGRAM_H
#define FUSION_LIB_RUNTIME_CUDA_CARDPROGRAM_H

#include "../CompiledProgram.h"

namespace fusion::cuda {

struct CardMap {
  const artifact::TensorMap *map = nullptr;
  uint32_t byteOffset = 0;             ///< place
  std::vector<uint32_t> dims, strides; ///< places
};

struct CardStep {
  const artifact::CardStage *stage = nullptr;
  uint32_t grid = 0; ///< place
  std::vector<CardMap> maps;
};

struct CardLaunch {
  const artifact::Launch *launch = nullptr;
  const artifact::KernelCode *code = nullptr; ///< null: none for the card
  std::vector<CardStep> steps;
  std::vector<uint32_t> offsets; ///< places, one an argument
  uint32_t workspace = 0;        ///< place
  bool hasWorkspace = false;
  uint64_t counters = 0; ///< offset in the session's counters
  uint64_t sizes = 0;    ///< offset in the uploaded block
};

class CardProgram {
public:
  /// `counterBytes` is the running total of the session's counters.
  CardProgram(const artifact::Model &model, const CompiledProgram &program,
              uint64_t &counterBytes);

  const artifact::Program &program() const { return *source; }

  /// Fills `values` for symbols as they are, or with the cached length at its
  /// upper end when the lengths are device-resident. False, with the place,
  /// when an expression has no value.
  std::optional<uint32_t> evaluate(const std::vector<int64_t> &symbols,
                                   std::vector<int64_t> &values) const;
  /// The symbols that tell prepared launches apart.
  std::vector<int64_t> key(const std::vector<int64_t> &symbols) const;
  /// Writes the sizes of all launches; `values` are those of the program's own
  /// table at the step's symbols.
  void writeSizes(uint8_t *block, const std::vector<int64_t> &values,
                  int64_t run, uint64_t statusWords) const;

  /// One set of prepared launches serves every cached length.
  bool residentLengths() const { return resident; }
  uint64_t sizesBytes() const { return theSizesBytes; }

  SymTable table;
  std::vector<uint32_t> bufferBytes; ///< places
  /// Places of the number of elements.
  std::vector<uint32_t> inputElements, outputElements;
  std::vector<CardLaunch> launches;

private:
  void addLaunch(const artifact::Model &model, const artifact::Launch &launch,
                 uint64_t &counterBytes);
  bool canBeResident(const artifact::Model &model) const;
  bool dependsOn(uint32_t place, const std::set<std::string> &symbols) const;

  const artifact::Program *source;
  const CompiledProgram &compiled;
  std::vector<std::optional<int64_t>> upper; ///< of the cached lengths
  bool resident = false;
  uint64_t theSizesBytes = 0;
};

} // namespace fusion::cuda

#endif // FUSION_LIB_RUNTIME_CUDA_CARDPROGRAM_H
