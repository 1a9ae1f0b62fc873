// What load_dflash_drafter takes under which names, and what it refuses.
#include <cstring>
#include <functional>

#include "tests/catch.h"
#include "tests/model/drafter_fixture.h"

using namespace slipstream;
using namespace slipstream::test;

namespace {

using Change = std::function<void(MemoryCheckpoint&)>;

/// What the drafter "sliding" (3 layers, hidden 64, 4 heads and 2 of 16, MLP 96) says of a text, its checkpoint changed.
struct Outcome {
  std::vector<float> context, hidden;
  std::vector<int32_t> drafts;
};

Outcome outcome(MemoryCheckpoint file, const std::string& name = "sliding", const DraftRigOptions& options = {}) {
  const GoldenDrafter golden = read_golden_drafter(name);
  MemoryCheckpoint target = tiny_safetensors(golden.target);
  const auto rig = draft_rig(target, file, options);
  const std::vector<float> taps = rig->run_target(golden.ids);
  const DraftRig::Chunk chunk{0, 0, 50, taps.data()};
  rig->inject({&chunk, 1});
  const DraftBlock block = rig->block(0, golden.ids[50], 50, 4);
  Outcome out;
  out.drafts = rig->draft({&block, 1})[0];
  out.hidden = rig->hidden(4);
  for (const bool key : {true, false}) {
    const auto row = rig->context_row(key, 0, 0, 49);
    out.context.insert(out.context.end(), row.begin(), row.end());
  }
  return out;
}

void check_same(const Outcome& a, const Outcome& b) {
  REQUIRE(a.hidden.size() == b.hidden.size());
  REQUIRE(a.drafts.size() == 3);
  CHECK(std::memcmp(a.hidden.data(), b.hidden.data(), a.hidden.size() * sizeof(float)) == 0);
  CHECK(a.context == b.context);
  CHECK(a.drafts == b.drafts);
}

Error load_error(const Change& change, const std::string& name = "sliding") {
  const GoldenDrafter golden = read_golden_drafter(name);
  MemoryCheckpoint target = tiny_safetensors(golden.target), file = drafter_safetensors(golden);
  change(file);
  const auto rig = DraftRig::make(target, file, {});
  REQUIRE_FALSE(rig.ok());
  CHECK(rig.error().message.find('\n') == std::string::npos);
  return rig.error();
}

void check_refused(const Change& change, ErrorCode code, const std::string& part) {
  const Error error = load_error(change);
  INFO(error.message);
  CHECK(error.code == code);
  CHECK(error.message.find(part) != std::string::npos);
}

std::vector<float> zeros(int64_t count) { return std::vector<float>(static_cast<size_t>(count)); }

/// The checkpoint with every tensor under another name; empty: as it is.
MemoryCheckpoint renamed(const MemoryCheckpoint& file, const std::function<std::string(const std::string&)>& name) {
  MemoryCheckpoint out(file.kind());
  out.set_file("config.json", *file.read_side_file("config.json", 1 << 20));
  for (const TensorEntry& entry : file.tensors()) {
    std::vector<std::byte> bytes(entry.data, entry.data + entry.bytes);
    out.add_stored(name(entry.name), entry.shape, entry.dtype, std::move(bytes));
  }
  return out;
}

/// Rows of several matrices of a layer, one below the other.
void fuse(MemoryCheckpoint& file, const std::string& module, const std::vector<std::string>& parts, const std::string& into) {
  std::vector<std::byte> bytes;
  std::vector<int64_t> shape;
  for (const std::string& part : parts) {
    const TensorEntry* entry = file.find(module + part + ".weight");
    REQUIRE(entry != nullptr);
    bytes.insert(bytes.end(), entry->data, entry->data + entry->bytes);
    if (shape.empty())
      shape = entry->shape;
    else
      shape[0] += entry->shape[0];
    file.remove(module + part + ".weight");
  }
  file.add_stored(module + into + ".weight", shape, DType::kF32, std::move(bytes));
}

}  // namespace

