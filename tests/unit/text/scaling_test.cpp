// Near-linear time on runs that are quadratic in other tokenizers (reliability goal C5).
#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "tests/unit/text/vocabularies.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string run_of(const std::string& unit, size_t bytes) {
  std::string out;
  while (out.size() + unit.size() <= bytes) out += unit;
  return out;
}

double seconds(const Tokenizer& tokenizer, const std::string& text) {
  const double begin = cpu_seconds();
  const auto found = tokenizer.encode(text, true);
  const double taken = cpu_seconds() - begin;
  REQUIRE(found.ok());
  REQUIRE(found->size() > 0);
  return taken;
}

constexpr size_t kKib = 1024;
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLIP_SANITIZED
#endif
#endif
#if defined(__OPTIMIZE__) && !defined(SLIP_SANITIZED)
constexpr double kSeconds = 0.5;
constexpr size_t kLargest = 4096 * kKib;
#else
constexpr double kSeconds = 5;
constexpr size_t kLargest = 256 * kKib;
#endif

/// Memory stays with the process: otherwise the first sizes reuse it and larger ones are measured with the kernel's
/// page faults, a step that has nothing to do with the algorithm.
void keep_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

/// time(2n) / time(n) from 4 KiB to 4 MiB, and 512 KiB within half a second. Both sizes are timed right after each
/// other until one such pair keeps the bound: other processes disturb caches and clocks for a while, a quadratic
/// algorithm (ratio 4) fails every time.
/// Letters go up to 4 MiB, the others to 1 MiB, to keep the suite short.
void check_scaling(const Tokenizer& tokenizer, const std::string& unit) {
  keep_memory();
  const size_t largest = unit == "a" ? kLargest : std::min(kLargest, 1024 * kKib);
  for (size_t bytes = 4 * kKib; 2 * bytes <= largest; bytes *= 2) {
    const std::string once = run_of(unit, bytes), twice = run_of(unit, 2 * bytes);
    const double allowed = kSeconds * std::max(1.0, static_cast<double>(2 * bytes) / (512 * kKib));
    double ratio = 1e9, longer = 1e9;
    for (int attempt = 0; attempt < 20 && (ratio > 2.3 || longer > allowed); ++attempt) {
      const double shorter = seconds(tokenizer, once);
      longer = seconds(tokenizer, twice);
      ratio = longer / shorter;
    }
    INFO("unit \"" << unit << "\", " << 2 * bytes << " bytes take " << longer << " s");
    CHECK(ratio <= 2.3);
    CHECK(longer <= allowed);
  }
}

std::vector<std::pair<std::string, std::string>> doubling_merges() {
  std::vector<std::pair<std::string, std::string>> merges;
  for (const std::string unit : {"a", " ", "7", "\n", "-"})
    for (std::string part = unit; part.size() <= 64; part += part) merges.push_back({part, part});
  merges.push_back({"\xF0", "\x9F"});
  merges.push_back({"\x99", "\x82"});
  merges.push_back({"\xF0\x9F", "\x99\x82"});
  merges.push_back({"a", "b"});
  return merges;
}

}  // namespace

TEST_CASE("byte-level runs take linear time", "[time]") {
  const auto one_word = loaded(byte_level(doubling_merges()));
  for (const char* unit : {"a", " ", "7", "\xF0\x9F\x99\x82"}) check_scaling(*one_word, unit);
  const auto many_words = loaded(byte_level(doubling_merges(), "qwen35"));
  for (const char* unit : {"7", "\xCC\x81\xCC\x96"}) check_scaling(*many_words, unit);
}

TEST_CASE("white space before a word takes linear time", "[time]") {
  for (const char* pre : {"gpt-2", "qwen35", "deepseek-llm", "deepseek-v3", "gpt-4o"}) {
    const auto tokenizer = loaded(byte_level(doubling_merges(), pre));
    CHECK(seconds(*tokenizer, std::string(512 * kKib, ' ') + "a") < kSeconds);
    CHECK(seconds(*tokenizer, std::string(512 * kKib, '\t') + "a") < kSeconds);
  }
}

TEST_CASE("SentencePiece runs take linear time, with equal scores too", "[time]") {
  for (const bool equal : {false, true}) {
    std::vector<std::pair<std::string, double>> pieces{{"\xE2\x96\x81", -1}, {"b", -1}};
    double score = -1;
    for (std::string part = "a"; part.size() <= 64; part += part) pieces.push_back({part, equal ? -1 : score -= 1});
    const auto tokenizer = loaded(sentencepiece(pieces));
    for (const char* unit : {"a", " "}) check_scaling(*tokenizer, unit);
  }
}

TEST_CASE("four mebibytes of one letter", "[time]") {
  const auto tokenizer = loaded(byte_level(doubling_merges()));
  const auto found = tokenizer->encode(std::string(4096 * kKib, 'a'), false);
  REQUIRE(found.ok());
  CHECK(found->size() == 4096 * kKib / 128);
}
