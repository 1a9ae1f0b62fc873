// Thousands of damaged files made from valid ones: each is refused in one line, or is a valid file after all, and no
// byte outside a file is ever touched (the sanitizer build checks that). Damaged headers cost little memory.
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "engine/weights/checkpoint.h"
#include "engine/weights/gguf_header.h"
#include "engine/weights/safetensors_header.h"
#include "engine/weights/safetensors_index.h"
#include "tests/catch.h"
#include "tests/unit/weights/model_files.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

struct Tally {
  int refused = 0;
  int accepted = 0;
};

void check_message(const Error& error) {
  REQUIRE((error.code == ErrorCode::kCorrupt || error.code == ErrorCode::kUnsupported));
  REQUIRE_FALSE(error.message.empty());
  REQUIRE(error.message.size() < 600);
  for (const char c : error.message) REQUIRE(static_cast<unsigned char>(c) >= 0x20);
}

/// Reads the bytes from a heap block of exactly their size, so that a sanitizer sees a step outside.
template <typename Reader>
void judge(const std::string& bytes, Reader read, Tally* tally) {
  const auto exact = std::make_unique<std::byte[]>(bytes.size());
  std::memcpy(exact.get(), bytes.data(), bytes.size());
  const std::span<const std::byte> file(exact.get(), bytes.size());
  const Result<std::vector<TensorEntry>> tensors = read(file);
  if (!tensors.ok()) {
    check_message(tensors.error());
    ++tally->refused;
    return;
  }
  ++tally->accepted;
  unsigned sum = 0;
  for (const TensorEntry& tensor : *tensors) {
    REQUIRE(tensor.bytes <= file.size());
    if (tensor.bytes == 0) continue;
    REQUIRE(tensor.data >= file.data());
    REQUIRE(tensor.data + tensor.bytes <= file.data() + file.size());
    for (uint64_t i = 0; i < tensor.bytes; ++i) sum += static_cast<unsigned>(tensor.data[i]);
  }
  volatile unsigned read_them_all = sum;
  (void)read_them_all;
}

Result<std::vector<TensorEntry>> read_gguf(std::span<const std::byte> file) {
  auto header = read_gguf_header(file);
  if (!header.ok()) return header.error();
  return std::move(header->tensors);
}

constexpr uint64_t kExtremes[] = {0,         1,         3,          0x7f,           0xff,      0xffff,    0x7fffffff,
                                  1ull << 31, 1ull << 32, (1ull << 62), INT64_MAX, 1ull << 63, UINT64_MAX - 31, UINT64_MAX};

/// Every place of the header overwritten with every extreme, 8 and 4 bytes wide, and every byte flipped.
template <typename Reader>
Tally damage_everywhere(const std::string& valid, size_t header_bytes, Reader read) {
  Tally tally;
  for (size_t at = 0; at < header_bytes; ++at) {
    for (const uint64_t extreme : kExtremes) {
      for (const size_t width : {size_t{8}, size_t{4}}) {
        if (at + width > valid.size()) continue;
        std::string bytes = valid;
        std::memcpy(bytes.data() + at, &extreme, width);
        judge(bytes, read, &tally);
      }
    }
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = valid;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      judge(bytes, read, &tally);
    }
  }
  return tally;
}

/// A piece of the header cut out, doubled, or swapped with its neighbour.
template <typename Reader>
Tally rearrange(const std::string& valid, size_t header_bytes, Reader read) {
  Tally tally;
  for (size_t at = 8; at + 16 <= header_bytes; at += 3) {
    for (const size_t length : {size_t{1}, size_t{4}, size_t{8}}) {
      std::string cut = valid;
      judge(cut.erase(at, length), read, &tally);
      std::string doubled = valid;
      judge(doubled.insert(at, valid.substr(at, length)), read, &tally);
      std::string swapped = valid;
      swapped.replace(at, length, valid.substr(at + length, length));
      swapped.replace(at + length, length, valid.substr(at, length));
      judge(swapped, read, &tally);
    }
  }
  return tally;
}

}  // namespace

TEST_CASE("damage: every truncation of a GGUF is refused") {
  const std::string valid = small_gguf().bytes();
  Tally whole;
  judge(valid, read_gguf, &whole);
  REQUIRE(whole.accepted == 1);
  Tally tally;
  for (size_t size = 0; size < valid.size(); ++size) judge(valid.substr(0, size), read_gguf, &tally);
  REQUIRE(tally.accepted == 0);
  REQUIRE(tally.refused == static_cast<int>(valid.size()));
}

TEST_CASE("damage: a GGUF header with any field overwritten, flipped or moved") {
  const std::string valid = small_gguf().bytes();
  const size_t header_bytes = valid.size() - small_gguf().data.size();
  const Tally damaged = damage_everywhere(valid, header_bytes, read_gguf);
  REQUIRE(damaged.refused > 3000);
  REQUIRE(damaged.accepted > 0);  // e.g. another name, another metadata value
  const Tally moved = rearrange(valid, header_bytes, read_gguf);
  REQUIRE(moved.refused > 500);
}

