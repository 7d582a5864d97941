//===- SpecialCodes.cpp - NaN and infinity among codes of 8 bits ----------===//
//
// The packed decode of FP8 reads a code's bits as a number, special ones as
// large finite values. Weights hardly ever hold any; those that do are found
// here, by reading them once, and stay unpacked.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include <fcntl.h>
#include <unistd.h>

#include <vector>

using namespace mlir;
using namespace fusion;

/// All bits of the field are one: NaN of E4M3FN; NaN and infinities of E5M2.
static std::optional<uint8_t> specialField(Type element) {
  if (isa<Float8E4M3FNType>(element))
    return 0x7f;
  if (isa<Float8E5M2Type>(element))
    return 0x7c;
  return std::nullopt;
}

static bool holdsField(ArrayRef<char> bytes, uint8_t field) {
  // Without an early exit: compilers make vectors of it.
  bool found = false;
  for (char byte : bytes)
    found |= (uint8_t(byte) & field) == field;
  return found;
}

/// Files that cannot be read are reported where the weights are copied.
static bool holdsField(WeightRefAttr source, uint8_t field) {
  constexpr size_t kChunkBytes = 1 << 20;
  int file = ::open(source.getFile().str().c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return false;
  std::vector<char> chunk(kChunkBytes);
  bool found = false;
  for (uint64_t at = 0; at < source.getLength() && !found;) {
    size_t size = std::min<uint64_t>(kChunkBytes, source.getLength() - at);
    ssize_t read =
        pread(file, chunk.data(), size, off_t(source.getOffset() + at));
    if (read <= 0)
      break;
    found = holdsField(ArrayRef(chunk.data(), size_t(read)), field);
    at += uint64_t(read);
  }
  ::close(file);
  return found;
}

bool fusion::holdsSpecialCodes(Attribute source, Type type) {
  auto field = specialField(getElementTypeOrSelf(type));
  if (!field)
    return false;
  if (auto weight = dyn_cast<WeightRefAttr>(source))
    return !weight.getStored() && holdsField(weight, *field);
  if (auto elements = dyn_cast<DenseElementsAttr>(source))
    return holdsField(elements.getRawData(), *field);
  return false;
}
