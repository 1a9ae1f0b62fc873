// What load_model refuses, and what it reads and gives back.
#include <algorithm>
#include <functional>

#include "tests/model/model_runner.h"
#include "tests/model/tiny_model.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

Error load_error(Checkpoint& checkpoint, const RunnerOptions& options = {}) {
  const auto config = read_model_config(checkpoint);
  REQUIRE(config.ok());
  const auto runner = ModelRunner::make(checkpoint, *config, options);
  REQUIRE_FALSE(runner.ok());
  return runner.error();
}
void check_names(const Error& error, ErrorCode code, const std::string& part) {
  INFO(error.message);
  CHECK(error.code == code);
  CHECK(error.message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("missing tensors are errors that name them") {
  for (const char* name : {"model.norm.weight", "model.layers.1.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight",
                           "lm_head.weight"}) {
    MemoryCheckpoint file = tiny_safetensors(read_golden("llama-llama3-rope"));
    file.remove(name);
    check_names(load_error(file), ErrorCode::kCorrupt, "'" + std::string(name) + "' is missing");
  }
  MemoryCheckpoint bias = tiny_safetensors(read_golden("qwen2-tied"));
  bias.remove("model.layers.1.self_attn.k_proj.bias");
  check_names(load_error(bias), ErrorCode::kCorrupt, "self_attn.k_proj.bias");
}

TEST_CASE("tensors that nobody takes are errors that name them, but for the allow-list") {
  const Golden golden = read_golden("llama-tied");
  MemoryCheckpoint file = tiny_safetensors(golden);
  file.add("model.layers.0.self_attn.q_norm.weight", {16}, std::vector<float>(16));
  check_names(load_error(file), ErrorCode::kCorrupt, "'model.layers.0.self_attn.q_norm.weight'");
  for (int i = 0; i < 5; ++i) file.add("lora." + std::to_string(i), {1}, {0});
  check_names(load_error(file), ErrorCode::kCorrupt, "and 3 more");

  MemoryCheckpoint allowed = tiny_safetensors(golden);
  allowed.add("model.layers.0.self_attn.rotary_emb.inv_freq", {8}, std::vector<float>(8));
  allowed.add("lm_head.weight", {320, 64}, std::vector<float>(320 * 64));
  CHECK(ModelRunner::make(allowed, *read_model_config(allowed), {}).ok());
}

TEST_CASE("shapes are checked against the config") {
  MemoryCheckpoint file = tiny_safetensors(read_golden("llama-tied"));
  file.add("model.layers.1.self_attn.v_proj.weight", {64, 64}, std::vector<float>(64 * 64));
  const Error error = load_error(file);
  check_names(error, ErrorCode::kCorrupt, "model.layers.1.self_attn.v_proj.weight");
  check_names(error, ErrorCode::kCorrupt, "shape [64, 64], the model config says [32, 64]");
}

TEST_CASE("scales of FP8 matrices are consumed, and wrong ones are errors that name found and wanted") {
  const std::string module = "model.layers.1.mlp.gate_proj.";  // [160, 96]
  Golden golden = read_golden("qwen3-fp8-block");
  const auto changed = [&](const std::function<void(MemoryCheckpoint&)>& change) {
    MemoryCheckpoint file = tiny_safetensors(golden);
    change(file);
    return load_error(file);
  };
  using C = MemoryCheckpoint;
  const std::vector<float> two(2, 0.001f);
  check_names(changed([&](C& f) { f.remove(module + "weight_scale_inv"); }), ErrorCode::kCorrupt,
              "'" + module + "weight' is F8_E4M3, but its scales '" + module + "weight_scale_inv' [2, 1] are missing");
  check_names(changed([&](C& f) { f.add(module + "weight_scale_inv", {1, 2}, two); }), ErrorCode::kCorrupt,
              "'" + module + "weight_scale_inv' has shape [1, 2], the scales of '" + module + "weight' [160, 96] are [2, 1]");
  check_names(changed([&](C& f) { f.add_stored(module + "weight_scale_inv", {2, 1}, DType::kI32, std::vector<std::byte>(8)); }),
              ErrorCode::kUnsupported, "holds scales in I32, expected F32, BF16 or F16");
  check_names(changed([&](C& f) { f.add(module + "weight_scale", {2, 1}, two); }), ErrorCode::kCorrupt, "weight_scale'");
  check_names(changed([&](C& f) { f.add("model.layers.0.input_layernorm.weight", {96}, std::vector<float>(96), DType::kF8E4M3); }),
              ErrorCode::kUnsupported, "a vector in F8_E4M3");
  golden.config.erase("quantization_config");
  MemoryCheckpoint plain = tiny_safetensors(read_golden("qwen3-fp8-block"));
  plain.set_file("config.json", golden.config.dump());
  check_names(load_error(plain), ErrorCode::kCorrupt, "config.json has no quantization_config");

  // A channel's scales may be a column or a vector; a matrix that is not FP8 needs none.
  MemoryCheckpoint channel = tiny_safetensors(read_golden("qwen3-fp8-channel"));
  channel.add(module + "weight_scale", {160}, std::vector<float>(160, 0.001f));
  CHECK(ModelRunner::make(channel, *read_model_config(channel), {}).ok());
  channel.remove("model.layers.1.mlp.up_proj.weight_scale");
  channel.add("model.layers.1.mlp.up_proj.weight", {160, 96}, std::vector<float>(160 * 96, 0.01f), DType::kBF16);
  CHECK(ModelRunner::make(channel, *read_model_config(channel), {}).ok());
}

TEST_CASE("scales of static activations are consumed and reported as not used") {
  const Golden golden = read_golden("qwen3-fp8-channel");
  MemoryCheckpoint file = tiny_safetensors(golden);
  for (const char* name : {"q_proj", "o_proj"}) file.add(std::string("model.layers.0.self_attn.") + name + ".input_scale", {1}, {0.02f});
  const auto config = read_model_config(file);
  const auto ops = make_reference_ops();
  std::vector<std::string> notes;
  LoadOptions options;
  options.max_rows = options.max_logit_rows = 4;
  options.notes = &notes;
  const auto model = load_model(file, *config, *ops, options);
  INFO((model.ok() ? std::string() : model.error().message));
  REQUIRE(model.ok());
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] == "2 'input_scale' tensors are not used: activations are not quantised to FP8 (W8A16)");
}

