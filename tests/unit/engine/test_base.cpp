#include <thread>

#include "engine/base/bounded_queue.h"
#include "engine/base/clock.h"
#include "engine/base/fault.h"
#include "tests/catch.h"

using namespace slipstream;

TEST_CASE("the queue keeps order and its bound") {
  BoundedQueue<int> queue(2);
  REQUIRE(queue.try_push(1));
  REQUIRE(queue.try_push(2));
  REQUIRE(!queue.try_push(3));
  std::thread writer([&] { queue.push(3); });  // waits for room
  REQUIRE(queue.pop() == 1);
  writer.join();
  REQUIRE(queue.pop() == 2);
  REQUIRE(queue.pop() == 3);
  REQUIRE(!queue.pop_for(std::chrono::milliseconds(5)));
  queue.push(4);
  queue.close();
  REQUIRE(!queue.push(5));
  REQUIRE(queue.pop() == 4);  // what was inside can still be taken
  REQUIRE(!queue.pop());
}

TEST_CASE("close wakes those who wait") {
  BoundedQueue<int> queue(1);
  bool empty = false;
  std::thread reader([&] { empty = !queue.pop(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  queue.close();
  reader.join();
  REQUIRE(empty);
}

TEST_CASE("faults fire at their passes only") {
  FaultSchedule faults;
  faults.fire_at("op", 2);
  faults.fire_at("op", 4);
  std::vector<int> fired;
  for (int pass = 1; pass <= 6; ++pass)
    if (faults.passes("op")) fired.push_back(pass);
  REQUIRE(fired == std::vector<int>{2, 4});
  REQUIRE(!faults.passes("other"));
  REQUIRE(faults.fired("op") == 2);
}

TEST_CASE("the simulated clock moves when told") {
  SimulatedClock clock;
  const auto start = clock.now();
  clock.advance(std::chrono::milliseconds(5));
  REQUIRE(clock.now() - start == std::chrono::milliseconds(5));
}
