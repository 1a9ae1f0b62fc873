// What one choice may say next, beyond what its sampling parameters say: a grammar, a list of allowed tokens, forbidden
// words, a budget of reasoning. The seam between those and the step: knows token ids, no text and no request.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace slipstream {

/// The state of one choice. Engine thread only. Tokens are accepted in the order of the text; a verify step accepts the
/// drafts one after another to get each row's mask and takes them back with rollback.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  /// Clears the bits of tokens that may not come next. `mask` [ceil(vocab / 32)] comes with bits set by the caller and by
  /// constraints before this one: bits are only ever cleared. False when this one clears none.
  virtual bool narrow(std::span<uint32_t> mask) = 0;
  /// The next token. One that narrow() refuses puts the constraint into a state in which nothing may follow.
  virtual void accept(int32_t token) = 0;
  /// Takes the newest `tokens` accepted tokens back; at least 32 can be taken back at any time.
  virtual void rollback(int32_t tokens) = 0;
  /// Appends the tokens that are certain to come next, at most `limit`: drafts that cost nothing. May append none.
  virtual void forced(int32_t limit, std::vector<int32_t>* tokens) = 0;
  /// Nothing may follow, not even an end token: the choice is over, with finish reason "stop".
  virtual bool ended() const = 0;
};

/// Makes the state of each choice. Const and shared between threads; made on the request's HTTP thread.
class ConstraintSpec {
 public:
  virtual ~ConstraintSpec() = default;
  /// At the first output token. Called on the engine thread: must not take long.
  virtual std::unique_ptr<TokenConstraint> start() const = 0;
};

}  // namespace slipstream
