// See checks.h: tokenizer and chat template.
#include <algorithm>

#include "engine/base/log.h"
#include "engine/doctor/checks.h"
#include "engine/text/chat_template.h"

namespace slipstream {
namespace {

constexpr const char* kPrompt =
    "The quick brown fox jumps over the lazy dog. In 1969, humans first walked on the Moon; def f(n): return n * 2. "
    "La vie est belle, und der Himmel ist blau. Water boils at 100 degrees, and the largest planet is Jupiter.";
constexpr const char* kSamples[] = {"Hello, world! 1 + 1 = 2.", "Gr\u00fc\u00dfe, \u4e16\u754c \U0001f642\n  x = 'y'\t2"};

/// Ids that any vocabulary has, spread over it.
std::vector<int32_t> made_up(int32_t rows, int32_t vocab) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < rows; ++i) ids.push_back(static_cast<int32_t>((17 + 7919 * i) % vocab));
  return ids;
}

DoctorCheck round_trip(const Tokenizer& tokenizer, const std::string& prompt) {
  for (const std::string& text : {prompt, std::string(kSamples[0]), std::string(kSamples[1])}) {
    const auto ids = tokenizer.encode(text, false);
    if (!ids.ok()) return failed("text", "round trip", ids.error().message);
    const std::string back = tokenizer.decode(*ids, false);
    if (back != text)
      return failed("text", "round trip", log::json_quote_cut(text, 60) + " comes back as " + log::json_quote_cut(back, 60));
  }
  return passed("text", "round trip", "text to ids and back is the same text");
}

DoctorCheck ids_in_range(const Tokenizer& tokenizer, const ModelConfig& config) {
  const std::string vocab = std::to_string(config.vocab);
  if (tokenizer.vocab_size() > config.vocab)
    return failed("text", "token ids", "the tokenizer has " + std::to_string(tokenizer.vocab_size()) + " ids, the model's embedding " + vocab +
                                           " rows; they belong to different models");
  std::vector<int32_t> ends = config.eos_ids.empty() ? tokenizer.eos_ids() : config.eos_ids;
  if (ends.empty()) return failed("text", "token ids", "no end token is known: answers run to max_tokens");
  if (tokenizer.bos_id() >= 0) ends.push_back(tokenizer.bos_id());
  for (const int32_t id : ends)
    if (id < 0 || id >= config.vocab) return failed("text", "token ids", "special id " + std::to_string(id) + " is outside of " + vocab);
  return passed("text", "token ids", "special and end ids within " + vocab);
}

DoctorCheck template_renders(const Checkpoint& checkpoint, const Tokenizer& tokenizer) {
  const auto loaded = ChatTemplate::load(checkpoint, tokenizer);
  if (!loaded.ok()) {
    const bool none = loaded.error().code == ErrorCode::kNotFound;
    return {"text", "chat template", none ? CheckStatus::kSkipped : CheckStatus::kFailed, none ? "the model has none" : loaded.error().message};
  }
  RenderInput input;
  input.messages = nlohmann::ordered_json::array({{{"role", "user"}, {"content", kSamples[0]}}});
  const auto segments = (*loaded)->render(input);
  if (!segments.ok()) return failed("text", "chat template", segments.error().message);
  if (joined_text(*segments).find(kSamples[0]) == std::string::npos)
    return failed("text", "chat template", "the message is not in the rendered prompt");
  const auto ids = tokenizer.encode(*segments);
  if (!ids.ok()) return failed("text", "chat template", ids.error().message);
  return passed("text", "chat template", "renders a message to " + std::to_string(ids->size()) + " tokens");
}

}  // namespace

std::vector<int32_t> check_text(const Checkpoint& checkpoint, const ModelConfig& config, const std::string& prompt, int32_t rows,
                                bool dummy, DoctorReport* report) {
  const auto loaded = Tokenizer::load(checkpoint);
  if (!loaded.ok()) {
    const bool none = dummy || loaded.error().code == ErrorCode::kNotFound ||
                      (checkpoint.kind() == CheckpointKind::kGguf && !checkpoint.metadata().contains("tokenizer.ggml.model"));
    report->checks.push_back({"text", "tokenizer", none ? CheckStatus::kSkipped : CheckStatus::kFailed, loaded.error().message});
    return made_up(rows, config.vocab);
  }
  const Tokenizer& tokenizer = **loaded;
  const std::string text = prompt.empty() ? kPrompt : prompt;
  report->checks.push_back(passed("text", "tokenizer", tokenizer.description()));
  report->checks.push_back(round_trip(tokenizer, text));
  report->checks.push_back(ids_in_range(tokenizer, config));
  report->checks.push_back(template_renders(checkpoint, tokenizer));
  const auto ids = tokenizer.encode(text, false);
  if (!ids.ok() || ids->empty() || std::ranges::any_of(*ids, [&](int32_t id) { return id < 0 || id >= config.vocab; }))
    return made_up(rows, config.vocab);
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < rows; ++i) tokens.push_back((*ids)[static_cast<size_t>(i) % ids->size()]);
  return tokens;
}

}  // namespace slipstream
