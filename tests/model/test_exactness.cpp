// Bit equality of a model's logits: chunks, wanted rows, cache blocks, ranks (engine/README.md, exactness).
#include <cstring>

#include "tests/model/golden_check.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && !a.empty() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<int32_t> all_positions(size_t count) {
  std::vector<int32_t> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<int32_t>(i);
  return out;
}

}  // namespace

TEST_CASE("chunks, block sizes and the set of wanted rows change no bit") {
  for (const char* name : {"llama-tied", "qwen2-upper-window", "qwen3"}) {
    const Golden golden = read_golden(name);
    const std::vector<int32_t>& ids = golden.prompts[3].ids;
    const std::vector<int32_t> all = all_positions(ids.size());
    for (const auto& [backend, cache] : {std::pair{"reference", DType::kBF16}, std::pair{"cpu", DType::kBF16}, std::pair{"cpu", DType::kF8E4M3}}) {
      INFO(name << " on " << backend << ", cache " << dtype_info(cache).name);
      MemoryCheckpoint file = tiny_safetensors(golden, DType::kBF16);
      const RunnerOptions options{.backend = backend, .cache_dtype = cache};
      const auto runner = runner_of(file, options);
      const std::vector<float> whole = runner->run(ids, all);
      for (const int32_t chunk : {1, 7, 33}) CHECK(same_bits(runner->run(ids, all, chunk), whole));

      const size_t vocab = whole.size() / ids.size();
      const std::vector<int32_t> some = {0, 3, 4, 5, 31, 32, 64, 98};
      const std::vector<float> part = runner->run(ids, some);
      const std::vector<float> part_chunked = runner->run(ids, some, 10);  // several chunks have no wanted row
      CHECK(same_bits(part, part_chunked));
      for (size_t i = 0; i < some.size(); ++i)
        CHECK(std::memcmp(part.data() + i * vocab, whole.data() + static_cast<size_t>(some[i]) * vocab,
                          vocab * sizeof(float)) == 0);

      RunnerOptions wide = options;
      wide.block_tokens = 2 * kAttentionTile;
      CHECK(same_bits(runner_of(file, wide)->run(ids, all), whole));
    }
  }
}

TEST_CASE("tensor parallel ranks give the bits of one rank") {
  for (const char* name : {"llama-llama3-rope", "llama-biases", "qwen2-tied", "qwen3"}) {
    Golden golden = read_golden(name);
    if (name == std::string("qwen3")) golden.config["intermediate_size"] = 192;  // 160 is five units: one shard
    const std::vector<int32_t>& ids = golden.prompts[2].ids;
    const std::vector<int32_t> all = all_positions(ids.size());
    for (const DType dtype : {DType::kF32, DType::kQ8_0}) {
      MemoryCheckpoint file = tiny_safetensors(golden, dtype);
      const std::vector<float> one = runner_of(file, {.backend = "cpu"})->run(ids, all);
      const int32_t heads = golden.config.at("num_attention_heads").get<int32_t>();
      // 4 heads, F32: also more ranks than key/value heads. Q8_0 blocks hold two heads of 16: there only 2 shards.
      for (const int32_t ranks : {2, 4}) {
        if (ranks == 4 && (heads != 4 || dtype != DType::kF32)) continue;
        INFO(name << " " << dtype_info(dtype).name << " on " << ranks << " ranks");
        const auto logits = runner_of(file, {.backend = "cpu", .ranks = ranks})->run_ranks(ids, all, 16);
        REQUIRE(logits.size() == static_cast<size_t>(ranks));
        for (const auto& of_rank : logits) CHECK(same_bits(of_rank, one));
      }
    }
  }
}

TEST_CASE("tensor parallel ranks of FP8 models give the bits of one rank: their slices start inside blocks") {
  for (const std::string& name : golden_f8_names()) {
    Golden golden = read_golden(name);
    golden.config["intermediate_size"] = 192;  // slices of 96 rows and columns, blocks of 128
    const std::vector<int32_t>& ids = golden.prompts[2].ids;
    const std::vector<int32_t> all = all_positions(ids.size());
    MemoryCheckpoint file = tiny_safetensors(golden);
    for (const char* backend : {"reference", "cpu"}) {
      const std::vector<float> one = runner_of(file, {.backend = backend})->run(ids, all);
      INFO(name << " on " << backend);
      for (const auto& of_rank : runner_of(file, {.backend = backend, .ranks = 2})->run_ranks(ids, all, 16))
        CHECK(same_bits(of_rank, one));
    }
  }
}

