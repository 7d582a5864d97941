//===- Arena.cpp - Placing buffers by their live ranges -------------------===//
//
// Best fit: a buffer takes the smallest gap that holds it among the buffers
// already placed that live at the same time. The order matters: buffers of the
// fullest launches first pack the peak tightly, which is the lower bound. A few
// orders are tried, each with some repairs, and the search stops close to the
// bound.
//
//===----------------------------------------------------------------------===//

#include "fusion/Artifact/Model.h"

#include <algorithm>
#include <tuple>

using namespace fusion::artifact;

namespace {

uint64_t roundUp(uint64_t bytes) { return (bytes + 63) & ~uint64_t(63); }

struct Item {
  uint64_t bytes;
  uint32_t first, last, index;
  uint64_t offset;
  uint64_t fullest; ///< most bytes alive while it lives
  uint32_t peak;    ///< the first launch at which they are
  uint64_t length() const { return uint64_t(last) - first + 1; }
};

/// Placements tried from each order.
constexpr int kAttempts = 8;
/// The search stops within this part of the lower bound.
constexpr uint64_t kCloseEnough = 64;

using Order = bool (*)(const Item &, const Item &);

/// The start of the smallest sufficient gap between `placed`, which are sorted
/// by offset; behind all of them where there is none.
uint64_t findPlace(const Item &item, const std::vector<const Item *> &placed) {
  uint64_t end = 0, place = 0, smallest = UINT64_MAX;
  for (const Item *other : placed) {
    if (other->last < item.first || other->first > item.last)
      continue;
    if (other->offset >= end + item.bytes && other->offset - end < smallest) {
      smallest = other->offset - end;
      place = end;
    }
    end = std::max(end, other->offset + other->bytes);
  }
  return smallest == UINT64_MAX ? end : place;
}

/// Places `items` one by one; returns the arena's size.
uint64_t placeAll(std::vector<Item> &items) {
  std::vector<const Item *> placed;
  uint64_t size = 0;
  for (Item &item : items) {
    item.offset = findPlace(item, placed);
    size = std::max(size, item.offset + item.bytes);
    auto place = std::upper_bound(
        placed.begin(), placed.end(), &item,
        [](const Item *a, const Item *b) { return a->offset < b->offset; });
    placed.insert(place, &item);
  }
  return size;
}

std::vector<Item> makeItems(const std::vector<ArenaBuffer> &buffers,
                            const std::vector<uint64_t> &bytes) {
  uint32_t last = 0;
  for (const ArenaBuffer &b : buffers)
    last = std::max(last, b.lastUse);
  std::vector<uint64_t> alive(size_t(last) + 1);
  for (size_t i = 0; i < buffers.size(); ++i)
    for (uint32_t l = buffers[i].firstUse; l <= buffers[i].lastUse; ++l)
      alive[l] += roundUp(bytes[i]);
  std::vector<Item> items;
  for (uint32_t i = 0; i < buffers.size(); ++i) {
    auto begin = alive.begin() + buffers[i].firstUse;
    auto peak = std::max_element(begin, alive.begin() + buffers[i].lastUse + 1);
    items.push_back({roundUp(bytes[i]), buffers[i].firstUse, buffers[i].lastUse,
                     i, 0, *peak, static_cast<uint32_t>(peak - alive.begin())});
  }
  return items;
}

} // namespace

uint64_t
fusion::artifact::arenaLowerBound(const std::vector<ArenaBuffer> &buffers,
                                  const std::vector<uint64_t> &bytes) {
  std::vector<std::pair<uint64_t, int64_t>> changes;
  for (size_t i = 0; i < buffers.size(); ++i) {
    auto size = static_cast<int64_t>(roundUp(bytes[i]));
    changes.push_back({buffers[i].firstUse, size});
    changes.push_back({uint64_t(buffers[i].lastUse) + 1, -size});
  }
  std::sort(changes.begin(), changes.end()); // ends before starts
  int64_t alive = 0, most = 0;
  for (const auto &[launch, change] : changes)
    most = std::max(most, alive += change);
  return static_cast<uint64_t>(most);
}

uint64_t fusion::artifact::planArena(const std::vector<ArenaBuffer> &buffers,
                                     const std::vector<uint64_t> &bytes,
                                     std::vector<uint64_t> &offsets) {
  std::vector<Item> items = makeItems(buffers, bytes);
  // Every order ends with the index, so that it is total and the result the
  // same everywhere.
  const Order orders[] = {
      [](const Item &a, const Item &b) {
        return std::make_tuple(b.fullest, a.peak, b.bytes, a.index) <
               std::make_tuple(a.fullest, b.peak, a.bytes, b.index);
      },
      [](const Item &a, const Item &b) {
        return std::make_tuple(b.bytes, b.length(), a.index) <
               std::make_tuple(a.bytes, a.length(), b.index);
      },
      [](const Item &a, const Item &b) {
        return std::make_tuple(b.length(), b.bytes, a.index) <
               std::make_tuple(a.length(), a.bytes, b.index);
      },
      [](const Item &a, const Item &b) {
        return std::make_tuple(a.first, b.bytes, a.index) <
               std::make_tuple(b.first, a.bytes, b.index);
      },
      [](const Item &a, const Item &b) {
        return std::make_tuple(b.bytes * b.length(), a.index) <
               std::make_tuple(a.bytes * a.length(), b.index);
      },
  };
  uint64_t bound = arenaLowerBound(buffers, bytes), best = UINT64_MAX;
  offsets.assign(buffers.size(), 0);
  for (Order order : orders) {
    std::sort(items.begin(), items.end(), order);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      uint64_t size = placeAll(items);
      if (size < best) {
        best = size;
        for (const Item &item : items)
          offsets[item.index] = item.offset;
      }
      if (best - bound <= bound / kCloseEnough)
        return best;
      // What ended above the bound chooses its place first the next time.
      std::stable_partition(items.begin(), items.end(), [&](const Item &item) {
        return item.offset + item.bytes > bound;
      });
    }
  }
  return best;
}
