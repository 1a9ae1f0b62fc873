// The list of served architectures, and the words with which every other one is refused. Knows names only.
#include <array>

#include "engine/model/architecture.h"
#include "engine/model/dummy_model.h"
#include "engine/model/weight_loader.h"

namespace slipstream {
namespace {

constexpr std::array kServed = {&kLlama, &kMistral, &kQwen2, &kQwen3};

struct KnownFamily {
  std::string_view prefix;  // of the class or GGUF name, lower case
  std::string_view what;
};

// Longest prefixes first: the first match speaks.
constexpr std::array kKnown = {
    KnownFamily{"qwen3_5", "hybrid Gated DeltaNet and attention"},
    KnownFamily{"qwen35", "hybrid Gated DeltaNet and attention"},
    KnownFamily{"qwen3next", "hybrid Gated DeltaNet and attention"},
    KnownFamily{"qwen3moe", "mixture of experts"},
    KnownFamily{"qwen2moe", "mixture of experts"},
    KnownFamily{"qwen2vl", "images"},
    KnownFamily{"qwen3vl", "images"},
    KnownFamily{"qwen2_5_vl", "images"},
    KnownFamily{"mixtral", "mixture of experts"},
    KnownFamily{"mistral3", "images"},
    KnownFamily{"llama4", "mixture of experts"},
    KnownFamily{"mllama", "images"},
    KnownFamily{"llava", "images"},
    KnownFamily{"deepseek", "multi-head latent attention and mixture of experts"},
    KnownFamily{"glm-dsa", "latent attention, sparse indexer and mixture of experts"},
    KnownFamily{"glmmoedsa", "latent attention, sparse indexer and mixture of experts"},
    KnownFamily{"glm", "the GLM family"},
    KnownFamily{"chatglm", "the GLM family"},
    KnownFamily{"gemma", "the Gemma family's extra norms and soft caps"},
    KnownFamily{"gptoss", "attention sinks and mixture of experts"},
    KnownFamily{"gpt-oss", "attention sinks and mixture of experts"},
    KnownFamily{"phi", "the Phi family's fused tensors"},
    KnownFamily{"granite", "the Granite family's multipliers"},
    KnownFamily{"cohere", "the Command family"},
    KnownFamily{"command-r", "the Command family"},
    KnownFamily{"olmo", "the OLMo family's norm order"},
    KnownFamily{"falcon", "the Falcon family"},
    KnownFamily{"mamba", "state-space layers"},
    KnownFamily{"nemotron", "the Nemotron family"},
    KnownFamily{"kimi", "latent attention and mixture of experts"},
    KnownFamily{"minimax", "lightning attention and mixture of experts"},
    KnownFamily{"bert", "an encoder: embeddings are not served"},
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string served_list() {
  std::string list;
  for (const Architecture* a : kServed) {
    if (!list.empty()) list += ", ";
    list += std::string(a->hf_class);
  }
  return list + " (GGUF: llama, qwen2, qwen3)";
}

}  // namespace

const Architecture* find_architecture_by_hf_class(std::string_view hf_class) {
  for (const Architecture* a : kServed)
    if (a->hf_class == hf_class) return a;
  return nullptr;
}

const Architecture* find_architecture_by_gguf_name(std::string_view gguf_name) {
  for (const Architecture* a : kServed)
    if (!a->gguf_name.empty() && a->gguf_name == gguf_name) return a;
  return nullptr;
}

const Architecture* find_architecture(std::string_view name) {
  for (const Architecture* a : kServed)
    if (a->name == name) return a;
  return nullptr;
}

Error architecture_refusal(std::string_view name) {
  const std::string key = lower(name);
  for (const KnownFamily& family : kKnown)
    if (key.starts_with(family.prefix))
      return unsupported("architecture '" + std::string(name) + "' needs " + std::string(family.what) +
                             ", which is not served yet; served: " + served_list(),
                         "architecture");
  return unsupported("architecture '" + std::string(name.substr(0, 100)) + "' is not served; served: " + served_list(),
                     "architecture");
}

Result<std::unique_ptr<Model>> load_model(Checkpoint& checkpoint, const ModelConfig& config, Ops& ops,
                                          const LoadOptions& options) {
  const Architecture* architecture = find_architecture(config.architecture);
  if (architecture == nullptr) return architecture_refusal(config.architecture);
  WeightLoader loader(checkpoint, config, ops, options);
  if (options.dummy)
    SLIP_RETURN_IF_ERROR(loader.use_dummy_weights(
        decoder_tensors(config, options.dummy_format.value_or(config.weights_dtype))));
  SLIP_RETURN_IF_ERROR(loader.check());
  SLIP_TRY(std::unique_ptr<Model> model, architecture->load(loader));
  SLIP_RETURN_IF_ERROR(loader.finish());
  return model;
}

}  // namespace slipstream