TEST_CASE("reference ranks give the bits of one rank too") {
  const Golden golden = read_golden("llama-tied");
  const std::vector<int32_t>& ids = golden.prompts[1].ids;
  const std::vector<int32_t> all = all_positions(ids.size());
  MemoryCheckpoint file = tiny_safetensors(golden);
  const std::vector<float> one = runner_of(file, {})->run(ids, all);
  for (const auto& of_rank : runner_of(file, {.ranks = 2})->run_ranks(ids, all)) CHECK(same_bits(of_rank, one));
}

TEST_CASE("taps copy the residual stream, and listening changes no logits") {
  const Golden golden = read_golden("qwen3");
  MemoryCheckpoint file = tiny_safetensors(golden);
  const auto runner = runner_of(file, {});
  const std::vector<int32_t>& ids = golden.prompts[1].ids;
  const std::vector<int32_t> last = {6};
  const std::vector<int32_t> both = {0, 2}, first = {0};
  const std::vector<float> two = runner->run_taps(ids, both, last);
  const std::vector<float> one = runner->run_taps(ids, first, last);
  const size_t hidden = 96;
  REQUIRE(two.size() == ids.size() * 2 * hidden);
  for (size_t r = 0; r < ids.size(); ++r) {
    CHECK(std::memcmp(&two[r * 2 * hidden], &one[r * hidden], hidden * sizeof(float)) == 0);
    CHECK(std::memcmp(&two[r * 2 * hidden], &two[(r * 2 + 1) * hidden], hidden * sizeof(float)) != 0);
  }
}

TEST_CASE("dummy weights are the tiny model") {
  const Golden golden = read_golden("qwen2-tied");
  MemoryCheckpoint file = tiny_safetensors(golden);
  const std::vector<int32_t>& ids = golden.prompts[1].ids;
  const std::vector<int32_t> last = {6};
  const std::vector<float> stored = runner_of(file, {})->run(ids, last);
  MemoryCheckpoint empty(CheckpointKind::kSafetensors);
  empty.set_file("config.json", golden.config.dump());
  for (const char* backend : {"reference", "cpu"})
    for (const int32_t ranks : {1, 2}) {
      RunnerOptions options{.backend = backend, .ranks = ranks, .dummy = true, .dummy_seed = golden.seed};
      const std::vector<float> dummy = runner_of(empty, options)->run(ids, last);
      REQUIRE(dummy.size() == stored.size());
      for (size_t i = 0; i < dummy.size(); ++i) CHECK(dummy[i] == Approx(stored[i]).margin(1e-4));
    }
}

TEST_CASE("dummy FP8 weights and their scales live as long as the model, on backends that copy them and on those that do not") {
  const Golden golden = read_golden("qwen3-fp8-block");
  MemoryCheckpoint empty(CheckpointKind::kSafetensors);
  empty.set_file("config.json", golden.config.dump());
  const std::vector<int32_t>& ids = golden.prompts[1].ids;
  const std::vector<int32_t> last = {static_cast<int32_t>(ids.size()) - 1};
  std::vector<float> logits[2];
  for (const char* backend : {"reference", "cpu"}) {
    const auto runner = runner_of(empty, {.backend = backend, .dummy = true, .dummy_seed = 7});
    const std::vector<std::vector<std::byte>> others(64, std::vector<std::byte>(1 << 12, std::byte{0x7f}));  // over freed memory
    logits[std::string_view(backend) == "cpu"] = runner->run(ids, last);
    CHECK(others.back()[0] == std::byte{0x7f});
  }
  REQUIRE(logits[0].size() == logits[1].size());
  double largest = 0;
  for (size_t i = 0; i < logits[0].size(); ++i) {
    largest = std::max(largest, std::fabs(double{logits[0][i]}));
    CHECK(logits[1][i] == Approx(logits[0][i]).margin(0.02));
  }
  CHECK(largest > 0.1);
}
