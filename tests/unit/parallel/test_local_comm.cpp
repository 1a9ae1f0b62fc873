#include "engine/parallel/local_comm.h"

#include <atomic>
#include <chrono>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

#include "kernels/ops.h"
#include "tests/catch.h"

using namespace slipstream;

namespace {

void on_every_rank(std::vector<std::unique_ptr<Communicator>>& comms, const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (auto& comm : comms) threads.emplace_back([&] { body(*comm); });
  for (std::thread& thread : threads) thread.join();
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

TEST_CASE("all_gather puts every rank's numbers in rank order, round after round") {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    auto comms = make_local_comms(ranks);
    REQUIRE(static_cast<int>(comms.size()) == ranks);
    std::atomic<int> wrong{0};
    on_every_rank(comms, [&](Communicator& comm) {
      for (int round = 0; round < 200; ++round) {
        const int64_t count = 1 + round % 5;
        std::vector<float> in(static_cast<size_t>(count), static_cast<float>(1000 * comm.rank() + round));
        std::vector<float> out(static_cast<size_t>(count * ranks), -1.0f);
        if (round % 2 == 0) {
          comm.all_gather(in.data(), out.data(), count);
        } else {  // in place, as row_linear_add_norm does
          float* mine = out.data() + comm.rank() * count;
          std::copy(in.begin(), in.end(), mine);
          comm.all_gather(mine, out.data(), count);
        }
        for (int r = 0; r < ranks; ++r)
          for (int64_t i = 0; i < count; ++i)
            wrong += out[static_cast<size_t>(r * count + i)] != static_cast<float>(1000 * r + round);
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("broadcast copies the root's bytes to every rank") {
  auto comms = make_local_comms(3);
  std::atomic<int> wrong{0};
  on_every_rank(comms, [&](Communicator& comm) {
    for (int root = 0; root < 3; ++root) {
      std::vector<char> data(17, static_cast<char>('a' + comm.rank()));
      comm.broadcast(data.data(), data.size(), root);
      for (char c : data) wrong += c != 'a' + root;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a barrier holds until the last rank arrives, and waiting costs no CPU time") {
  auto comms = make_local_comms(4);
  std::atomic<int> arrived{0};
  std::atomic<int> early{0};
  const double before = cpu_seconds();
  on_every_rank(comms, [&](Communicator& comm) {
    if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ++arrived;
    comm.barrier();
    early += arrived != 4;
  });
  CHECK(early == 0);
  // Three ranks wait 0.2 s each: spinning would cost 0.4 s on two cores.
  CHECK(cpu_seconds() - before < 0.1);
}

TEST_CASE("abort wakes the ranks that wait and fails later collectives") {
  auto comms = make_local_comms(3);
  std::atomic<int> thrown{0};
  on_every_rank(comms, [&](Communicator& comm) {
    if (comm.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      comm.abort();
      return;
    }
    float in = 1, out[3];
    try {
      comm.all_gather(&in, out, 1);
    } catch (const DeviceError&) {
      ++thrown;
    }
  });
  CHECK(thrown == 2);
  CHECK_THROWS_AS(comms[2]->barrier(), DeviceError);
}
