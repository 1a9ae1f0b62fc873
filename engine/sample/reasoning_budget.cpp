#include "engine/sample/reasoning_budget.h"

#include <algorithm>

#include "engine/sample/state_trail.h"
#include "kernels/check.h"

namespace slipstream {
namespace {

class Choice final : public TokenConstraint {
 public:
  explicit Choice(std::shared_ptr<const ReasoningBudget::Marks> marks) : marks_(std::move(marks)), trail_({marks_->inside, 0, 0}) {}

  bool narrow(std::span<uint32_t> mask) override {
    if (!spent()) return false;
    const int32_t id = marks_->end[trail_.newest().matched];
    const auto word = static_cast<size_t>(id) / 32;
    const uint32_t kept = word < mask.size() ? mask[word] & (uint32_t{1} << (static_cast<uint32_t>(id) % 32)) : 0;
    std::ranges::fill(mask, 0);
    if (kept != 0) mask[word] = kept;
    return true;
  }
  void accept(int32_t token) override {
    State state = trail_.newest();
    const TokenSequence& mark = state.inside ? marks_->end : marks_->start;
    if (state.inside) state.used = std::min(state.used + 1, marks_->tokens);
    state.matched = mark.after(state.matched, token);
    if (!mark.empty() && state.matched == mark.size()) {
      state.inside = !state.inside;
      state.matched = 0;
    }
    trail_.push(state);
  }
  void rollback(int32_t tokens) override { trail_.take_back(tokens); }
  void forced(int32_t limit, std::vector<int32_t>* tokens) override {
    if (!spent()) return;
    for (int32_t i = trail_.newest().matched; i < marks_->end.size() && limit > 0; ++i, --limit) tokens->push_back(marks_->end[i]);
  }
  bool ended() const override { return false; }

 private:
  struct State {
    bool inside = false;
    int32_t used = 0;     // reasoning tokens, at most the budget
    int32_t matched = 0;  // of the sequence that ends, or opens, the reasoning
  };
  bool spent() const { return trail_.newest().inside && trail_.newest().used >= marks_->tokens; }

  const std::shared_ptr<const ReasoningBudget::Marks> marks_;
  StateTrail<State> trail_;
};

}  // namespace

ReasoningBudget::ReasoningBudget(Rules rules)
    : marks_(std::make_shared<const Marks>(
          Marks{rules.tokens, TokenSequence(std::move(rules.start)), TokenSequence(std::move(rules.end)), rules.inside})) {
  CHECK(!marks_->end.empty() && marks_->tokens >= 0, "a budget of reasoning needs the sequence that ends it");
}

std::unique_ptr<TokenConstraint> ReasoningBudget::start() const { return std::make_unique<Choice>(marks_); }

}  // namespace slipstream