TEST_CASE("published spellings of a drafter's tensors load to the same bits", "[drafter]") {
  const GoldenDrafter golden = read_golden_drafter("sliding");
  const MemoryCheckpoint plain = drafter_safetensors(golden);
  CHECK(plain.tensors().size() == 11 * 3 + 3);
  const Outcome want = outcome(plain);
  check_same(outcome(renamed(plain, [](const std::string& name) { return "model." + name; })), want);
  check_same(outcome(renamed(plain,
                             [](const std::string& name) -> std::string {
                               if (name == "fc.weight") return "encoder.fc.weight";
                               if (name == "hidden_norm.weight") return "encoder.output_norm_enc.weight";
                               if (name.starts_with("layers.0.")) return "midlayer." + name.substr(9);
                               return name;
                             })),
             want);
  MemoryCheckpoint fused = drafter_safetensors(golden);
  for (const char* layer : {"layers.0.", "layers.1.", "layers.2."}) {
    fuse(fused, std::string(layer) + "self_attn.", {"q_proj", "k_proj", "v_proj"}, "qkv_proj");
    fuse(fused, std::string(layer) + "mlp.", {"gate_proj", "up_proj"}, "gate_up_proj");
  }
  CHECK(fused.tensors().size() == 8 * 3 + 3);
  check_same(outcome(fused), want);
  check_same(outcome(drafter_safetensors(golden), "sliding", {.dummy = true}), want);  // the same law, without bytes
  for (const char* backend : {"reference", "cpu"}) {
    INFO(backend);
    check_same(outcome(drafter_safetensors(golden), "sliding", {.backend = backend, .dummy = true}),
               outcome(drafter_safetensors(golden), "sliding", {.backend = backend}));
  }
}

TEST_CASE("missing, left-over and misshapen tensors of a drafter are errors that name them", "[drafter]") {
  for (const char* name : {"fc.weight", "hidden_norm.weight", "norm.weight", "layers.2.self_attn.k_norm.weight",
                           "layers.1.mlp.down_proj.weight", "layers.0.self_attn.v_proj.weight"})
    check_refused([&](auto& f) { f.remove(name); }, ErrorCode::kCorrupt, "'" + std::string(name) + "' is missing");
  check_refused([](auto& f) { f.add("layers.3.input_layernorm.weight", {64}, zeros(64)); }, ErrorCode::kCorrupt,
                "tensors that 'dflash' does not use: 'layers.3.input_layernorm.weight'");
  check_refused([](auto& f) { f.add("layers.0.self_attn.q_proj.bias", {64}, zeros(64)); }, ErrorCode::kCorrupt,
                "'layers.0.self_attn.q_proj.bias'");
  // Three taps' width where the config names two.
  check_refused([](auto& f) { f.add("fc.weight", {64, 192}, zeros(64 * 192)); }, ErrorCode::kCorrupt,
                "'fc.weight' has shape [64, 192], the model config says [64, 128]");
  check_refused([](auto& f) { f.add("layers.0.self_attn.k_norm.weight", {32}, zeros(32)); }, ErrorCode::kCorrupt,
                "'layers.0.self_attn.k_norm.weight' has shape [32], the model config says [16]");
  check_refused([](auto& f) { f.add("layers.0.self_attn.qkv_proj.weight", {100, 64}, zeros(6400)); }, ErrorCode::kCorrupt,
                "'layers.0.self_attn.qkv_proj.weight' has shape [100, 64], the config says 128 rows");
  check_refused([](auto& f) { f.add("model.fc.weight", {64, 128}, zeros(64 * 128)); }, ErrorCode::kCorrupt,
                "'fc.weight' stands twice");
}

