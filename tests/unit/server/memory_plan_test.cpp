// The memory plan of a GPU: what is left for the cache, which batch, and refusals with both numbers.
#include "server/memory_plan.h"

#include <string>

#include "tests/catch.h"

using namespace slipstream;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20, kGiB = int64_t{1} << 30;

/// An 8 GiB model: 1 GiB of buffers, slots of 1 KiB a token of context, blocks of 4 MiB (32 tokens).
MemoryNeeds needs() {
  MemoryNeeds n;
  n.weights = 8 * kGiB;
  n.step_buffers = 512 * kMiB;
  n.workspace = 448 * kMiB;
  n.graphs = 64 * kMiB;
  n.slots = [](int32_t context) { return int64_t{1024} * context; };
  n.block_bytes = 4 * kMiB;
  return n;
}

EngineConfig config() {
  EngineConfig c;
  c.gpu_memory_utilization = 0.5;
  c.block_size = 32;
  return c;
}

const BatchSize kBatch{256, 8192};

std::string refusal(const Result<MemoryPlan>& plan) {
  REQUIRE_FALSE(plan.ok());
  return plan.error().message;
}

}  // namespace

TEST_CASE("the cache takes what everything else leaves of the allowed share") {
  const DeviceMemory memory{80 * kGiB, 79 * kGiB};
  const auto plan = plan_memory(config(), kBatch, 32768, memory, needs());
  REQUIRE(plan.ok());
  CHECK(plan->allowed == 39 * kGiB);  // half of 80, less the one in use
  CHECK(plan->context == 32768);
  const int64_t left = 39 * kGiB - 9 * kGiB - 32 * kMiB - kDeviceReserveBytes;
  CHECK(plan->blocks == left / (4 * kMiB));
  CHECK(plan->planned("kv_cache") == plan->blocks * 4 * kMiB);
  CHECK(plan->planned("slots") == 32 * kMiB);
  CHECK(plan->needed() <= plan->allowed);
  CHECK(plan->needed() > plan->allowed - 4 * kMiB);
  CHECK(plan->reason.find("context 32768 of the model's 32768") != std::string::npos);
  CHECK(leaves_room(*plan));
}

TEST_CASE("no more cache than twice what the slots can fill") {
  MemoryNeeds small = needs();
  small.block_bytes = 1024;
  const auto plan = plan_memory(config(), {2, 512}, 1024, {80 * kGiB, 79 * kGiB}, small);
  REQUIRE(plan.ok());
  CHECK(plan->blocks == 2 * 2 * 32);
}

TEST_CASE("a context that does not fit shrinks to whole blocks, and both numbers are said") {
  // 9 GiB fixed, 512 MiB reserve; 21 GiB allowed leave 11.75 GiB: per token 128 KiB of cache and 1 KiB of slots
  const DeviceMemory memory{42 * kGiB, 42 * kGiB};
  const auto plan = plan_memory(config(), kBatch, 131072, memory, needs());
  REQUIRE(plan.ok());
  const int64_t left = 21 * kGiB - 9 * kGiB - kDeviceReserveBytes;
  const int64_t expected = left / ((128 + 1) * 1024) / 32 * 32;
  CHECK(plan->context == expected);
  CHECK(static_cast<int64_t>(plan->blocks) * 32 >= plan->context);
  CHECK(plan->needed() <= plan->allowed);
  CHECK(plan->reason.find("context " + std::to_string(expected) + " of the model's 131072") != std::string::npos);
  // a given length that fits is kept to the token, one that does not is refused
  EngineConfig given = config();
  given.max_model_len = 1000;
  CHECK(plan_memory(given, kBatch, 131072, memory, needs())->context == 1000);
  given.max_model_len = static_cast<int32_t>(expected) + 33;
  CHECK(refusal(plan_memory(given, kBatch, 131072, memory, needs())).find("lower max-model-len") != std::string::npos);
  given.max_model_len = 200000;
  CHECK(refusal(plan_memory(given, kBatch, 131072, memory, needs())).find("131072") != std::string::npos);
}

