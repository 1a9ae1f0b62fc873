// See script_model.h.
#include "tests/http/script_model.h"

#include <algorithm>

namespace slipstream::stub {
namespace {

constexpr int32_t kEndOfAnswer = 256, kEndOfPrompt = 257, kFirstSpecial = 258;
constexpr int32_t kBegin = 2, kClose = 3, kNextChoice = 31;

class ScriptTokenizer final : public Tokenizer {
 public:
  explicit ScriptTokenizer(std::vector<std::string> specials) {
    for (int i = 0; i < 256; ++i) texts_.push_back(std::string(1, static_cast<char>(i)));
    texts_.push_back("<|end_of_answer|>");
    texts_.push_back("");
    for (std::string& text : specials) texts_.push_back(std::move(text));
  }
  int32_t vocab_size() const override { return static_cast<int32_t>(texts_.size()); }
  Result<std::vector<int32_t>> encode(std::string_view text, bool parse_special) const override {
    std::vector<int32_t> out;
    while (!text.empty()) {
      const int32_t special = parse_special ? special_at(text) : -1;
      out.push_back(special >= 0 ? special : static_cast<unsigned char>(text[0]));
      text.remove_prefix(special >= 0 ? texts_[static_cast<size_t>(special)].size() : 1);
    }
    return out;
  }
  Result<std::vector<int32_t>> encode(std::span<const PromptSegment> segments) const override {
    std::vector<int32_t> out;
    for (const PromptSegment& segment : segments) {
      SLIP_TRY(const auto ids, encode(segment.text, segment.trusted));
      out.insert(out.end(), ids.begin(), ids.end());
    }
    out.push_back(kEndOfPrompt);
    return out;
  }
  std::string_view token_bytes(int32_t id) const override {
    return id >= 0 && id < vocab_size() ? std::string_view(texts_[static_cast<size_t>(id)]) : std::string_view();
  }
  bool is_special(int32_t id) const override { return id >= kEndOfAnswer; }
  int32_t token_id(std::string_view text) const override {
    for (int32_t id = kEndOfAnswer; id < vocab_size(); ++id)
      if (!text.empty() && token_bytes(id) == text) return id;
    return text.size() == 1 ? static_cast<unsigned char>(text[0]) : -1;
  }
  int32_t bos_id() const override { return -1; }
  std::vector<int32_t> eos_ids() const override { return {kEndOfAnswer}; }
  bool adds_bos() const override { return false; }
  bool adds_eos() const override { return false; }
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::string out;
    for (const int32_t id : ids)
      if (!(skip_special && is_special(id))) out += token_bytes(id);
    return out;
  }
  std::string description() const override { return "bytes and " + std::to_string(vocab_size() - kFirstSpecial) + " special tokens"; }

 private:
  int32_t special_at(std::string_view text) const {
    for (int32_t id = kFirstSpecial; id < vocab_size(); ++id)
      if (text.starts_with(texts_[static_cast<size_t>(id)])) return id;
    return -1;
  }
  std::vector<std::string> texts_;
};

/// The bytes of the script for `choice`; empty where the prompt has none.
std::string script_in(std::span<const int32_t> prompt, int32_t choice) {
  const auto close = std::find(prompt.rbegin(), prompt.rend(), kClose);
  const auto begin = std::find(close, prompt.rend(), kBegin);
  if (begin == prompt.rend()) return {};
  std::vector<std::string> alternatives(1);
  for (auto at = begin.base(); at != close.base() - 1; ++at) {
    if (*at == kNextChoice)
      alternatives.emplace_back();
    else if (*at < 256)
      alternatives.back().push_back(static_cast<char>(*at));
  }
  return alternatives[static_cast<size_t>(choice) % alternatives.size()];
}

}  // namespace

std::shared_ptr<const Tokenizer> make_script_tokenizer(std::vector<std::string> specials) {
  return std::make_shared<ScriptTokenizer>(std::move(specials));
}

TokenLaw script_law(std::shared_ptr<const Tokenizer> tokenizer) {
  return [tokenizer](std::span<const int32_t> history, uint64_t, int32_t choice) {
    const auto end = std::find(history.rbegin(), history.rend(), kEndOfPrompt);
    const auto said = static_cast<size_t>(end - history.rbegin());
    const auto script = tokenizer->encode(script_in(history.first(history.size() - said), choice), /*parse_special=*/true);
    return said < script->size() ? (*script)[said] : kEndOfAnswer;
  };
}

}  // namespace slipstream::stub
