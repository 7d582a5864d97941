//===- ThreadPool.cpp - Splitting a launch over the processors ------------===//
//
// The state word makes joining and closing atomic: a worker joins by counting
// itself in while the open bit is set; the caller clears the bit when all
// pieces are taken and waits for the count to fall to zero, after which nobody
// reads the job and the next one may be written.
//
//===----------------------------------------------------------------------===//

#include "fusion/Runtime/ThreadPool.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <immintrin.h>
#include <sched.h>

using namespace fusion;

namespace {

constexpr uint64_t kOpen = uint64_t(1) << 32;
constexpr uint64_t kNextJob = uint64_t(1) << 33;
constexpr uint64_t kJoined = kOpen - 1;
/// A pause takes some 40 to 140 cycles: about 200 us before a worker sleeps.
constexpr unsigned kSpins = 6000;
constexpr unsigned kSpinsBeforeYield = 400;
/// Pieces a worker: enough to even out a worker that is held up.
constexpr int64_t kPiecesPerWorker = 4;

/// The quota of the container, in whole processors: spinning on more of them
/// than that gets every thread throttled.
unsigned containerQuota() {
  unsigned whole = UINT_MAX;
  if (FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r")) {
    long long quota, period; // "max 100000" where there is none
    if (fscanf(file, "%lld %lld", &quota, &period) == 2 && quota > 0 &&
        period > 0)
      whole = static_cast<unsigned>(
          std::clamp<long long>((quota + period - 1) / period, 1, INT_MAX));
    fclose(file);
  }
  return whole;
}

unsigned usableProcessors() {
  cpu_set_t set;
  unsigned count = std::max(1u, std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    count = static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
  return std::min(count, containerQuota());
}

} // namespace

ThreadPool::ThreadPool(unsigned threads) {
  if (threads == 0)
    threads = usableProcessors();
  for (unsigned i = 1; i < threads; ++i)
    workers.emplace_back([this, i] { workerLoop(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::run(int64_t grid, int64_t grain, Body body, void *context) {
  if (grid <= 0)
    return;
  grain = std::clamp<int64_t>(grain, 1, grid);
  int64_t units = grid / grain + (grid % grain != 0);
  int64_t pieces = std::min<int64_t>(units, size() * kPiecesPerWorker);
  if (pieces == 1 || workers.empty()) {
    body(context, 0, 0, grid);
    return;
  }
  job = {body, context, grid, grain, units, pieces};
  nextPiece.store(0, std::memory_order_relaxed);
  uint64_t jobNumber = state.load(std::memory_order_relaxed) / kNextJob + 1;
  state.store(jobNumber * kNextJob | kOpen, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0) {
    {
      std::lock_guard<std::mutex> lock(mutex);
    }
    wake.notify_all();
  }
  takePieces(0);
  state.fetch_and(~kOpen, std::memory_order_acq_rel);
  for (unsigned spins = 0; state.load(std::memory_order_acquire) & kJoined;)
    if (++spins < kSpinsBeforeYield)
      _mm_pause();
    else
      sched_yield();
}

void ThreadPool::takePieces(unsigned worker) {
  // Dividing first keeps piece * units from overflowing.
  int64_t each = job.units / job.pieces, rest = job.units % job.pieces;
  auto unit = [&](int64_t piece) {
    return piece * each + std::min(piece, rest);
  };
  for (;;) {
    int64_t piece = nextPiece.fetch_add(1, std::memory_order_relaxed);
    if (piece >= job.pieces)
      return;
    int64_t begin = unit(piece) * job.grain;
    bool last = piece + 1 == job.pieces;
    int64_t end = last ? job.grid : unit(piece + 1) * job.grain;
    job.body(job.context, worker, begin, end);
  }
}

/// False when the pool is closing.
bool ThreadPool::waitForJob(uint64_t seen) {
  auto isNew = [&] {
    return state.load(std::memory_order_seq_cst) / kNextJob != seen;
  };
  for (unsigned spins = 0; spins < kSpins; ++spins) {
    if (isNew())
      return true;
    if (stopping.load(std::memory_order_relaxed))
      return false;
    _mm_pause();
  }
  std::unique_lock<std::mutex> lock(mutex);
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  wake.wait(lock, [&] { return stopping || isNew(); });
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
  return !stopping;
}

void ThreadPool::workerLoop(unsigned worker) {
  uint64_t seen = 0;
  while (waitForJob(seen)) {
    uint64_t now = state.load(std::memory_order_acquire);
    seen = now / kNextJob;
    bool joined = false;
    while ((now & kOpen) && !joined)
      joined =
          state.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel);
    if (!joined)
      continue;
    seen = now / kNextJob; // may be a later job than the one that woke us
    takePieces(worker);
    state.fetch_sub(1, std::memory_order_acq_rel);
  }
}
