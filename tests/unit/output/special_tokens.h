// A vocabulary of a few special tokens and nothing else: enough to tell which output format a model has.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/text/tokenizer.h"

namespace slipstream {

class SpecialTokens final : public Tokenizer {
 public:
  explicit SpecialTokens(std::vector<std::string> texts) : texts_(std::move(texts)) {}
  int32_t vocab_size() const override { return static_cast<int32_t>(texts_.size()); }
  Result<std::vector<int32_t>> encode(std::string_view, bool) const override { return std::vector<int32_t>{}; }
  Result<std::vector<int32_t>> encode(std::span<const PromptSegment>) const override { return std::vector<int32_t>{}; }
  std::string_view token_bytes(int32_t id) const override { return texts_[static_cast<size_t>(id)]; }
  bool is_special(int32_t) const override { return true; }
  int32_t token_id(std::string_view text) const override {
    for (size_t i = 0; i < texts_.size(); ++i)
      if (texts_[i] == text) return static_cast<int32_t>(i);
    return -1;
  }
  int32_t bos_id() const override { return -1; }
  std::vector<int32_t> eos_ids() const override { return {}; }
  bool adds_bos() const override { return false; }
  bool adds_eos() const override { return false; }
  std::string decode(std::span<const int32_t>, bool) const override { return {}; }
  std::string description() const override { return "special tokens only"; }

 private:
  std::vector<std::string> texts_;
};

}  // namespace slipstream
