//===- PackingSink.cpp - Row-major elements to packed layouts -------------===//

#include "PackingSink.h"

#include <cstring>

using namespace mlir;
using namespace fusion;
using namespace fusion::kernels;

PackingSink::PackingSink(PackedLayout layout, RankedTensorType type,
                         artifact::ByteSink &next)
    : layout(layout), element(type.getElementType()), next(next),
      rows(type.getDimSize(0)),
      columns(type.getRank() > 1 ? type.getDimSize(1) : 1),
      bits(element.getIntOrFloatBitWidth()) {
  strip.resize(size_t(kStripRows * columns) * bits / 8);
  auto stripType = RankedTensorType::get({kStripRows, columns}, element);
  packed.resize(size_t(packedBytes(layout, stripType)));
  if (layout != PackedLayout::Fragments)
    return;
  int64_t width = unitColumns(bits);
  for (int64_t row = 0; row < kStripRows; ++row)
    for (int64_t column = 0; column < width; ++column) {
      CodePlace place = getCodePlace(row, column, width, bits);
      places.push_back({uint16_t(place.half), uint8_t(place.slot)});
    }
  for (unsigned slot = 0; slot < 16 / bits; ++slot)
    for (unsigned code = 0; code < 1u << bits; ++code)
      placed.push_back(placeCode(element, slot, code));
}

Status PackingSink::write(const void *data, size_t bytes) {
  auto *from = static_cast<const char *>(data);
  while (bytes > 0) {
    size_t count = std::min(bytes, strip.size() - filled);
    memcpy(strip.data() + filled, from, count);
    filled += count;
    from += count;
    bytes -= count;
    if (filled < strip.size())
      continue;
    if (Status s = packStrip(); !s)
      return s;
  }
  return {};
}

Status PackingSink::finish() { return filled > 0 ? packStrip() : Status(); }

Status PackingSink::packStrip() {
  memset(packed.data(), 0, packed.size());
  layout == PackedLayout::Fragments ? packCodes() : packElements();
  firstRow += kStripRows;
  filled = 0;
  return next.write(packed.data(), packed.size());
}

/// Element `index` of the strip, up to 8 bits.
unsigned PackingSink::code(size_t index) const {
  auto byte = static_cast<unsigned char>(strip[index * bits / 8]);
  return bits == 8 ? byte : byte >> (index * bits % 8) & ((1u << bits) - 1);
}

void PackingSink::packCodes() {
  int64_t width = unitColumns(bits);
  auto *halves = reinterpret_cast<uint16_t *>(packed.data());
  int64_t count = std::min(kStripRows, rows - firstRow);
  for (int64_t row = 0; row < count; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      auto [half, slot] = places[size_t(row * width + column % width)];
      halves[column / width * (kUnitBytes / 2) + half] |=
          placed[(size_t(slot) << bits) + code(size_t(row * columns + column))];
    }
}

void PackingSink::packElements() {
  unsigned bytes = stripBytes(element), flip = getCodeFlip(element);
  int64_t count = std::min(kStripRows, rows - firstRow);
  for (int64_t row = 0; row < count; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      size_t from = size_t(row * columns + column);
      char *to =
          packed.data() + size_t(getStripPlace(row, column, columns)) * bytes;
      if (bits <= 8)
        *to = static_cast<char>(code(from) ^ flip);
      else
        memcpy(to, strip.data() + from * bytes, bytes);
    }
}
