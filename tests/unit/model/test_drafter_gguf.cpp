#include <functional>

#include "engine/model/drafter_config.h"
#include "tests/catch.h"
#include "tests/unit/model/config_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

MemoryCheckpoint drafter_gguf() {
  MemoryCheckpoint c(CheckpointKind::kGguf);
  c.set("general.architecture", std::string("dflash"));
  c.set("dflash.block_count", uint64_t{3});
  c.set("dflash.embedding_length", uint64_t{64});
  c.set("dflash.feed_forward_length", uint64_t{96});
  c.set("dflash.attention.head_count", uint64_t{8});
  c.set("dflash.attention.head_count_kv", uint64_t{2});
  c.set("dflash.attention.key_length", uint64_t{32});
  c.set("dflash.attention.value_length", uint64_t{32});
  c.set("dflash.attention.layer_norm_rms_epsilon", 1e-6);
  c.set("dflash.context_length", uint64_t{4096});
  c.set("dflash.rope.freq_base", 1e7);
  c.set("dflash.rope.dimension_count", uint64_t{32});
  c.set("dflash.block_size", uint64_t{16});
  c.set("dflash.target_layers", std::vector<int64_t>{2, 10, 18, 26, 34});
  c.set("tokenizer.ggml.mask_token_id", uint64_t{251});
  return c;
}

using Change = std::function<void(MemoryCheckpoint&)>;

Result<DrafterConfig> changed(const Change& change) {
  MemoryCheckpoint c = drafter_gguf();
  change(c);
  return read_drafter_config(c);
}

void check_refused(const Change& change, ErrorCode code, const std::string& part) {
  const auto c = changed(change);
  INFO(part);
  REQUIRE_FALSE(c.ok());
  INFO(c.error().message);
  CHECK(c.error().code == code);
  CHECK(c.error().message.find(part) != std::string::npos);
  CHECK(c.error().message.find('\n') == std::string::npos);
}

}  // namespace

TEST_CASE("GGUF metadata of a drafter; its layers are counted from 1") {
  const auto c = read_drafter_config(drafter_gguf());
  REQUIRE(c.ok());
  CHECK(c->stack.layers == 3);
  CHECK(c->stack.hidden == 64);
  CHECK(c->stack.ffn == 96);
  CHECK(c->stack.heads == 8);
  CHECK(c->stack.kv_heads == 2);
  CHECK(c->stack.head_dim == 32);
  CHECK(c->stack.rope_dim == 32);
  CHECK(c->stack.rope_style == RopeStyle::kHalfSplit);
  CHECK(c->stack.rope_theta == 1e7f);
  CHECK(c->stack.norm_eps == 1e-6f);
  CHECK(c->stack.context_length == 4096);
  CHECK(c->stack.vocab == 0);
  CHECK(c->taps == std::vector<int32_t>{1, 9, 17, 25, 33});
  CHECK(c->target_hidden == 64);
  CHECK(c->block_rows == 16);
  CHECK(c->mask_token == 251);
  CHECK_FALSE(c->anchor_first);
  CHECK_FALSE(c->embedding_scale);
  CHECK_FALSE(c->logit_softcap);
  CHECK(c->logit_multiplier == 1);
  REQUIRE(c->attention.size() == 3);
  for (const DrafterAttention& a : c->attention) {
    CHECK(a.window == 0);
    CHECK_FALSE(a.causal);
  }
  CHECK(c->stack.defaults.empty());
}

