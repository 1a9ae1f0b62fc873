#include "engine/sample/forced_tokens.h"

#include <algorithm>

#include "engine/base/result.h"

namespace slipstream {
namespace {

class ForcedState : public TokenConstraint {
 public:
  explicit ForcedState(const std::vector<int32_t>& tokens) : tokens_(tokens) {}

  bool narrow(std::span<uint32_t> mask) override {
    const bool open = !ended();
    const auto word = open ? static_cast<size_t>(tokens_[at()]) / 32 : 0;
    const uint32_t kept = open && word < mask.size() ? mask[word] & 1u << (tokens_[at()] % 32) : 0;
    std::ranges::fill(mask, 0u);
    if (kept != 0) mask[word] = kept;
    return true;
  }
  void accept(int32_t token) override {
    if (wrong_ > 0 || at() == tokens_.size() || tokens_[at()] != token)
      ++wrong_;
    else
      ++right_;
  }
  void rollback(int32_t tokens) override {
    CHECK(tokens <= right_ + wrong_, "a rollback of more than was accepted");
    const int32_t of_wrong = std::min(tokens, wrong_);
    wrong_ -= of_wrong;
    right_ -= tokens - of_wrong;
  }
  void forced(int32_t limit, std::vector<int32_t>* tokens) override {
    if (wrong_ > 0) return;
    const size_t count = std::min(tokens_.size() - at(), static_cast<size_t>(std::max(limit, 0)));
    tokens->insert(tokens->end(), tokens_.begin() + right_, tokens_.begin() + right_ + static_cast<int64_t>(count));
  }
  bool ended() const override { return wrong_ > 0 || at() == tokens_.size(); }

 private:
  size_t at() const { return static_cast<size_t>(right_); }

  const std::vector<int32_t>& tokens_;
  int32_t right_ = 0;  // accepted in order …
  int32_t wrong_ = 0;  // … and behind them, from the first that was another token
};

}  // namespace

std::unique_ptr<TokenConstraint> ForcedTokens::start() const { return std::make_unique<ForcedState>(tokens_); }

}  // namespace slipstream
