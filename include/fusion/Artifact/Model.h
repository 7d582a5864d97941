//===- Model.h - What a compiled model is, in memory ------------*- C++ -*-===//
//
// The contents of a `model.fusion` file. Plain C++17, no LLVM: Link fills it
// and Artifact/Writer.h stores it; Artifact/Reader.h maps it and the runtime
// executes it. Sizes are SymExpr polynomials over the model's symbols; every
// other number is final.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_ARTIFACT_MODEL_H
#define FUSION_ARTIFACT_MODEL_H

#include "fusion/Support/SymExpr.h"

#include <cstdint>
#include <string>
#include <vector>

namespace fusion::artifact {

/// Element types, with ONNX's TensorProto.DataType numbers.
enum class DType : uint8_t {
  F32 = 1,
  U8 = 2,
  I8 = 3,
  U16 = 4,
  I16 = 5,
  I32 = 6,
  I64 = 7,
  Bool = 9,
  F16 = 10,
  F64 = 11,
  U32 = 12,
  U64 = 13,
  BF16 = 16,
  F8E4M3FN = 17,
  F8E4M3FNUZ = 18,
  F8E5M2 = 19,
  F8E5M2FNUZ = 20,
  U4 = 21,
  I4 = 22,
  F4E2M1 = 23,
  F8E8M0 = 24,
  U2 = 25,
  I2 = 26,
};

/// Bits of one element; sub-byte elements are packed, first in the low bits.
unsigned bitWidth(DType type);
const char *name(DType type);

/// What an input or output means to a decoder; found at compile time.
enum class Role : uint8_t {
  None,
  TokenIds,
  AttentionMask,
  PositionIds,
  PastKey,
  PastValue,
  Logits,
  PresentKey,
  PresentValue,
  CachedLengths, ///< of each sequence; the session gives them itself
  TokenCounts,   ///< of each sequence in this run; the session gives them too
};
const char *name(Role role);

struct TensorInfo {
  std::string name; ///< as in the ONNX file
  DType type = DType::F32;
  std::vector<SymExpr> shape;
  Role role = Role::None;
};

/// How a symbol gets its value when a session is bound to inputs.
struct Symbol {
  enum class Source : uint8_t {
    InputDim,     ///< axis `axis` of input `input`, which is exactly the symbol
    CachedLength, ///< the session's number of cached tokens (--kv-cache=state)
  };
  std::string name;
  Source source = Source::InputDim;
  uint32_t input = 0, axis = 0;
  int64_t lower = 0;
  int64_t upper = INT64_MAX; ///< compiled range, inclusive
};

/// A buffer that lives as long as the session (a KV cache).
struct State {
  std::string name;
  DType type = DType::F32;
  std::vector<SymExpr> storage; ///< allocated shape; zero-filled at the start
  int32_t lengthAxis = -1;      ///< axis along which tokens are appended
};

/// A constant in the weight section.
struct Weight {
  std::string name;
  DType type = DType::F32;
  std::vector<int64_t> shape; ///< logical shape of the stored form
  std::string layout;         ///< "" for row-major, else a packed layout's name
  uint64_t offset = 0, bytes = 0; ///< within the weight section, 64-aligned
};

/// A tensor map (cuTensorMapEncodeTiled) that a card function takes by value.
/// Sizes are over the kernel's own symbols d0, d1, ...; innermost axis first.
struct TensorMap {
  /// Operands first, then results, then (one past the last) the workspace.
  uint32_t argument = 0;
  DType type = DType::BF16;
  SymExpr byteOffset;           ///< of the first element within the argument
  std::vector<SymExpr> dims;    ///< elements; one to five
  std::vector<SymExpr> strides; ///< bytes between elements of axes 1, 2, ...
  std::vector<uint32_t> box;    ///< elements of a tile
  uint32_t swizzle = 0;         ///< bytes: 0, 32, 64 or 128
};

/// One launch on the card; a kernel is one or several, in order.
///
/// Parameters of the function: pointers to device memory (operands, results,
/// the workspace when there is one, the counters when there are any, the
/// sizes), then its tensor maps by value. The sizes are int64: d0, d1, ...,
/// then the number of the session's run (from 1, growing by 1), then the device
/// address of an int32 that a kernel may set to a HostABI status code.
struct CardStage {
  std::string symbol; ///< of the function in the cubin
  uint32_t threads = 128, cluster = 1;
  uint32_t sharedBytes = 0; ///< dynamic shared memory
  SymExpr grid = 1;         ///< blocks along x; a multiple of `cluster`
  std::vector<TensorMap> maps;
  // What the assembler said.
  uint32_t registers = 0, staticSharedBytes = 0, spillBytes = 0;
};

/// Code of one kernel for one target.
struct KernelCode {
  enum class Target : uint8_t { HostV3, HostV4, Sm90a };
  Target target = Target::HostV3;
  uint32_t image = 0; ///< index into Model::images
  uint64_t entry = 0; ///< host: offset of the function within the image
  std::vector<CardStage> stages; ///< card
  /// Card: scratch that launches share one after another; its contents are
  /// arbitrary at first. Written only after the wait for the previous launch.
  SymExpr workspaceBytes;
  /// Card: memory of each launch's own, zero when the session starts and kept
  /// from run to run.
  uint32_t counterBytes = 0;
};

struct Kernel {
  std::string name, family, config;
  std::vector<KernelCode> code;
};

/// A host image or a cubin; its bytes lie in the code section.
struct Image {
  KernelCode::Target target = KernelCode::Target::HostV3;
  uint64_t offset = 0, bytes = 0; ///< within the code section, 4096-aligned
};

/// Where a launch's buffer is.
struct BufferRef {
  enum class Kind : uint8_t { None, Input, Output, Weight, Arena, State };
  Kind kind = Kind::None;
  uint32_t index =
      0; ///< into inputs, outputs, weights, Program::buffers, states
  SymExpr byteOffset; ///< views cost nothing: an offset into the buffer
};

/// A slice of the arena. Offsets follow from the live ranges by planArena().
struct ArenaBuffer {
  SymExpr bytes;
  uint32_t firstUse = 0, lastUse = 0; ///< launch indices, inclusive
  /// The ONNX value that fills the buffer from its start, row-major, in `type`;
  /// "" for workspaces and packed forms. `fusion-run --verify` compares the
  /// values that a fused and the unfused program both name.
  std::string value;
  DType type = DType::F32;
};

/// How the card is to place a launch; the host ignores it.
enum class LaunchClass : uint8_t {
  Independent, ///< own grid and resources
  Chain, ///< shares one (grid, shared memory, register) class with its chain
};
enum class CacheHint : uint8_t { None, EvictFirst, EvictLast };
/// Which loads from a buffer may move into a launch's prologue, before the wait
/// for the previous kernel.
enum class Invariance : uint8_t {
  None,      ///< a launch of this program writes the buffer
  All,       ///< none does
  OlderRows, ///< a cache: launches write only the rows of this step
};

struct LaunchArg {
  BufferRef buffer;
  CacheHint hint = CacheHint::None;
  Invariance invariance = Invariance::None;
};

struct Launch {
  uint32_t kernel = 0;
  std::vector<LaunchArg> args; ///< operands, then results
  std::vector<SymExpr> sizes;  ///< values of the kernel's own symbols
  SymExpr grid = 1;            ///< work items
  SymExpr grain = 1;           ///< least work items worth one worker
  SymExpr scratchBytes;        ///< host: scratch of each worker
  LaunchClass launchClass = LaunchClass::Independent;
  bool programmatic = false; ///< card: prologue | wait | body split
  std::string site;          ///< ONNX nodes, for profiles and errors
};

/// One bucket class of the model: the same function, fused for its sizes.
struct Program {
  enum class Device : uint8_t { Host, Card };
  std::string name;             ///< "decode", "small_m", "prefill" or "main"
  Device device = Device::Host; ///< what it was fused for, and runs on
  /// "" for the programs that run; "unfused" for the form with one group a
  /// node that --verify compares them with. Both use the same weights section.
  std::string set;
  SymExpr rows; ///< number of token rows (M); 1 when not a decoder
  int64_t minRows = 0, maxRows = INT64_MAX;           ///< inclusive
  std::vector<std::pair<std::string, int64_t>> fixed; ///< symbols held constant
  std::vector<ArenaBuffer> buffers;
  std::vector<Launch> launches;
};

/// An equality that the compiler assumed and could not prove; checked whenever
/// a session is bound to inputs.
struct Guard {
  SymExpr left, right;
  std::string reason; ///< for the message, naming ONNX nodes or inputs
};

struct Model {
  std::string producer; ///< version of the compiler
  std::string name;     ///< graph name
  std::string options;  ///< canonical text of the options that shaped it
  std::vector<Symbol> symbols;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<State> states;
  std::vector<Weight> weights;
  std::vector<Kernel> kernels;
  std::vector<Image> images;
  std::vector<Program> programs; ///< tried in order; the first that fits runs
  std::vector<Guard> guards;
  /// The context that --kv-cache=state was compiled for; 0 when exposed.
  int64_t maxContext = 0;
  /// Tokens that a run appends to the states, a sequence; CachedLength symbols
  /// grow by it. Zero stands for the last axis of the TokenIds input.
  SymExpr appended;
  std::string explain; ///< the fusion report as JSON
};

/// Places buffers that live at different times over each other: best fit over
/// live ranges, the best of a few orders. Offsets are 64-aligned. `bytes[i]` is
/// the size of buffers[i]. Returns the arena's size.
uint64_t planArena(const std::vector<ArenaBuffer> &buffers,
                   const std::vector<uint64_t> &bytes,
                   std::vector<uint64_t> &offsets);

/// The most bytes alive at one launch, each buffer rounded up to 64: no arena
/// can be smaller.
uint64_t arenaLowerBound(const std::vector<ArenaBuffer> &buffers,
                         const std::vector<uint64_t> &bytes);

} // namespace fusion::artifact

#endif // FUSION_ARTIFACT_MODEL_H
