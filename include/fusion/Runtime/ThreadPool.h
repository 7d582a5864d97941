//===- ThreadPool.h - Splitting a launch over the processors ----*- C++ -*-===//
//
// A decode step is some three hundred launches of a few dozen microseconds, so
// handing one to the workers must cost less than a microsecond: workers spin
// between launches and sleep only when none came for a while. A launch never
// waits for a worker that has not begun with it.
//
//===----------------------------------------------------------------------===//

#ifndef FUSION_RUNTIME_THREADPOOL_H
#define FUSION_RUNTIME_THREADPOOL_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace fusion {

class ThreadPool {
public:
  /// Runs the items [begin, end) as worker `worker` (0 is the caller).
  using Body = void (*)(void *context, unsigned worker, int64_t begin,
                        int64_t end);

  /// `threads` includes the caller of run(); 0 takes one a processor that the
  /// process may use.
  explicit ThreadPool(unsigned threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  unsigned size() const { return static_cast<unsigned>(workers.size()) + 1; }

  /// Runs all items of [0, grid) and returns when they are done. The pieces
  /// are multiples of `grain` items and depend on grid, grain and size()
  /// alone; which worker takes which piece does not. One caller at a time.
  void run(int64_t grid, int64_t grain, Body body, void *context);

private:
  struct Job {
    Body body = nullptr;
    void *context = nullptr;
    int64_t grid = 0, grain = 1, units = 0, pieces = 0;
  };

  void workerLoop(unsigned worker);
  void takePieces(unsigned worker);
  bool waitForJob(uint64_t seen);

  Job job; ///< written while nobody has joined
  alignas(64) std::atomic<int64_t> nextPiece{0};
  /// Bits 33..63 number the jobs, bit 32 is set while workers may join, bits
  /// 0..31 count those that have joined and not left.
  alignas(64) std::atomic<uint64_t> state{0};
  alignas(64) std::atomic<unsigned> sleepers{0};
  std::atomic<bool> stopping{false};
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> workers;
};

} // namespace fusion

#endif // FUSION_RUNTIME_THREADPOOL_H
