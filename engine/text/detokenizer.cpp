// Bytes are collected until a character is whole; what can never become one is replaced at once.
#include "engine/text/detokenizer.h"

#include "engine/text/unicode.h"

namespace slipstream {

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

std::string Detokenizer::push(int32_t id) {
  if (skip_special_ && tokenizer_->is_special(id)) return {};
  std::string_view bytes = tokenizer_->token_bytes(id);
  if (bytes.empty()) return {};
  if (at_start_ && tokenizer_->drops_first_space() && bytes[0] == ' ') bytes.remove_prefix(1);
  at_start_ = false;
  pending_ += bytes;
  std::string out;
  const size_t incomplete = unicode::append_repaired(out, pending_);
  pending_.erase(0, pending_.size() - incomplete);
  return out;
}

std::string Detokenizer::finish() {
  std::string out;
  if (!pending_.empty()) append_utf8(out, unicode::kReplacement);
  pending_.clear();
  return out;
}

}  // namespace slipstream
