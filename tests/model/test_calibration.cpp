// Calibration of DFlash drafters on tests/fixtures/pair, a tiny target and a drafter trained for it (scripts/make_trained_pair).
// The oracle of text and drafts is PyTorch's, stored beside the weights; of the settings, the config that it was trained with.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/model/drafter_profile.h"
#include "engine/spec/calibration_setup.h"
#include "tests/catch.h"
#include "tests/model/memory_checkpoint.h"

namespace slipstream {
namespace {

using nlohmann::json;
using test::MemoryCheckpoint;

const std::string kPair = std::string(SLIP_FIXTURES) + "/pair";

std::string file_text(const std::string& path) {
  std::ifstream file(path);
  INFO(path);
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

json drafter_json() { return json::parse(file_text(kPair + "/drafter/config.json")); }

/// The trained drafter with another config.json; null: with none.
MemoryCheckpoint drafter_with(const json& config) {
  const auto stored = Checkpoint::open(kPair + "/drafter").value();
  MemoryCheckpoint out(CheckpointKind::kSafetensors);
  for (const TensorEntry& t : stored->tensors()) out.add_stored(t.name, t.shape, t.dtype, {t.data, t.data + t.bytes});
  if (!config.is_null()) out.set_file("config.json", config.dump());
  return out;
}

/// Its weights in the names of llama.cpp's converter, with no more metadata than said here.
MemoryCheckpoint drafter_gguf(const std::vector<std::pair<std::string, MetaValue>>& metadata) {
  const std::pair<std::string, std::string> names[] = {
      {"hidden_norm", "enc.output_norm"}, {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"}, {"self_attn.v_proj", "attn_v"}, {"self_attn.o_proj", "attn_output"},
      {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"}, {"mlp.gate_proj", "ffn_gate"}, {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}, {"layers.", "blk."}};
  const auto stored = Checkpoint::open(kPair + "/drafter").value();
  MemoryCheckpoint out(CheckpointKind::kGguf);
  for (const TensorEntry& t : stored->tensors()) {
    std::string name = t.name == "norm.weight" ? "output_norm.weight" : t.name;
    for (const auto& [from, to] : names)
      if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
    out.add_stored(name, t.shape, t.dtype, {t.data, t.data + t.bytes});
  }
  out.set("general.architecture", std::string("dflash"));
  for (const auto& [key, value] : metadata) out.set(key, value);
  return out;
}

struct Target {
  std::unique_ptr<Checkpoint> checkpoint = Checkpoint::open(kPair + "/target").value();
  ModelConfig config = read_model_config(*checkpoint).value();
};

/// Ids of the beginnings of texts; a byte is its own id, and texts are led by the target's first token.
std::vector<std::vector<int32_t>> prompts(size_t count) {
  const ModelConfig config = Target().config;
  std::istringstream lines(file_text(kPair + "/prompts.txt"));
  std::vector<std::vector<int32_t>> out;
  for (std::string text; out.size() < count && std::getline(lines, text);) {
    out.push_back({config.bos_id});
    for (const char c : text) out.back().push_back(static_cast<unsigned char>(c));
  }
  REQUIRE(out.size() == count);
  return out;
}

constexpr CalibrationSize kSize = {.texts = 8, .prompt_tokens = 24, .tokens = 72, .anchors = 20, .cache_dtype = DType::kF32};

struct Outcome {
  DrafterFacts facts;
  Calibration result;
};

Outcome calibrate(Checkpoint& drafter, int32_t unused_token = 287) {
  Target target;
  const auto ops = make_cpu_ops({.threads = 1, .isa = ""});
  Outcome out;
  auto facts = infer_drafter_config(drafter, target.config, unused_token);
  INFO((facts.ok() ? std::string() : facts.error().message));
  REQUIRE(facts.ok());
  out.facts = *facts;
  auto setup = CalibrationSetup::load(*target.checkpoint, target.config, drafter, out.facts, *ops, kSize);
  INFO((setup.ok() ? std::string() : setup.error().message));
  REQUIRE(setup.ok());
  (*setup)->write(prompts(8), {}, {});
  std::vector<int32_t> masks;
  for (int32_t id = 287; id < target.config.vocab; id += 3) masks.push_back(id);  // 293 among them
  out.result = (*setup)->calibrate(out.facts, masks, {});
  return out;
}

/// The settings that the drafter was trained with.
void check_true(const DrafterConfig& c) {
  const DrafterConfig trained = read_drafter_config(drafter_with(drafter_json())).value();
  CHECK(c.taps == trained.taps);
  CHECK(c.mask_token == trained.mask_token);
  CHECK(c.anchor_first == trained.anchor_first);
  CHECK(c.stack.rope_theta == trained.stack.rope_theta);
  CHECK(c.block_rows == trained.block_rows);
  for (size_t l = 0; l < trained.attention.size(); ++l) {
    CHECK(c.attention[l].window == trained.attention[l].window);
    CHECK(c.attention[l].causal == trained.attention[l].causal);
  }
}

}  // namespace

TEST_CASE("text and drafts are those of PyTorch") {
  const json golden = json::parse(file_text(kPair + "/golden.json"));
  Target target;
  MemoryCheckpoint drafter = drafter_with(drafter_json());
  const DrafterFacts facts = infer_drafter_config(drafter, target.config, -1).value();
  CHECK(facts.unknown.empty());
  for (const char* backend : {"reference", "cpu"}) {
    const auto ops = backend == std::string("cpu") ? make_cpu_ops({.threads = 1, .isa = ""}) : make_reference_ops();
    LoadOptions load;
    load.max_rows = load.max_logit_rows = 64;
    const auto model = load_model(*target.checkpoint, target.config, *ops, load).value();
    DrafterOptions options;
    options.load = load;
    options.max_blocks = 4;
    options.first_cache_layer = target.config.layers;
    const auto stack = load_dflash_drafter(drafter, facts.config, *model, *ops, options).value();
    KvCacheShape shape;
    shape.groups = model->cache_groups();
    for (const CacheGroupSpec& group : stack->cache_groups()) shape.groups.push_back(group);
    shape.blocks.assign(shape.groups.size(), 9);
    shape.dtype = DType::kF32;
    const KvCache kv = KvCache::create(*ops, shape).value();
    const ScratchTables tables(3, 96, 32, static_cast<int32_t>(shape.groups.size()));
    ops->warm_up(64);

    std::vector<std::vector<int32_t>> begins;
    for (const json& text : golden) {
      const auto ids = text.at("ids").get<std::vector<int32_t>>();
      begins.emplace_back(ids.begin(), ids.begin() + text.at("written").get<int32_t>());
    }
    REQUIRE(begins.size() == 3);
    TextOptions writing;
    writing.layers = facts.config.taps;
    writing.tokens = 40;
    writing.max_rows = 7;  // chunks of the prompts
    const WrittenText text = write_text(*model, *ops, kv, tables, begins, writing);
    CHECK(text.tokens() == 3 * 40);
    for (size_t i = 0; i < golden.size(); ++i) CHECK(text.sequences[i].ids == golden[i].at("ids").get<std::vector<int32_t>>());

    // 40 written tokens: anchors at all but the last, each compared with PyTorch's drafts of it
    DrafterTrial trial(text, *ops, kv, tables, {.anchors = 39, .max_rows = 5, .max_blocks = 4});
    REQUIRE(trial.anchors() == 3 * 39);
    const DraftScore score = trial.score(*stack, 5);
    int32_t right = 0, all = 0, same = 0;
    for (size_t i = 0; i < golden.size(); ++i) {
      const auto ids = golden[i].at("ids").get<std::vector<int32_t>>();
      const auto drafts = golden[i].at("drafts").get<std::vector<std::vector<int32_t>>>();
      const int32_t written = golden[i].at("written").get<int32_t>();
      for (int32_t a = 0; a < 39; ++a) {
        // anchors of a text stand with the last first
        const int32_t index = static_cast<int32_t>(i) * 39 + 38 - a;
        for (int32_t s = 0; s < 5; ++s) {
          const size_t position = static_cast<size_t>(written + a + 1 + s);
          const DraftScore::Cell& cell = score.at(index, s);
          CHECK(cell.there == (position < ids.size()));
          if (!cell.there) continue;
          const bool hit = drafts[static_cast<size_t>(a)][static_cast<size_t>(s)] == ids[position];
          ++all;
          right += hit;
          same += hit == cell.hit;
        }
      }
    }
    CHECK(same == all);
    CHECK(right > all / 2);
  }
}

TEST_CASE("a drafter whose config is right: nothing is found fault with") {
  MemoryCheckpoint drafter = drafter_with(drafter_json());
  const Outcome out = calibrate(drafter);
  INFO(calibration_text(out.result, out.facts));
  CHECK(out.result.fits);
  CHECK(out.result.faults.empty());
  CHECK(out.result.length == out.result.stated_length);
  CHECK(out.result.length > 2.5);
  CHECK(out.result.slots.size() == 5);
  CHECK(out.result.slots[0] > 0.8);
  check_true(out.result.config);
  for (const SettingTable& table : out.result.tables) {
    CHECK(table.stated);
    CHECK(std::ranges::count(table.values, true, &SettingValue::chosen) == 1);
    CHECK(std::ranges::count(table.values, true, &SettingValue::stated) == 1);
  }
}

TEST_CASE("weights alone: every setting is recovered") {
  MemoryCheckpoint drafter = drafter_with(json());
  const Outcome out = calibrate(drafter);
  INFO(calibration_text(out.result, out.facts));
  CHECK(out.facts.unknown.size() == 7);
  CHECK(out.result.fits);
  CHECK(out.result.faults.empty());  // nothing was said that could be wrong
  CHECK(out.result.length > 2.5);
  check_true(out.result.config);
}

TEST_CASE("an incomplete config: what is missing is recovered, what is said stands") {
  for (const std::vector<std::string>& missing :
       {std::vector<std::string>{"mask_token_id"}, {"target_layer_ids", "rope_theta"}, {"block_size", "hidden_size", "head_dim"},
        {"sliding_window"}}) {
    json config = drafter_json();
    for (const std::string& key : missing) {
      config.erase(key);
      config["dflash_config"].erase(key);
    }
    MemoryCheckpoint drafter = drafter_with(config);
    const Outcome out = calibrate(drafter);
    INFO(calibration_text(out.result, out.facts));
    CHECK(out.result.fits);
    CHECK(out.result.faults.empty());
    check_true(out.result.config);
  }
}

TEST_CASE("GGUF: missing keys are recovered, the others are read") {
  MemoryCheckpoint drafter = drafter_gguf({{"dflash.block_size", uint64_t{6}},
                                           {"dflash.rope.freq_base", 1000000.0},
                                           {"dflash.attention.sliding_window", uint64_t{24}},
                                           {"dflash.attention.sliding_window_pattern", std::vector<int64_t>{1, 0}},
                                           {"dflash.target_layers", std::vector<int64_t>{2, 3, 5}}});
  const Outcome out = calibrate(drafter);
  INFO(calibration_text(out.result, out.facts));
  CHECK(!out.facts.knows("mask_token_id"));
  CHECK(out.facts.knows("target_layer_ids"));
  CHECK(out.facts.knows("rope_theta"));
  CHECK(out.result.fits);
  check_true(out.result.config);
}

TEST_CASE("one planted fault: it is detected and named") {
  struct Fault {
    const char* key;
    std::function<void(json&)> plant;
  };
  const auto inner = [](const char* key, json value) {
    return [=](json& config) { config["dflash_config"][key] = value; };
  };
  const auto outer = [](const char* key, json value) {
    return [=](json& config) { config[key] = value; };
  };
  const Fault faults[] = {
      {"target_layer_ids", inner("target_layer_ids", {1, 2, 5})},   // one tap late
      {"target_layer_ids", inner("target_layer_ids", {0, 2, 4})},   // one early
      {"target_layer_ids", inner("target_layer_ids", {2, 3, 5})},   // all counted from the embedding
      {"target_layer_ids", inner("target_layer_ids", {4, 2, 1})},   // in another order
      {"mask_token_id", inner("mask_token_id", 287)},
      {"rope_theta", outer("rope_theta", 10000.0)},
      {"sample_from_anchor", outer("sample_from_anchor", true)},
      {"is_causal", outer("is_causal", true)},
      {"is_causal", outer("is_causal", false)},
      {"sliding_window", outer("sliding_window", 8)},
      {"sliding_window", [](json& config) {
         for (const char* key : {"layer_types", "use_sliding_window", "sliding_window"}) config.erase(key);
         config["layer_types"] = {"full_attention", "full_attention"};
       }},
      {"layer_types", outer("layer_types", {"full_attention", "sliding_attention"})},
      {"block_size", outer("block_size", 4)},
      {"block_size", outer("block_size", 9)},
      {"input_embedding_scale", inner("input_embedding_scale", 8.0)},
  };
  for (const Fault& fault : faults) {
    json config = drafter_json();
    fault.plant(config);
    MemoryCheckpoint drafter = drafter_with(config);
    const Outcome out = calibrate(drafter);
    INFO(config.dump() << "\n" << calibration_text(out.result, out.facts));
    REQUIRE(out.result.faults.size() == 1);
    CHECK(out.result.faults[0].key == fault.key);
    CHECK(out.result.verdict.find(fault.key) != std::string::npos);
    CHECK(out.result.fits);
    // rows behind those it was trained with are right now and then, so a block that is too large only costs
    if (config["block_size"] <= 6) CHECK(out.result.stated_length < out.result.length);
    check_true(out.result.config);
  }
}

TEST_CASE("weights of nothing: refused with a table") {
  MemoryCheckpoint drafter = drafter_with(json());
  for (const TensorEntry& tensor : std::vector<TensorEntry>(drafter.tensors())) {
    if (tensor.shape.size() != 2) continue;
    std::vector<std::byte> backwards(tensor.data, tensor.data + tensor.bytes);
    for (size_t i = 0; i + 2 <= backwards.size() / 2; i += 2)  // whole BF16 values
      for (size_t b = 0; b < 2; ++b) std::swap(backwards[i + b], backwards[backwards.size() - 2 - i + b]);
    drafter.add_stored(tensor.name, tensor.shape, tensor.dtype, backwards);
  }
  const Outcome out = calibrate(drafter);
  INFO(calibration_text(out.result, out.facts));
  CHECK(!out.result.fits);
  CHECK(out.result.length < 1.5);
  CHECK(out.result.verdict.find("nothing fits") == 0);
  CHECK(!out.result.tables.empty());
}

TEST_CASE("a profile stands in for a config, of the weights and target it was made for") {
  Target target;
  MemoryCheckpoint bare = drafter_with(json());
  const DrafterConfig trained = read_drafter_config(drafter_with(drafter_json())).value();
  DrafterProfile profile{drafter_fingerprint(bare), target.config.layers, target.config.hidden, target.config.vocab, true, 3.5, "fits", trained, "{}"};
  const auto applied = [&](const DrafterProfile& p, const Checkpoint& checkpoint) -> Result<DrafterConfig> {
    const DrafterProfile read = parse_profile("profile", profile_json(p)).value();
    return apply_profile(read, infer_drafter_config(checkpoint, target.config, -1).value(), checkpoint, target.config);
  };
  check_true(applied(profile, bare).value());
  check_true(applied(profile, drafter_with(drafter_json())).value());

  const auto refusal = [&](const DrafterProfile& p) {
    const auto result = applied(p, bare);
    return result.ok() ? std::string() : result.error().message;
  };
  DrafterProfile other = profile;
  other.weights = "0123456789abcdef";
  CHECK(refusal(other).find("other weights") != std::string::npos);
  other = profile;
  other.target_layers = 5;
  CHECK(refusal(other).find("a target of 5 layers") != std::string::npos);
  other = profile;
  other.fits = false;
  other.verdict = "the best acceptance length is 1.02";
  CHECK(refusal(other).find("nothing fits: the best acceptance length is 1.02") != std::string::npos);
  other = profile;
  other.settings.taps = {1, 2};
  CHECK(refusal(other).find("of 2 taps") != std::string::npos);
  other = profile;
  other.settings.taps = {1, 1, 2};
  CHECK(refusal(other).find("tapped twice") != std::string::npos);

  for (const auto& [text, wanted] : {std::pair{"[]", "object"}, {"{\"format\": \"x\"}", "format"}, {"{", "profile"}}) {
    const auto result = parse_profile("profile", text);
    REQUIRE(!result.ok());
    CHECK(result.error().message.find(wanted) != std::string::npos);
  }
}

TEST_CASE("shapes: what contradicts the target is refused by name") {
  Target target;
  const auto refusal = [&](const Checkpoint& checkpoint) {
    const auto facts = infer_drafter_config(checkpoint, target.config, -1);
    return facts.ok() ? std::string() : facts.error().message;
  };
  MemoryCheckpoint drafter = drafter_with(json());
  drafter.remove("fc.weight");
  CHECK(refusal(drafter).find("'fc.weight' is missing") != std::string::npos);
  drafter = drafter_with(json());
  drafter.add("fc.weight", {64, 100}, std::vector<float>(6400));
  CHECK(refusal(drafter).find("100 values, not a multiple") != std::string::npos);
  drafter = drafter_with(json());
  drafter.add("fc.weight", {64, 64 * 7}, std::vector<float>(64 * 64 * 7));
  CHECK(refusal(drafter).find("7 hidden states") != std::string::npos);
  drafter = drafter_with(json());
  drafter.add("markov_head.weight", {4, 4}, std::vector<float>(16));
  CHECK(refusal(drafter).find("DSpark") != std::string::npos);
  json config = drafter_json();
  config["block_size"] = 6;
  config["dflash_config"]["block_size"] = 7;
  config.erase("rope_theta");
  CHECK(refusal(drafter_with(config)).find("'block_size' is 6 at the top and 7") != std::string::npos);
}

TEST_CASE("published rules of taps") {
  CHECK(default_taps(36, 5) == std::vector<int32_t>{1, 9, 17, 25, 33});
  CHECK(default_taps(64, 5) == std::vector<int32_t>{1, 16, 31, 46, 61});
  CHECK(default_taps(40, 8) == std::vector<int32_t>{1, 6, 11, 16, 22, 27, 32, 37});
  CHECK(default_taps(24, 5) == std::vector<int32_t>{1, 6, 11, 16, 21});
  CHECK(default_taps(30, 1) == std::vector<int32_t>{15});
  CHECK(default_taps(3, 3) == std::vector<int32_t>{0, 1, 2});
}

}  // namespace slipstream
