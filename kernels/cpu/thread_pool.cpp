#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

#include "kernels/check.h"

namespace slipstream {
namespace {

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Longer than the serial work between two loops of a decode step (a few microseconds), far below a scheduler slice.
constexpr std::chrono::microseconds kSpin{30};

/// Spins until done() or the limit. Reading the clock every 16 pauses keeps the check itself cheap.
template <typename Done>
bool spin_until(const Done& done) {
  if (done()) return true;
  const auto limit = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 16; ++i) {
      if (done()) return true;
      pause_briefly();
    }
  } while (std::chrono::steady_clock::now() < limit);
  return done();
}

}  // namespace

int32_t available_cores() {
  int32_t cores = static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency()));
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  if (std::FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "r")) {
    double quota = 0, period = 0;  // "max 100000" leaves quota unread
    if (std::fscanf(file, "%lf %lf", &quota, &period) == 2 && quota > 0 && period > 0)
      cores = std::min(cores, std::max(1, static_cast<int32_t>(std::ceil(quota / period))));
    std::fclose(file);
  }
#endif
  return cores;
}

ThreadPool::ThreadPool(int32_t threads) : threads_(threads > 0 ? threads : available_cores()) {
  workers_.reserve(static_cast<size_t>(threads_ - 1));
  for (int32_t i = 1; i < threads_; ++i) {
    workers_.emplace_back([this, i] { worker_loop(i); });
#if defined(__linux__)
    pthread_setname_np(workers_.back().native_handle(), "slip-kernel");
#endif
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_seq_cst);
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  epoch_.notify_all();
  for (auto& worker : workers_) worker.join();
}

bool ThreadPool::claim_and_run(uint64_t epoch, int32_t worker) {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while ((ticket >> 32) == epoch) {
    const uint32_t count = count_.load(std::memory_order_acquire);
    const Call call = call_.load(std::memory_order_acquire);
    const void* context = context_.load(std::memory_order_acquire);
    const uint32_t index = static_cast<uint32_t>(ticket);
    if (index >= count) return false;
    // Success proves that the ticket was not closed since it was read: the three values above are that loop's own.
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    call(context, index, worker);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
    return true;
  }
  return false;
}

void ThreadPool::work(int32_t worker) {
  const uint64_t epoch = ticket_.load(std::memory_order_acquire) >> 32;
  while (claim_and_run(epoch, worker)) {
  }
}

void ThreadPool::run(int64_t count, Call call, const void* context) {
  CHECK(count < (int64_t{1} << 31), "a parallel loop is too long");
  const uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  // The previous loop is over, but a late worker may hold its last ticket and would find an unclaimed index as soon as it
  // sees a larger count. Closing the ticket first makes its claim fail: who sees one of the new values sees this too.
  ticket_.store(static_cast<uint64_t>(epoch) << 32 | UINT32_MAX, std::memory_order_relaxed);
  count_.store(static_cast<uint32_t>(count), std::memory_order_release);
  call_.store(call, std::memory_order_release);
  context_.store(context, std::memory_order_release);
  unfinished_.store(static_cast<uint32_t>(count), std::memory_order_relaxed);
  ticket_.store(static_cast<uint64_t>(epoch) << 32, std::memory_order_release);
  epoch_.store(epoch, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) epoch_.notify_all();
  work(0);
  if (spin_until([&] { return unfinished_.load(std::memory_order_acquire) == 0; })) return;
  for (uint32_t left; (left = unfinished_.load(std::memory_order_acquire)) != 0;) unfinished_.wait(left);
}

void ThreadPool::worker_loop(int32_t worker) {
  uint32_t seen = 0;
  while (true) {
    const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    if (!spin_until(changed)) {
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      while (!changed()) epoch_.wait(seen, std::memory_order_seq_cst);
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    }
    if (stop_.load(std::memory_order_seq_cst)) return;
    seen = epoch_.load(std::memory_order_acquire);
    work(worker);
  }
}

}  // namespace slipstream
