// A choice's state in a grammar: the seam to the step (engine/sample/token_constraint.h).
#pragma once

#include <deque>
#include <memory>

#include "engine/grammar/grammar_masks.h"
#include "engine/sample/token_constraint.h"
#include "engine/text/tokenizer.h"

namespace slipstream::grammar {

/// Engine thread only.
class GrammarConstraint final : public TokenConstraint {
 public:
  GrammarConstraint(std::shared_ptr<GrammarMasks> masks, std::shared_ptr<const Tokenizer> tokenizer);

  bool narrow(std::span<uint32_t> mask) override;
  void accept(int32_t token) override;
  void rollback(int32_t tokens) override;
  void forced(int32_t limit, std::vector<int32_t>* tokens) override;
  /// After an end token, or when the output is complete and no text may follow.
  bool ended() const override;

 private:
  enum class Phase : uint8_t { kOpen, kEnded, kRefused };
  struct State {
    Reading reading;
    Phase phase = Phase::kOpen;
  };
  std::string forced_bytes(size_t most, Reading* behind);
  void drop_unused_frames();
  uint32_t copied(uint32_t frame, Frames& from, Frames& to, std::unordered_map<uint32_t, uint32_t>* known);

  const std::shared_ptr<GrammarMasks> masks_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  Stacks stacks_;
  State now_;
  std::deque<State> before_;  // newest last
  MaskCredit credit_;
};

class GrammarSpec final : public ConstraintSpec {
 public:
  GrammarSpec(std::shared_ptr<GrammarMasks> masks, std::shared_ptr<const Tokenizer> tokenizer)
      : masks_(std::move(masks)), tokenizer_(std::move(tokenizer)) {}
  std::unique_ptr<TokenConstraint> start() const override {
    return std::make_unique<GrammarConstraint>(masks_, tokenizer_);
  }

 private:
  const std::shared_ptr<GrammarMasks> masks_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace slipstream::grammar
