// See drafter_family.h.
#include "engine/model/drafter_family.h"

#include <array>
#include <string>

#include "engine/weights/model_folder.h"

namespace slipstream {
namespace {

struct Mark {
  std::string_view text;    // lower case
  std::string_view family;  // and what it has that DFlash has not
};

constexpr std::string_view kDflash2 = "DFlash 2 (convolutions along the block and a path selector)";
constexpr std::string_view kDspark = "DSpark (a Markov head over the slots)";
constexpr std::string_view kDomino = "Domino (a recurrent corrector over the drafted prefix)";
constexpr std::string_view kDflare = "DFlare (taps mixed per layer)";
constexpr std::string_view kDfly = "DFly (taps mixed per layer)";
constexpr std::string_view kEagle = "EAGLE (an autoregressive drafter)";
constexpr std::string_view kMedusa = "Medusa (heads on the target's last hidden state)";
constexpr std::string_view kHydra = "Hydra (chained heads on the target's last hidden state)";
constexpr std::string_view kMtp = "MTP heads (multi-token prediction layers of the target)";
constexpr std::string_view kMlp = "an MLP speculator";
constexpr std::string_view kJet = "JetSpec (a tree of drafts)";
constexpr std::string_view kSpeculators = "the speculators format (taps counted from 1, other key names)";

// Parts of a name; the first match speaks.
constexpr std::array kNames = {
    Mark{"dflash2", kDflash2},   Mark{"dspark", kDspark},     Mark{"domino", kDomino},        Mark{"dflare", kDflare},
    Mark{"dfly", kDfly},         Mark{"eagle", kEagle},       Mark{"medusa", kMedusa},        Mark{"hydra", kHydra},
    Mark{"mtp", kMtp},           Mark{"nextn", kMtp},         Mark{"mlpspeculator", kMlp},    Mark{"mlp_speculator", kMlp},
    Mark{"jetspec", kJet},       Mark{"jetflow", kJet},       Mark{"speculator", kSpeculators},
};

// Whole keys; literals, so that each ends in a zero.
constexpr std::array kKeys = {
    Mark{"conv_kernel_size", kDflash2},
    Mark{"conv_group_size", kDflash2},
    Mark{"selector_rank", kDflash2},
    Mark{"selector_top_k", kDflash2},
    Mark{"markov_rank", kDspark},
    Mark{"markov_head_type", kDspark},
    Mark{"enable_confidence_head", kDspark},
    Mark{"confidence_head", kDspark},
    Mark{"pure_draft_prefix_len", kDomino},
    Mark{"medusa_num_heads", kMedusa},
    Mark{"medusa_num_layers", kMedusa},
    Mark{"num_nextn_predict_layers", kMtp},
    Mark{"nextn_predict_layers", kMtp},
    Mark{"eagle_config", kEagle},
    Mark{"speculators_model_type", kSpeculators},
    Mark{"speculators_config", kSpeculators},
};

// Parts of tensor names, in both containers.
constexpr std::array kTensors = {
    Mark{"attention_conv", kDflash2},
    Mark{"mlp_conv", kDflash2},
    Mark{"candidate_selector", kDflash2},
    Mark{"attn_conv", kDflash2},
    Mark{"ffn_conv", kDflash2},
    Mark{"selector_", kDflash2},
    Mark{"markov", kDspark},
    Mark{"confidence_head", kDspark},
    Mark{"conf_proj", kDspark},
    Mark{"prefix_gru", kDomino},
    Mark{"embed_proj", kDomino},
    Mark{"layer_fusion_weights", kDflare},
    Mark{"k_proj_target", kDflare},
    Mark{"v_proj_target", kDflare},
    Mark{"layer_fusion", kDfly},
    Mark{"medusa_head", kMedusa},
    Mark{"nextn", kMtp},
    Mark{"mtp.", kMtp},
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

Error refusal(std::string_view where, std::string_view what, std::string_view family) {
  return unsupported(std::string(where) + " " + quote_name(what) + " is of " + std::string(family) +
                         ", which is not served; served drafters: DFlash (DFlashDraftModel, GGUF dflash)",
                     "speculative_config.model");
}

}  // namespace

std::optional<Error> foreign_family_name(std::string_view where, std::string_view name) {
  const std::string text = lower(name);
  for (const Mark& mark : kNames)
    if (text.find(mark.text) != std::string::npos) return refusal(where, name, mark.family);
  return std::nullopt;
}

std::optional<Error> foreign_family_key(std::string_view where, const std::function<bool(const char* key)>& is_on) {
  for (const Mark& mark : kKeys)
    if (is_on(mark.text.data())) return refusal(where, mark.text, mark.family);
  return std::nullopt;
}

Status refuse_foreign_tensors(const Checkpoint& checkpoint) {
  for (const TensorEntry& entry : checkpoint.tensors())
    for (const Mark& mark : kTensors)
      if (lower(entry.name).find(mark.text) != std::string::npos) return refusal("drafter: tensor", entry.name, mark.family);
  for (const char* name : {"d2t", "t2d", "model.d2t", "model.t2d"})
    if (checkpoint.find(name) != nullptr)
      return unsupported("drafter: tensor '" + std::string(name) + "' maps a reduced draft vocabulary, which is not served; "
                             "use a drafter with the target's whole vocabulary",
                         "speculative_config.model");
  return Ok{};
}

Error not_a_drafter(std::string_view where, std::string_view name) {
  return unsupported(std::string(where) + " " + quote_name(name) +
                         " is not a drafter; served drafters: DFlash (DFlashDraftModel, GGUF dflash)",
                     "speculative_config.model");
}

}  // namespace slipstream
