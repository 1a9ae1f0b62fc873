#include <thread>

#include "engine/request/output_channel.h"
#include "tests/catch.h"

using namespace slipstream;

TEST_CASE("a full channel drops, says so and stays closed to more") {
  OutputChannel channel(2);
  OutputEvent event;
  for (int32_t i = 0; i < 2; ++i) {
    event.choice = i;
    REQUIRE(channel.push(event));
  }
  REQUIRE(!channel.overflowed());
  REQUIRE(!channel.push(event));
  REQUIRE(channel.overflowed());
  REQUIRE(channel.pop(std::chrono::milliseconds(0))->choice == 0);
  REQUIRE(!channel.push(event));  // no gap in the middle of a stream
  REQUIRE(channel.drain().size() == 1);
  REQUIRE(!channel.pop(std::chrono::milliseconds(0)));
}

TEST_CASE("a waiting reader is woken") {
  OutputChannel channel(4);
  std::thread writer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    OutputEvent event;
    event.tokens = {7};
    channel.push(event);
  });
  const auto event = channel.pop(std::chrono::seconds(10));
  writer.join();
  REQUIRE(event.has_value());
  REQUIRE(event->tokens == std::vector<int32_t>{7});
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(!channel.pop(std::chrono::milliseconds(30)));
  REQUIRE(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(30));
}
