#include "engine/sample/bad_words.h"

#include <algorithm>
#include <unordered_map>

#include "kernels/check.h"

namespace slipstream {

struct BadWords::Index {
  std::vector<int32_t> alone;                                            // sequences of one token
  std::unordered_map<int32_t, std::vector<std::vector<int32_t>>> longer;  // by their last token but one
};

namespace {

class Choice final : public TokenConstraint {
 public:
  explicit Choice(std::shared_ptr<const BadWords::Index> index) : index_(std::move(index)) {}

  bool narrow(std::span<uint32_t> mask) override {
    bool cleared = false;
    const auto clear = [&](int32_t id) {
      const auto word = static_cast<size_t>(id) / 32;
      const uint32_t bit = uint32_t{1} << (static_cast<uint32_t>(id) % 32);
      if (word >= mask.size() || (mask[word] & bit) == 0) return;
      mask[word] &= ~bit;
      cleared = true;
    };
    for (const int32_t id : index_->alone) clear(id);
    if (tokens_.empty()) return cleared;
    const auto found = index_->longer.find(tokens_.back());
    if (found == index_->longer.end()) return cleared;
    for (const std::vector<int32_t>& sequence : found->second) {
      const size_t before = sequence.size() - 1;
      if (before <= tokens_.size() && std::equal(sequence.begin(), sequence.end() - 1, tokens_.end() - static_cast<int64_t>(before)))
        clear(sequence.back());
    }
    return cleared;
  }
  void accept(int32_t token) override { tokens_.push_back(token); }
  void rollback(int32_t tokens) override { tokens_.resize(tokens_.size() - static_cast<size_t>(tokens)); }
  void forced(int32_t, std::vector<int32_t>*) override {}
  bool ended() const override { return false; }

 private:
  const std::shared_ptr<const BadWords::Index> index_;
  std::vector<int32_t> tokens_;  // generated
};

}  // namespace

BadWords::BadWords(const std::vector<std::vector<int32_t>>& sequences) {
  auto index = std::make_shared<Index>();
  for (const std::vector<int32_t>& sequence : sequences) {
    CHECK(std::ranges::all_of(sequence, [](int32_t id) { return id >= 0; }), "a token id is not negative");
    if (sequence.size() == 1)
      index->alone.push_back(sequence[0]);
    else if (sequence.size() > 1)
      index->longer[sequence[sequence.size() - 2]].push_back(sequence);
  }
  index_ = std::move(index);
}

std::unique_ptr<TokenConstraint> BadWords::start() const { return std::make_unique<Choice>(index_); }

}  // namespace slipstream
