// See drafter_prompts.h.
#include "server/drafter_prompts.h"

#include <algorithm>
#include <array>

namespace slipstream {
namespace {

constexpr std::array kTexts = {
    "Why is the sky blue? Answer in a few sentences.",
    "Write a Python function that returns the sum of the even numbers in a list.",
    "What is 17 + 25? Explain each step.",
    "List ten fruits, one on each line.",
    "Rewrite in plain words: The committee has postponed its decision until further notice.",
    "Tell me how a bicycle stays upright while it moves.",
    "Write a C function that reverses a string in place.",
    "A train goes 60 km in one hour. How far does it go in 2 hours and 30 minutes?",
    "Give me a shopping list for a simple vegetable soup.",
    "Translate into French: Good morning, where is the station?",
    "Who wrote Romeo and Juliet, and what is it about?",
    "Write an SQL query that counts the orders of each customer.",
    "Solve for x: 3x + 4 = 19.",
    "Name the planets of the solar system with one fact about each.",
    "Write a short, polite email that asks for a day off.",
    "Explain what a database index is for.",
};

}  // namespace

std::span<const char* const> drafter_prompt_texts() { return kTexts; }

std::vector<std::vector<int32_t>> drafter_prompts(const Tokenizer& tokenizer, const ChatTemplate* chat_template,
                                                  std::span<const std::string> texts, int32_t vocab, int32_t most_tokens,
                                                  int32_t count) {
  const auto ids_of = [&](const std::string& text) -> Result<std::vector<int32_t>> {
    if (chat_template != nullptr) {
      RenderInput input;
      input.messages = nlohmann::ordered_json::array({{{"role", "user"}, {"content", text}}});
      input.extra = nlohmann::ordered_json::object();
      SLIP_TRY(const auto segments, chat_template->render(input));
      return tokenizer.encode(segments);
    }
    SLIP_TRY(std::vector<int32_t> ids, tokenizer.encode(text, false));
    if (tokenizer.adds_bos() && tokenizer.bos_id() >= 0) ids.insert(ids.begin(), tokenizer.bos_id());
    return ids;
  };
  std::vector<std::vector<int32_t>> prompts;
  for (const std::string& text : texts) {
    if (static_cast<int32_t>(prompts.size()) == count) break;
    auto ids = ids_of(text);
    if (!ids.ok() || ids->empty() || static_cast<int32_t>(ids->size()) > most_tokens) continue;
    if (std::ranges::max(*ids) < vocab) prompts.push_back(std::move(*ids));
  }
  return prompts;
}

std::vector<int32_t> mask_candidates(const Tokenizer& tokenizer, int32_t vocab) {
  constexpr int32_t kUnusedRows = 256, kSmallVocabulary = 512;
  constexpr size_t kMost = 512;
  // Qwen3, Qwen3.5 and 3.6, LFM2.5 and SmolLM2, Muse Glimmer
  constexpr int32_t kPublished[] = {151669, 248070, 248077, 16, 201818};
  std::vector<int32_t> out;
  const auto add = [&](int32_t id) {
    if (id >= 0 && id < vocab && out.size() < kMost && std::ranges::find(out, id) == out.end()) out.push_back(id);
  };
  for (int32_t id = tokenizer.vocab_size(); id < std::min(vocab, tokenizer.vocab_size() + kUnusedRows); ++id) add(id);
  for (const int32_t id : kPublished) add(id);
  for (const char* name : {"<|mask|>", "[MASK]", "<mask>", "<|MASK|>", "<pad>", "<|endoftext|>"}) add(tokenizer.token_id(name));
  for (int32_t id = tokenizer.vocab_size() - 1; id >= 0 && out.size() < kMost; --id)
    if (tokenizer.is_special(id)) add(id);
  if (vocab <= kSmallVocabulary)
    for (int32_t id = 0; id < vocab; ++id) add(id);
  return out;
}

}  // namespace slipstream
