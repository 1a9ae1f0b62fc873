// The tokenizer of a checkpoint: GGUF metadata, or tokenizer.json and what stands beside it.
#include <algorithm>
#include <memory>

#include "engine/text/bpe_tokenizer.h"
#include "engine/text/tokenizer_json.h"

namespace slipstream {
namespace {

using tokenizer_json::Json;
using tokenizer_json::member;

constexpr uint64_t kMaxTokenizerBytes = 64 << 20;
constexpr uint64_t kMaxSideBytes = 8 << 20;

/// A JSON file that may be absent (null then).
Result<Json> side_json(const Checkpoint& checkpoint, const char* name) {
  auto text = checkpoint.read_side_file(name, kMaxSideBytes);
  if (!text.ok()) {
    if (text.error().code == ErrorCode::kNotFound) return Json();
    return std::move(text).error();
  }
  Json parsed = Json::parse(text->begin(), text->end(), nullptr, false);
  if (parsed.is_discarded()) return corrupt(std::string(name) + ": not valid JSON");
  return parsed;
}

/// "token", or {"content": "token", …}.
std::string token_text(const Json& config, const char* key) {
  const Json* value = member(config, key);
  if (value != nullptr && value->is_object()) value = member(*value, "content");
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

/// Adds the id or ids under eos_token_id in front of those that names suggest.
Status add_eos_ids(const Json& config, const char* file, int32_t vocab_size, std::vector<int32_t>* eos) {
  const Json* value = member(config, "eos_token_id");
  if (value == nullptr) return Ok{};
  const Json list = value->is_array() ? *value : Json::array({*value});
  size_t at = 0;
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(vocab_size))
      return corrupt(std::string(file) + ": an eos_token_id is not a token id below " + std::to_string(vocab_size));
    const auto narrow = static_cast<int32_t>(id.get<uint64_t>());
    eos->erase(std::remove(eos->begin(), eos->end(), narrow), eos->end());
    eos->insert(eos->begin() + static_cast<ptrdiff_t>(std::min(at++, eos->size())), narrow);
  }
  return Ok{};
}

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const Checkpoint& checkpoint) {
  if (checkpoint.kind() == CheckpointKind::kGguf) return from_gguf(checkpoint.metadata());
  auto text = checkpoint.read_side_file("tokenizer.json", kMaxTokenizerBytes);
  if (!text.ok()) {
    if (text.error().code == ErrorCode::kNotFound)
      return not_found("tokenizer.json is not in the model folder; tokenizer.model and vocab.json alone are not "
                       "supported: save the tokenizer with transformers' save_pretrained, or use a GGUF file");
    return std::move(text).error();
  }
  SLIP_TRY(std::unique_ptr<BpeTokenizer> loaded, tokenizer_json::load(*text));
  TokenizerParts& parts = loaded->parts();
  SLIP_TRY(const Json config, side_json(checkpoint, "tokenizer_config.json"));
  SLIP_TRY(const Json model, side_json(checkpoint, "config.json"));
  SLIP_TRY(const Json generation, side_json(checkpoint, "generation_config.json"));
  if (const std::string bos = token_text(config, "bos_token"); !bos.empty() && parts.bos < 0)
    parts.bos = loaded->token_id(bos);
  if (const std::string eos = token_text(config, "eos_token"); !eos.empty()) {
    const int32_t id = loaded->token_id(eos);
    if (id >= 0 && std::find(parts.eos.begin(), parts.eos.end(), id) == parts.eos.end())
      parts.eos.insert(parts.eos.begin(), id);
  }
  SLIP_RETURN_IF_ERROR(add_eos_ids(model, "config.json", parts.vocabulary.size(), &parts.eos));
  SLIP_RETURN_IF_ERROR(add_eos_ids(generation, "generation_config.json", parts.vocabulary.size(), &parts.eos));
  if (const Json* add = member(config, "add_bos_token"); add != nullptr && add->is_boolean() && add->get<bool>())
    parts.adds_bos = parts.bos >= 0;
  return std::shared_ptr<const Tokenizer>(std::move(loaded));
}

}  // namespace slipstream
