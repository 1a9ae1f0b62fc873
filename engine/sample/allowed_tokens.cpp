#include "engine/sample/allowed_tokens.h"

#include <algorithm>

#include "kernels/check.h"

namespace slipstream {
namespace {

class Choice final : public TokenConstraint {
 public:
  explicit Choice(std::shared_ptr<const std::vector<uint32_t>> mask) : mask_(std::move(mask)) {}

  bool narrow(std::span<uint32_t> mask) override {
    const size_t both = std::min(mask.size(), mask_->size());
    for (size_t w = 0; w < both; ++w) mask[w] &= (*mask_)[w];
    for (size_t w = both; w < mask.size(); ++w) mask[w] = 0;
    return true;
  }
  void accept(int32_t) override {}
  void rollback(int32_t) override {}
  void forced(int32_t, std::vector<int32_t>*) override {}
  bool ended() const override { return false; }

 private:
  const std::shared_ptr<const std::vector<uint32_t>> mask_;
};

}  // namespace

AllowedTokens::AllowedTokens(std::span<const int32_t> ids) {
  std::vector<uint32_t> mask;
  for (const int32_t id : ids) {
    CHECK(id >= 0, "a token id is not negative");
    const auto word = static_cast<size_t>(id) / 32;
    if (word >= mask.size()) mask.resize(word + 1, 0);
    mask[word] |= uint32_t{1} << (static_cast<uint32_t>(id) % 32);
  }
  mask_ = std::make_shared<const std::vector<uint32_t>>(std::move(mask));
}

std::unique_ptr<TokenConstraint> AllowedTokens::start() const { return std::make_unique<Choice>(mask_); }

}  // namespace slipstream
