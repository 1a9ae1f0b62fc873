#include "tests/unit/model/config_fixture.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

Result<GenerationDefaults> defaults(const std::string& text) {
  MemoryCheckpoint checkpoint(CheckpointKind::kSafetensors);
  checkpoint.set_file("generation_config.json", text);
  return read_generation_defaults(checkpoint);
}

}  // namespace

TEST_CASE("without generation_config.json nothing is given") {
  for (const CheckpointKind kind : {CheckpointKind::kSafetensors, CheckpointKind::kGguf}) {
    const auto d = read_generation_defaults(MemoryCheckpoint(kind));
    REQUIRE(d.ok());
    CHECK(d->source == "built in");
    CHECK((d->temperature < 0 && d->top_p < 0 && d->top_k < 0 && d->min_p < 0 && d->repetition_penalty < 0));
  }
}

TEST_CASE("given defaults are read; others stay open") {
  const auto d = defaults(R"({"temperature": 0.6, "top_p": 0.95, "top_k": 20, "repetition_penalty": 1.05})");
  REQUIRE(d.ok());
  CHECK(d->source == "generation_config.json");
  CHECK(d->temperature == 0.6f);
  CHECK(d->top_p == 0.95f);
  CHECK(d->top_k == 20);
  CHECK(d->repetition_penalty == 1.05f);
  CHECK(d->min_p < 0);
}

TEST_CASE("values that no sampler can use are refused") {
  for (const auto& [text, key] : std::vector<std::pair<const char*, const char*>>{{R"({"temperature": -1})", "temperature"},
                                                                                  {R"({"top_p": 0})", "top_p"},
                                                                                  {R"({"top_p": 1.5})", "top_p"},
                                                                                  {R"({"top_k": "20"})", "top_k"},
                                                                                  {R"({"repetition_penalty": 0})", "repetition_penalty"},
                                                                                  {R"(3)", "not an object"}}) {
    const auto d = defaults(text);
    REQUIRE_FALSE(d.ok());
    CHECK(d.error().message.find(key) != std::string::npos);
  }
}

TEST_CASE("stop ids of both files are merged, sorted and unique") {
  auto c = read(llama_json(), R"({"eos_token_id": [7, 2]})");
  REQUIRE(c.ok());
  CHECK(c->eos_ids == std::vector<int32_t>{2, 3, 7});
  c = read(llama_json(), R"({"eos_token_id": 9})");
  CHECK(c->eos_ids == std::vector<int32_t>{2, 3, 9});
  CHECK_FALSE(read(llama_json(), R"({"eos_token_id": 5000})").ok());
}
