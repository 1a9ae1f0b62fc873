// ThreadPool: every index exactly once, whoever is awake.
#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/catch.h"

using namespace slipstream;

TEST_CASE("each index runs exactly once, over thousands of short loops", "[pool]") {
  for (const int32_t threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    REQUIRE(pool.threads() == threads);
    std::vector<std::atomic<int>> hits(97);
    int64_t wanted = 0;
    for (int round = 0; round < 2000; ++round) {
      const int64_t count = round % 98;
      pool.parallel_for(count, [&](int64_t i) { hits[static_cast<size_t>(i)].fetch_add(1, std::memory_order_relaxed); });
      wanted += count;
      // now and then long enough for the workers to fall asleep
      if (round % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    int64_t total = 0;
    for (size_t i = 0; i < hits.size(); ++i) {
      total += hits[i];
      if (i > 0) CHECK(hits[i] <= hits[i - 1]);
    }
    CHECK(total == wanted);
    CHECK(hits[96] == 2000 / 98);
  }
}

TEST_CASE("a late worker never runs a short loop's body on a longer loop's index", "[pool]") {
  ThreadPool pool(5);  // more threads than cores: some are always late
  std::atomic<int> wrong{0};
  std::vector<int> hits(300);
  for (int round = 0; round < 20000; ++round) {
    const int64_t count = round % 2 == 0 ? 2 : 300;
    std::fill(hits.begin(), hits.end(), 0);
    pool.parallel_for(count, [&, count](int64_t i) {
      if (i >= count) ++wrong;
      ++hits[static_cast<size_t>(i)];
    });
    for (int64_t i = 0; i < 300; ++i) wrong += hits[static_cast<size_t>(i)] != (i < count ? 1 : 0);
  }
  CHECK(wrong == 0);
}

TEST_CASE("worker numbers name threads, and writes are visible after the loop", "[pool]") {
  ThreadPool pool(3);
  std::vector<int64_t> value(1000);       // written without atomics: the loop's end is the barrier
  std::vector<std::thread::id> owner(3);
  std::atomic<int> wrong{0};
  for (int round = 0; round < 50; ++round) {
    pool.parallel_for_worker(1000, [&](int64_t i, int32_t worker) {
      if (worker < 0 || worker >= 3) ++wrong;
      std::thread::id& id = owner[static_cast<size_t>(worker)];
      if (id == std::thread::id()) id = std::this_thread::get_id();
      if (id != std::this_thread::get_id()) ++wrong;
      value[static_cast<size_t>(i)] += i;
    });
    for (int64_t i = 0; i < 1000; ++i) REQUIRE(value[static_cast<size_t>(i)] == i * (round + 1));
  }
  CHECK(wrong == 0);
  CHECK(owner[0] == std::this_thread::get_id());
}

TEST_CASE("available_cores is what this process may use", "[pool]") {
  const int32_t cores = available_cores();
  CHECK(cores >= 1);
  CHECK(cores <= static_cast<int32_t>(std::max(1u, std::thread::hardware_concurrency())));
}