TEST_CASE("damage: every truncation of a safetensors file is refused") {
  const std::string valid = small_safetensors();
  Tally whole;
  judge(valid, read_safetensors_header, &whole);
  REQUIRE(whole.accepted == 1);
  Tally tally;
  for (size_t size = 0; size < valid.size(); ++size) judge(valid.substr(0, size), read_safetensors_header, &tally);
  REQUIRE(tally.accepted == 0);
  REQUIRE(tally.refused == static_cast<int>(valid.size()));
}

TEST_CASE("damage: a safetensors header with any piece overwritten, flipped or moved") {
  const std::string valid = small_safetensors();
  const size_t header_bytes = valid.size() - 35;
  const Tally damaged = damage_everywhere(valid, header_bytes, read_safetensors_header);
  REQUIRE(damaged.refused > 3000);
  const Tally moved = rearrange(valid, header_bytes, read_safetensors_header);
  REQUIRE(moved.refused > 500);

  Tally tokens;  // each character of the JSON replaced by each that means something
  for (size_t at = 8; at < header_bytes; ++at) {
    for (const char c : std::string_view("{}[]\",:0-9e.\\ \n\tnft\x7f\xc3")) {
      std::string bytes = valid;
      bytes[at] = c;
      judge(bytes, read_safetensors_header, &tokens);
    }
  }
  REQUIRE(tokens.refused > 2000);
}

TEST_CASE("damage: an index with any piece overwritten") {
  const std::string valid = R"({"metadata":{"total_size":8},"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})";
  REQUIRE(read_safetensors_index(valid).ok());
  int refused = 0;
  for (size_t at = 0; at < valid.size(); ++at) {
    for (const char c : std::string_view("{}[]\",:0-9e.\\ \n\tnft\x7f\xc3")) {
      std::string text = valid;
      text[at] = c;
      const auto map = read_safetensors_index(text);
      if (!map.ok()) {
        check_message(map.error());
        ++refused;
      }
    }
    REQUIRE_FALSE(read_safetensors_index(valid.substr(0, at)).ok());
  }
  REQUIRE(refused > 500);
}

namespace {

/// Peak resident kilobytes of a child that opens `path` and must refuse it; -1 when it did anything else.
long peak_of_refusal(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(path.empty() || !Checkpoint::open(path).ok() ? 0 : 1);
  int status = 0;
  struct rusage usage {};
  REQUIRE(::wait4(child, &status, 0, &usage) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? usage.ru_maxrss : -1;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

}  // namespace

TEST_CASE("damage: a large header that is wrong at its end costs less than twice its size") {
  if (kSanitized) return;  // shadow memory drowns the measure
  TempFolder folder;
  constexpr int kTensors = 200'000;

  std::string json = "{";
  for (int i = 0; i < kTensors; ++i) {
    json += "\"t" + std::to_string(i) + "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[" + std::to_string(i) + "," +
            std::to_string(i + 1) + "]},";
  }
  json += "\"t7\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
  write_file(folder / "st/model.safetensors", safetensors_bytes(json, std::string(kTensors, 'x')));

  GgufFile many;
  for (int i = 0; i < kTensors; ++i) {
    many.tensors.push_back({"blk." + std::to_string(i) + ".norm.weight", {1}, 0, static_cast<uint64_t>(i) * 32});
  }
  many.tensors.push_back({"blk.7.norm.weight", {1}, 0, static_cast<uint64_t>(kTensors) * 32});
  many.data.resize((kTensors + 1) * 32);
  const size_t many_header = many.bytes().size() - many.data.size();
  write_file(folder / "many.gguf", many.bytes());

  GgufFile strings = small_gguf();
  strings.keys.push_back(key_strings("tokens", std::vector<std::string>(800'000, "token")));
  strings.tensors[2].offset = 1 << 20;
  write_file(folder / "strings.gguf", strings.bytes());

  const struct {
    std::string path;
    size_t header_bytes;
  } cases[] = {{(folder / "st").string(), json.size()},
               {(folder / "many.gguf").string(), many_header},
               {(folder / "strings.gguf").string(), strings.bytes().size()}};
  many = {};
  strings = {};
  json = std::string();
  ::malloc_trim(0);  // or the children would find memory that the baseline already counts
  for (const auto& damaged : cases) {
    INFO(damaged.path);
    const long baseline = peak_of_refusal("");
    const long peak = peak_of_refusal(damaged.path);
    REQUIRE(baseline > 0);
    REQUIRE(peak > 0);
    INFO("baseline " << baseline << " kB, peak " << peak << " kB, header " << damaged.header_bytes / 1024 << " kB");
    REQUIRE(damaged.header_bytes > (5u << 20));
    REQUIRE(static_cast<double>(peak - baseline) * 1024 < 2.0 * static_cast<double>(damaged.header_bytes));
  }
}