TEST_CASE("a tensor parallel size that cannot be served is refused with the numbers") {
  MemoryCheckpoint file = tiny_safetensors(read_golden("llama-tied"), DType::kQ8_0);
  check_names(load_error(file, {.backend = "cpu", .ranks = 3}), ErrorCode::kUnsupported, "4 attention heads");
  check_names(load_error(file, {.backend = "cpu", .ranks = 4}), ErrorCode::kUnsupported, "does not divide the 2 shards");
}

TEST_CASE("repacked tensors give their pages back; progress reaches the whole") {
  const Golden golden = read_golden("llama-tied");
  MemoryCheckpoint file = tiny_safetensors(golden, DType::kQ8_0);
  const auto config = read_model_config(file);
  REQUIRE(config.ok());
  const auto ops = make_cpu_ops({.threads = 1, .isa = {}});
  LoadOptions options;
  options.max_rows = options.max_logit_rows = 4;
  uint64_t last = 0, total = 0, calls = 0;
  options.progress = [&](uint64_t done, uint64_t all) {
    CHECK(done > last);
    last = done;
    total = all;
    ++calls;
  };
  const auto model = load_model(file, *config, *ops, options);
  REQUIRE(model.ok());
  CHECK(calls == file.tensors().size());
  CHECK(last == total);
  CHECK(total == file.total_bytes());
  CHECK(std::find(file.released().begin(), file.released().end(), "model.layers.1.mlp.up_proj.weight") != file.released().end());
  CHECK((*model)->resident_bytes() > 0);

  MemoryCheckpoint read_again = tiny_safetensors(golden);
  const auto reference = make_reference_ops();
  options.progress = {};
  const auto plain = load_model(read_again, *config, *reference, options);
  REQUIRE(plain.ok());
  CHECK(read_again.released().empty());  // the reference reads the mapping at every step
}

TEST_CASE("cache groups follow the windows") {
  const auto groups = [](const char* name) {
    MemoryCheckpoint file = tiny_safetensors(read_golden(name));
    return ModelRunner::make(file, *read_model_config(file), {}).value()->model().cache_groups();
  };
  const auto plain = groups("llama-tied");
  REQUIRE(plain.size() == 1);
  CHECK(plain[0].layers == 2);
  CHECK(plain[0].window == 0);
  CHECK(plain[0].kv_heads == 2);
  CHECK(plain[0].head_dim == 16);
  const auto all = groups("mistral-window");
  REQUIRE(all.size() == 1);
  CHECK(all[0].window == 16);
  const auto mixed = groups("qwen2-upper-window");
  REQUIRE(mixed.size() == 2);
  CHECK((mixed[0].layers == 1 && mixed[0].window == 0));
  CHECK((mixed[1].layers == 1 && mixed[1].window == 24));
}