TEST_CASE("tensors of other families are refused by name", "[drafter]") {
  const std::pair<const char*, const char*> marks[] = {
      {"layers.0.attention_conv.base_kernel", "DFlash 2"},
      {"candidate_selector.successor_codebook", "DFlash 2"},
      {"markov_head.markov_w1.weight", "DSpark"},
      {"confidence_head.proj.weight", "DSpark"},
      {"prefix_gru.weight_ih_l0", "Domino"},
      {"layer_fusion_weights", "DFlare"},
      {"layers.0.self_attn.k_proj_target.weight", "DFlare"},
      {"layer_fusion.weight", "DFly"},
      {"medusa_head.0.0.linear.weight", "Medusa"},
      {"mtp.layers.0.input_layernorm.weight", "MTP heads"},
      {"d2t", "reduced draft vocabulary"},
      {"t2d", "reduced draft vocabulary"},
  };
  for (const auto& [tensor, family] : marks) {
    INFO(tensor);
    const Error error = load_error([name = tensor](auto& f) { f.add(name, {2, 2}, zeros(4)); });
    INFO(error.message);
    CHECK(error.code == ErrorCode::kUnsupported);
    CHECK(error.message.find(tensor) != std::string::npos);
    CHECK(error.message.find(family) != std::string::npos);
  }
}

TEST_CASE("copies of the target's embedding and head are skipped, others are refused", "[drafter]") {
  const GoldenDrafter golden = read_golden_drafter("sliding");
  MemoryCheckpoint target = tiny_safetensors(golden.target);
  const auto copy = [&](MemoryCheckpoint& file, const std::string& from, const std::string& to) {
    const TensorEntry* entry = target.find(from);
    REQUIRE(entry != nullptr);
    file.add_stored(to, entry->shape, entry->dtype, {entry->data, entry->data + entry->bytes});
  };
  MemoryCheckpoint file = drafter_safetensors(golden);
  copy(file, "model.embed_tokens.weight", "embed_tokens.weight");
  copy(file, "lm_head.weight", "model.lm_head.weight");
  std::vector<std::string> notes;
  const auto rig = DraftRig::make(target, file, {.notes = &notes});
  INFO((rig.ok() ? std::string() : rig.error().message));
  REQUIRE(rig.ok());
  REQUIRE(notes.size() == 2);
  CHECK(notes[0] == "drafter: tensor 'embed_tokens.weight' is not read: the target's own is used");
  CHECK(notes[1] == "drafter: tensor 'lm_head.weight' is not read: the target's own is used");

  check_refused([&](auto& f) { copy(f, "model.embed_tokens.weight", "lm_head.weight"); }, ErrorCode::kUnsupported,
                "'lm_head.weight' is not the target's 'lm_head.weight'");
  check_refused([&](auto& f) { f.add("embed_tokens.weight", {64, 64}, zeros(64 * 64)); }, ErrorCode::kUnsupported,
                "'embed_tokens.weight' has shape [64, 64], the target's 'model.embed_tokens.weight' [128, 64]");

  MemoryCheckpoint other = drafter_safetensors(golden);
  other.add("lm_head.weight", {128, 64}, zeros(128 * 64), DType::kBF16);
  const auto zero_head = DraftRig::make(target, other, {});
  REQUIRE_FALSE(zero_head.ok());
  CHECK(zero_head.error().message.find("'lm_head.weight' is not the target's 'lm_head.weight'") != std::string::npos);
}

TEST_CASE("a drafter that does not fit its target is refused before its tensors are read", "[drafter]") {
  const GoldenDrafter golden = read_golden_drafter("sliding"), wide = read_golden_drafter("last-layer-first");
  MemoryCheckpoint target = tiny_safetensors(wide.target), file = drafter_safetensors(golden);
  const auto rig = DraftRig::make(target, file, {});
  REQUIRE_FALSE(rig.ok());
  CHECK(rig.error().code == ErrorCode::kInvalidArgument);
  CHECK(rig.error().message.find("'hidden_size' is 64, the target 'memory' has 96") != std::string::npos);
}
