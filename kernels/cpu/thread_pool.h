// A fixed set of worker threads for one Ops: the caller and threads - 1 workers claim indices of a loop from one atomic
// counter. Workers wait briefly by spinning, then sleep, so that foreign load costs us a share and not a stall.
// Knows no tensor; results must never depend on who runs which index.
//
// Thread: parallel_for is called by one thread at a time (the rank's worker).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace slipstream {

class ThreadPool {
 public:
  /// threads >= 1, the caller included; 0: one per core that this process may use (affinity mask and cgroup quota).
  explicit ThreadPool(int32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int32_t threads() const { return threads_; }

  /// Calls body(i) once for each i in [0, count), on any thread, in any order; returns when all are done. body must not
  /// throw and must not call parallel_for.
  template <typename Body>
  void parallel_for(int64_t count, const Body& body) {
    parallel_for_worker(count, [&](int64_t i, int32_t) { body(i); });
  }

  /// Calls body(i, worker): worker in [0, threads) names the thread, for its own scratch.
  template <typename Body>
  void parallel_for_worker(int64_t count, const Body& body) {
    if (count <= 0) return;
    if (threads_ == 1 || count == 1) {
      for (int64_t i = 0; i < count; ++i) body(i, 0);
      return;
    }
    run(count, [](const void* context, int64_t i, int32_t worker) { (*static_cast<const Body*>(context))(i, worker); },
        &body);
  }

 private:
  using Call = void (*)(const void* context, int64_t index, int32_t worker);
  void run(int64_t count, Call call, const void* context);
  void work(int32_t worker);
  bool claim_and_run(uint64_t epoch, int32_t worker);
  void worker_loop(int32_t worker);

  int32_t threads_ = 1;
  // (epoch << 32) | next index. Claims are compare-and-swap on the pair, so that a late worker never takes an index of
  // another loop than the one whose call it has read.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  std::atomic<uint32_t> count_{0};
  std::atomic<Call> call_{nullptr};
  std::atomic<const void*> context_{nullptr};
  alignas(64) std::atomic<uint32_t> unfinished_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // what sleeping workers wait on
  std::atomic<int32_t> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

/// Cores that this process may use: the affinity mask, lowered by a cgroup v2 CPU quota; at least 1.
int32_t available_cores();

}  // namespace slipstream