TEST_CASE("windows, causality and scales of a GGUF drafter") {
  const auto slides = [](MemoryCheckpoint& f) {
    f.set("dflash.attention.sliding_window", uint64_t{2048});
    f.set("dflash.attention.sliding_window_pattern", std::vector<int64_t>{1, 0, 1});
  };
  const auto c = changed(slides);
  REQUIRE(c.ok());
  REQUIRE(c->attention.size() == 3);
  CHECK(c->attention[0].window == 2048);
  CHECK(c->attention[0].causal);
  CHECK(c->attention[1].window == 0);
  CHECK_FALSE(c->attention[1].causal);
  CHECK(c->attention[2].window == 2048);
  const auto unbounded = changed([](MemoryCheckpoint& f) {
    f.set("dflash.attention.sliding_window_pattern", std::vector<int64_t>{1, 0, 1});
  });
  REQUIRE_FALSE(unbounded.ok());
  CHECK(unbounded.error().message.find("'dflash.attention.sliding_window' is missing or 0") != std::string::npos);
  const auto open = changed([&](MemoryCheckpoint& f) {
    slides(f);
    f.set("dflash.attention.causal", false);
  });
  REQUIRE(open.ok());
  CHECK(open->attention[0].window == 2048);
  CHECK_FALSE(open->attention[0].causal);

  const auto scaled = changed([](MemoryCheckpoint& f) {
    f.set("dflash.logit_scale", 0.25);
    f.set("dflash.final_logit_softcapping", 20.0);
    f.set("dflash.embedding_scale", 2.0);
    f.set("dflash.sample_from_anchor", true);
    f.set("dflash.vocab_size", uint64_t{300});
  });
  REQUIRE(scaled.ok());
  CHECK(scaled->logit_multiplier == 0.25f);
  CHECK(scaled->logit_softcap == 20.0f);
  CHECK(scaled->embedding_scale == 2.0f);
  CHECK(scaled->anchor_first);
  CHECK(scaled->stack.vocab == 300);

  check_refused([&](auto& f) { slides(f), f.set("dflash.attention.sliding_window_pattern", std::vector<int64_t>{1, 0}); },
                ErrorCode::kCorrupt, "'dflash.attention.sliding_window_pattern' has 2 entries for 3 layers");
  check_refused([&](auto& f) { slides(f), f.erase("dflash.attention.sliding_window_pattern"); }, ErrorCode::kCorrupt,
                "has 0 entries for 3 layers");
  check_refused([](auto& f) { f.set("dflash.attention.causal", uint64_t{1}); }, ErrorCode::kCorrupt,
                "'dflash.attention.causal' is not a boolean");
}

TEST_CASE("missing and impossible keys of a GGUF drafter") {
  for (const char* key : {"dflash.block_count", "dflash.embedding_length", "dflash.feed_forward_length", "dflash.context_length",
                          "dflash.attention.head_count", "dflash.attention.key_length", "dflash.rope.freq_base",
                          "dflash.attention.layer_norm_rms_epsilon", "dflash.block_size", "tokenizer.ggml.mask_token_id"})
    check_refused([&](auto& f) { f.erase(key); }, ErrorCode::kCorrupt, "'" + std::string(key) + "' is missing");
  check_refused([](auto& f) { f.erase("dflash.target_layers"); }, ErrorCode::kCorrupt, "'dflash.target_layers' holds 0 layers");
  check_refused([](auto& f) { f.set("dflash.target_layers", std::vector<int64_t>{0, 4}); }, ErrorCode::kUnsupported,
                "'dflash.target_layers' names 0, the output of the embedding");
  check_refused([](auto& f) { f.set("dflash.target_layers", std::vector<int64_t>{-3}); }, ErrorCode::kCorrupt, "holds -3");
  check_refused([](auto& f) { f.set("dflash.target_layers", uint64_t{3}); }, ErrorCode::kCorrupt, "is not a list of integers");
  check_refused([](auto& f) { f.set("dflash.block_size", uint64_t{64}); }, ErrorCode::kCorrupt, "is 64, expected 2 to 32");
  check_refused([](auto& f) { f.set("dflash.attention.value_length", uint64_t{16}); }, ErrorCode::kUnsupported, "value_length 16");
}

TEST_CASE("GGUF drafters of other families are refused by name") {
  const std::pair<const char*, const char*> names[] = {{"eagle3", "EAGLE"}, {"dspark", "DSpark"}, {"dflash2", "DFlash 2"},
                                                       {"qwen3", "\"qwen3\" is not a drafter"}};
  for (const auto& [name, part] : names)
    check_refused([&](auto& f) { f.set("general.architecture", std::string(name)); }, ErrorCode::kUnsupported, part);
  check_refused([](auto& f) { f.set("dflash.conv_kernel_size", uint64_t{2}); }, ErrorCode::kUnsupported, "DFlash 2");
  check_refused([](auto& f) { f.set("dflash.selector_rank", uint64_t{256}); }, ErrorCode::kUnsupported, "DFlash 2");
  check_refused([](auto& f) { f.set("dflash.markov_rank", uint64_t{256}); }, ErrorCode::kUnsupported, "DSpark");
  check_refused([](auto& f) { f.set("dflash.confidence_head", true); }, ErrorCode::kUnsupported, "DSpark");
  check_refused([](auto& f) { f.set("dflash.hyper_connection_count", uint64_t{4}); }, ErrorCode::kUnsupported, "hyper_connection_count");
  CHECK(changed([](auto& f) { f.set("dflash.markov_rank", uint64_t{0}); }).ok());
}
