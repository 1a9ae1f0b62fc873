// read_drafter_config: picks the reader, then checks what holds for every container. Also the pairing with a target.
#include "engine/model/drafter_config.h"

#include <algorithm>

#include "engine/base/log.h"
#include "engine/model/config_readers.h"
#include "engine/model/drafter_readers.h"

namespace slipstream {

Status check_drafter_relations(const DrafterConfig& c) {
  const ModelConfig& s = c.stack;
  if (s.heads % s.kv_heads != 0)
    return corrupt("drafter config: " + std::to_string(s.heads) + " attention heads are not a multiple of " +
                   std::to_string(s.kv_heads) + " key/value heads");
  if (s.head_dim % 2 != 0 || s.rope_dim % 2 != 0 || s.rope_dim < 2)
    return corrupt("drafter config: head size " + std::to_string(s.head_dim) + " and rotated size " +
                   std::to_string(s.rope_dim) + " must be even");
  if (int64_t{s.heads} * s.head_dim > kMaxHidden)
    return corrupt("drafter config: " + std::to_string(s.heads) + " heads of " + std::to_string(s.head_dim) +
                   " are over the bound of " + std::to_string(kMaxHidden));
  if (!(s.norm_eps > 0)) return corrupt("drafter config: the RMS norm epsilon is 0, expected a positive number");
  if (c.block_rows > s.context_length)
    return corrupt("drafter config: block size " + std::to_string(c.block_rows) + " is over the context length of " +
                   std::to_string(s.context_length));
  if (s.vocab > 0 && c.mask_token >= s.vocab)
    return corrupt("drafter config: mask token id " + std::to_string(c.mask_token) + " is outside the vocabulary of " +
                   std::to_string(s.vocab));
  for (auto tap = c.taps.begin(); tap != c.taps.end(); ++tap) {
    if (std::find(c.taps.begin(), tap, *tap) != tap)
      return corrupt("drafter config: target layer " + std::to_string(*tap) + " is tapped twice");
    if (c.target_layers > 0 && *tap >= c.target_layers)
      return corrupt("drafter config: tapped layer " + std::to_string(*tap) + " is outside a target of " +
                     std::to_string(c.target_layers) + " layers");
  }
  return Ok{};
}

namespace {

Error mismatch(const char* key, int64_t value, const std::string& wanted, const ModelConfig& target) {
  return invalid_argument("drafter: '" + std::string(key) + "' is " + std::to_string(value) + ", the target '" +
                              target.name + "' " + wanted + "; use the drafter that was trained for this target",
                          "speculative_config.model");
}

}  // namespace

Result<DrafterConfig> read_drafter_config(const Checkpoint& checkpoint) {
  SLIP_TRY(DrafterConfig c, checkpoint.kind() == CheckpointKind::kGguf ? read_gguf_drafter(checkpoint)
                                                                       : read_safetensors_drafter(checkpoint));
  SLIP_RETURN_IF_ERROR(check_drafter_relations(c));
  for (const std::string& taken : c.stack.defaults) log::info("drafter_config_default", {{"key", taken}});
  return c;
}

Status check_pairing(const DrafterConfig& c, const ModelConfig& target) {
  if (c.stack.hidden != target.hidden)
    return mismatch("hidden_size", c.stack.hidden, "has " + std::to_string(target.hidden), target);
  if (c.target_hidden != target.hidden)
    return mismatch("target_hidden_size", c.target_hidden, "has " + std::to_string(target.hidden), target);
  if (c.stack.vocab > 0 && c.stack.vocab != target.vocab)
    return mismatch("vocab_size", c.stack.vocab, "has " + std::to_string(target.vocab) + " tokens", target);
  if (c.target_layers > 0 && c.target_layers != target.layers)
    return mismatch("num_target_layers", c.target_layers, "has " + std::to_string(target.layers), target);
  for (const int32_t tap : c.taps)
    if (tap >= target.layers)
      return mismatch("target_layer_ids", tap, "has layers 0 to " + std::to_string(target.layers - 1), target);
  if (c.mask_token >= target.vocab)
    return mismatch("mask_token_id", c.mask_token, "has ids 0 to " + std::to_string(target.vocab - 1), target);
  return Ok{};
}

}  // namespace slipstream
