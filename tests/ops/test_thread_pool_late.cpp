// ThreadPool against a worker that comes late, at every instruction of the loop that overtakes it. The worker is held in
// a signal handler while a short loop runs without it; the caller then goes through the next, longer loop in single steps
// (the processor's trap flag), and the worker is let go at one of them: a different one each time.
//
// x86-64 Linux alone. Not under the thread sanitizer, which holds signals back until a thread blocks.
#include "kernels/cpu/thread_pool.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SLIP_SIGNALS_COME_LATE
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define SLIP_SIGNALS_COME_LATE
#endif

#if defined(__linux__) && defined(__x86_64__) && !defined(SLIP_SIGNALS_COME_LATE)
#include <pthread.h>
#include <signal.h>
#include <sys/ucontext.h>
#include <time.h>

#include <array>
#include <atomic>

#include "tests/catch.h"

using namespace slipstream;

namespace {

std::atomic<bool> hold{false}, held{false};
std::atomic<int> steps_left{0};  // until the worker is let go; the caller is stepped while it is above 0
constexpr greg_t kTrapFlag = 0x100;

void rest(long microseconds) {
  const timespec time{0, microseconds * 1000};
  nanosleep(&time, nullptr);
}

void hold_worker(int) {
  held = true;
  while (hold) rest(10);
  held = false;
}

void step(int, siginfo_t*, void* context) {
  if (--steps_left > 0) return;
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
  hold = false;
  while (held) rest(10);
  rest(100);  // enough for what the worker does before it finds nothing and spins: well below a microsecond
}

inline void step_from_here() { asm volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc"); }

class Handler {
 public:
  template <typename Set>
  Handler(int number, const Set& set) : number_(number) {
    struct sigaction action = {};
    set(&action);
    sigaction(number, &action, &before_);
  }
  ~Handler() { sigaction(number_, &before_, nullptr); }
  Handler(const Handler&) = delete;
  Handler& operator=(const Handler&) = delete;

 private:
  const int number_;
  struct sigaction before_ = {};
};

}  // namespace

TEST_CASE("a late worker takes no index of the loop that overtakes it", "[pool]") {
  const Handler holding(SIGUSR1, [](struct sigaction* a) { a->sa_handler = hold_worker; });
  const Handler stepping(SIGTRAP, [](struct sigaction* a) {
    a->sa_sigaction = step;
    a->sa_flags = SA_SIGINFO;
  });
  ThreadPool pool(2);
  std::atomic<pthread_t> worker_thread{};
  pool.parallel_for_worker(2, [&](int64_t, int32_t worker) {
    if (worker == 1) worker_thread = pthread_self();
    while (worker_thread == pthread_t{}) rest(10);
  });

  constexpr int kShort = 2, kLong = 4;
  constexpr int kMost = 500;  // tries: sanitizers multiply the instructions, and the loop's values are set among the first
  std::array<std::atomic<int>, kLong> hits = {};
  const auto body = [&](int64_t i, int32_t) { ++hits[static_cast<size_t>(i)]; };
  int tried = 0;
  for (bool reached = true; reached && tried < kMost; ++tried) {
    hold = true;
    REQUIRE(pthread_kill(worker_thread, SIGUSR1) == 0);
    while (!held) rest(10);
    pool.parallel_for_worker(kShort, body);
    for (auto& hit : hits) hit = 0;

    steps_left = tried + 1;
    step_from_here();
    pool.parallel_for_worker(kLong, body);
    reached = steps_left <= 0;
    while (steps_left > 0) {  // the loop has fewer instructions: go through those that are left here
    }
    INFO("the worker was let go " << tried << " instructions after the loop began");
    for (const auto& hit : hits) REQUIRE(hit == 1);
  }
  CHECK(tried > 50);  // no loop of four has fewer instructions: otherwise nothing was stepped
}
#endif
