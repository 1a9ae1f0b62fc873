#include "engine/sample/after_reasoning.h"

#include "engine/sample/state_trail.h"
#include "kernels/check.h"

namespace slipstream {
namespace {

using Begin = AfterReasoning::Begin;

class Choice final : public TokenConstraint {
 public:
  Choice(std::shared_ptr<const AfterReasoning::Marks> marks, std::unique_ptr<TokenConstraint> inner)
      : marks_(std::move(marks)), inner_(std::move(inner)), trail_({marks_->begin, 0, 0}) {}

  bool narrow(std::span<uint32_t> mask) override {
    const State& state = trail_.newest();
    if (state.place == Begin::kInside) return false;
    if (state.place == Begin::kOutside) return inner_->narrow(mask);
    const auto word = static_cast<size_t>(marks_->opening) / 32;
    const uint32_t opening = word < mask.size() ? mask[word] & (uint32_t{1} << (static_cast<uint32_t>(marks_->opening) % 32)) : 0;
    const bool narrowed = inner_->narrow(mask);
    if (opening != 0) mask[word] |= opening;
    return narrowed;
  }
  void accept(int32_t token) override {
    State state = trail_.newest();
    if (state.place == Begin::kInside) {
      state.matched = marks_->end.after(state.matched, token);
      if (state.matched == marks_->end.size()) state = {Begin::kOutside, 0, state.accepted};
    } else if (state.place == Begin::kMayOpen && token == marks_->opening) {
      state.place = Begin::kInside;
    } else {
      state.place = Begin::kOutside;
      ++state.accepted;
      inner_->accept(token);
    }
    trail_.push(state);
  }
  void rollback(int32_t tokens) override {
    const int32_t accepted = trail_.newest().accepted;
    trail_.take_back(tokens);
    if (const int32_t more = accepted - trail_.newest().accepted; more > 0) inner_->rollback(more);
  }
  void forced(int32_t limit, std::vector<int32_t>* tokens) override {
    if (trail_.newest().place == Begin::kOutside) inner_->forced(limit, tokens);
  }
  bool ended() const override { return trail_.newest().place == Begin::kOutside && inner_->ended(); }

 private:
  struct State {
    Begin place = Begin::kOutside;
    int32_t matched = 0;   // of the sequence that ends the reasoning
    int32_t accepted = 0;  // tokens that the inner constraint has seen
  };
  const std::shared_ptr<const AfterReasoning::Marks> marks_;
  const std::unique_ptr<TokenConstraint> inner_;
  StateTrail<State> trail_;
};

}  // namespace

AfterReasoning::AfterReasoning(std::shared_ptr<const ConstraintSpec> inner, Rules rules)
    : inner_(std::move(inner)),
      marks_(std::make_shared<const Marks>(Marks{rules.begin, rules.opening, TokenSequence(std::move(rules.end))})) {
  CHECK(inner_ != nullptr, "a constraint behind the reasoning");
  CHECK(marks_->begin == Begin::kOutside || !marks_->end.empty(), "the sequence that ends the reasoning");
  CHECK(marks_->begin != Begin::kMayOpen || marks_->opening >= 0, "the token that opens the reasoning");
}

std::unique_ptr<TokenConstraint> AfterReasoning::start() const { return std::make_unique<Choice>(marks_, inner_->start()); }

}  // namespace slipstream
