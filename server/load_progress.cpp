// See load_progress.h.
#include "server/load_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "engine/base/log.h"

namespace slipstream {
namespace {

double rate(uint64_t bytes, double seconds) { return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0; }

}  // namespace

std::string progress_bar(std::string_view what, uint64_t done, uint64_t all, double seconds) {
  constexpr uint64_t kWidth = 30;
  const uint64_t filled = all > 0 ? std::min(done, all) * kWidth / all : kWidth;
  const double gib = static_cast<double>(uint64_t{1} << 30);
  char numbers[96];
  std::snprintf(numbers, sizeof numbers, " %.2f of %.2f GiB, %.1f GB/s", static_cast<double>(done) / gib,
                static_cast<double>(all) / gib, rate(done, seconds));
  return std::string(what) + " [" + std::string(filled, '#') + std::string(kWidth - filled, '.') + "]" + numbers;
}

LoadProgress::LoadProgress(std::string what, Output output)
    : what_(std::move(what)), output_(std::move(output)), start_(output_.now()), shown_(start_) {}

LoadProgress::~LoadProgress() {
  if (open_) output_.bar("\n");
}

double LoadProgress::seconds() const { return std::chrono::duration<double>(output_.now() - start_).count(); }

void LoadProgress::show(uint64_t done, uint64_t all) {
  shown_ = output_.now();
  open_ = output_.bar != nullptr;
  if (output_.bar)
    output_.bar(progress_bar(what_, done, all, seconds()));
  else if (output_.line)
    output_.line(done, all, rate(done, seconds()));
}

void LoadProgress::update(uint64_t done, uint64_t all) {
  const auto since = output_.now() - shown_;
  if (output_.bar ? since >= kBarEvery : since >= kLineEvery) show(done, all);
}

void LoadProgress::finish(uint64_t all) {
  if (!output_.bar) return;
  show(all, all);
  output_.bar("\n");
  open_ = false;
}

LoadProgress::Output progress_output(std::string_view event) {
  LoadProgress::Output out;
  if (!log::enabled(log::Level::kInfo)) return out;
  if (isatty(STDERR_FILENO) == 1) {
    out.bar = [](const std::string& text) {
      // "\n" ends the line; anything else rewrites it
      std::fputs(text == "\n" ? "\n" : ("\r\x1b[K" + text).c_str(), stderr);
      std::fflush(stderr);
    };
    return out;
  }
  out.line = [name = std::string(event)](uint64_t done, uint64_t all, double gb_per_s) {
    log::info(name, {{"mib", static_cast<int64_t>(done >> 20)}, {"of_mib", static_cast<int64_t>(all >> 20)}, {"gb_per_s", gb_per_s}});
  };
  return out;
}

}  // namespace slipstream