TEST_CASE("what cannot fit is refused with what is needed, what may be taken and the next step") {
  // room for the weights, none for the rest
  std::string text = refusal(plan_memory(config(), kBatch, 4096, {18 * kGiB, 18 * kGiB}, needs()));
  CHECK(text.find("needs 9.50 GiB") != std::string::npos);  // 9 GiB, reserve, one block and its slots
  CHECK(text.find("9.00 GiB may be taken") != std::string::npos);
  CHECK(text.find("gpu-memory-utilization 0.5 of 18.00 GiB") != std::string::npos);
  CHECK(text.find("weights 8.00 GiB") != std::string::npos);
  CHECK(text.find("lower max-num-batched-tokens or max-num-seqs") != std::string::npos);
  // a larger share would do
  text = refusal(plan_memory(config(), kBatch, 4096, {12 * kGiB, 12 * kGiB}, needs()));
  CHECK(text.find("raise gpu-memory-utilization") != std::string::npos);
  // others hold the memory
  text = refusal(plan_memory(config(), kBatch, 4096, {80 * kGiB, 4 * kGiB}, needs()));
  CHECK(text.find("of which 76.00 GiB are in use; stop what else runs") != std::string::npos);
  CHECK(text.find("0 MiB may be taken") != std::string::npos);
  // the card is too small
  text = refusal(plan_memory(config(), kBatch, 4096, {6 * kGiB, 6 * kGiB}, needs()));
  CHECK(text.find("smaller model") != std::string::npos);
  for (const char c : text) CHECK(c != '\n');
}

TEST_CASE("what the start holds for a while counts before the cache does") {
  MemoryNeeds tuned = needs();
  tuned.start_peak = 2 * kGiB;
  CHECK(plan_memory(config(), kBatch, 4096, {24 * kGiB, 24 * kGiB}, tuned).ok());
  const std::string text = refusal(plan_memory(config(), kBatch, 4096, {22 * kGiB, 22 * kGiB}, tuned));
  CHECK(text.find("needs 11.50 GiB") != std::string::npos);
  CHECK(text.find("measuring products at the start 2.00 GiB") != std::string::npos);
}

TEST_CASE("a cache of a given size is exact") {
  EngineConfig given = config();
  given.kv_cache_memory_bytes = 3 * kGiB + 1;
  const DeviceMemory memory{80 * kGiB, 80 * kGiB};
  const auto plan = plan_memory(given, {4, 512}, 4096, memory, needs());
  REQUIRE(plan.ok());
  CHECK(plan->blocks == 768);
  // it bounds the context too
  given.kv_cache_memory_bytes = 64 * kMiB;
  CHECK(plan_memory(given, {4, 512}, 4096, memory, needs())->context == 512);
  given.kv_cache_memory_bytes = 40 * kGiB;
  const std::string much = refusal(plan_memory(given, {4, 512}, 4096, memory, needs()));
  INFO(much);
  CHECK(much.find("kv-cache-memory-bytes 40.00 GiB is more than the ") == 0);
  CHECK(much.find("lower it or leave it out") != std::string::npos);
  given.kv_cache_memory_bytes = 1;
  const std::string little = refusal(plan_memory(given, {4, 512}, 4096, memory, needs()));
  INFO(little);
  CHECK(little.find("kv-cache-memory-bytes 1 MiB is less than the ") == 0);
  CHECK(little.find("raise it, or leave it out") != std::string::npos);
}

TEST_CASE("batches: what is given wins, what is open follows it, and memory chooses among the GPU's") {
  EngineConfig open;
  CHECK(cpu_batch(open) == BatchSize{16, 512});
  const auto all = gpu_batches(open);
  CHECK(all.front() == BatchSize{256, 8192});
  CHECK(all.back() == BatchSize{16, 512});
  EngineConfig both = open;
  both.max_num_seqs = 3;
  both.max_num_batched_tokens = 77;
  CHECK(cpu_batch(both) == BatchSize{3, 77});
  CHECK(gpu_batches(both) == std::vector<BatchSize>{{3, 77}});
  EngineConfig many = open;
  many.max_num_seqs = 600;
  CHECK(cpu_batch(many) == BatchSize{600, 600});
  CHECK(gpu_batches(many).front() == BatchSize{600, 8192});
  CHECK(gpu_batches(many).back() == BatchSize{600, 600});
  EngineConfig short_steps = open;
  short_steps.max_num_batched_tokens = 8;
  CHECK(cpu_batch(short_steps) == BatchSize{8, 8});
  CHECK(gpu_batches(short_steps) == std::vector<BatchSize>{{8, 8}});

  MemoryNeeds greedy = needs();
  greedy.step_buffers = 8 * kGiB;
  const auto tight = plan_memory(config(), kBatch, 4096, {60 * kGiB, 60 * kGiB}, greedy);
  REQUIRE(tight.ok());
  CHECK_FALSE(leaves_room(*tight));
}

TEST_CASE("sizes as text") {
  CHECK(bytes_text(0) == "0 MiB");
  CHECK(bytes_text(1) == "1 MiB");
  CHECK(bytes_text(512 * kMiB) == "512 MiB");
  CHECK(bytes_text(15 * kGiB + 307 * kMiB) == "15.30 GiB");
}
