// The bar's text, and how often it and the log lines appear, on a clock of the test's own.
#include "server/load_progress.h"

#include <vector>

#include "tests/catch.h"

using namespace slipstream;
using std::chrono::milliseconds;

namespace {

struct Screen {
  std::chrono::steady_clock::time_point time{};
  std::vector<std::string> bars;
  std::vector<uint64_t> lines;

  LoadProgress::Output output(bool terminal) {
    LoadProgress::Output out;
    out.now = [this] { return time; };
    if (terminal) out.bar = [this](const std::string& text) { bars.push_back(text); };
    out.line = [this](uint64_t done, uint64_t, double) { lines.push_back(done); };
    return out;
  }
};

}  // namespace

TEST_CASE("the bar shows bytes and the mean rate") {
  const uint64_t gib = uint64_t{1} << 30;
  CHECK(progress_bar("loading weights", gib, 2 * gib, 0.5) ==
        "loading weights [###############...............] 1.00 of 2.00 GiB, 2.1 GB/s");
  CHECK(progress_bar("w", 0, gib, 0) == "w [..............................] 0.00 of 1.00 GiB, 0.0 GB/s");
  CHECK(progress_bar("w", 0, 0, 1) == "w [##############################] 0.00 of 0.00 GiB, 0.0 GB/s");
}

TEST_CASE("a terminal gets a bar ten times a second and its end, nothing else") {
  Screen screen;
  LoadProgress progress("w", screen.output(true));
  for (uint64_t i = 1; i <= 100; ++i) {
    screen.time += milliseconds(10);
    progress.update(i, 100);
  }
  CHECK(screen.bars.size() == 10);
  progress.finish(100);
  CHECK(screen.bars.size() == 12);
  CHECK(screen.bars.back() == "\n");
  CHECK(screen.lines.empty());
  CHECK(progress.seconds() == Approx(1.0));
}

TEST_CASE("a log gets a line every few seconds, and none for a short load") {
  Screen screen;
  LoadProgress progress("w", screen.output(false));
  for (uint64_t i = 1; i <= 120; ++i) {
    screen.time += milliseconds(100);
    progress.update(i, 120);
  }
  progress.finish(120);
  CHECK(screen.lines == std::vector<uint64_t>{50, 100});
  CHECK(screen.bars.empty());
}
