// One generation call in flight: its engine requests (one per prompt) and the text of every choice. Turns engine events
// into pieces of text with their log-probabilities; knows no JSON and no socket. Used by one handler thread.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/request/request.h"
#include "engine/text/detokenizer.h"
#include "server/api/answer_parts.h"
#include "server/api/request_schema.h"
#include "server/api/response_writer.h"
#include "server/services.h"

namespace slipstream::api {

/// One output token with its log-probabilities.
struct TokenEntry {
  int32_t id = 0;
  TokenLogprob logprob;      // as the engine gave it; unused when none were asked for
  bool unscored = false;     // a prompt's first token: it has no log-probability
  int64_t text_offset = 0;   // bytes of the choice's text before this token …
  int64_t char_offset = 0;   // … and code points
};

/// What one choice gained since the last piece.
struct ChoicePiece {
  int32_t index = 0;             // prompt * n + choice
  std::vector<AnswerPart> parts;
  std::vector<TokenEntry> tokens;
  FinishReason finish = FinishReason::kNone;
  bool called = false;           // the choice has made a call, in this piece or before
  std::string stop_string;       // that ended it
  int32_t stop_token = -1;       // that ended it, when it was one of stop_token_ids
  int32_t completion_tokens = 0; // so far
};

struct Usage {
  int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  int64_t accepted_draft_tokens = 0, rejected_draft_tokens = 0;
  int64_t reasoning_tokens = 0;  // of the completion tokens: between the tags of thinking, these included
};

/// A choice as a whole answer shows it: all its pieces together.
struct FinishedChoice {
  struct Call {
    std::string id, name, arguments;
  };
  std::string reasoning, content;
  std::vector<Call> calls;
  std::vector<TokenEntry> tokens;
  FinishReason finish = FinishReason::kNone;
  std::string stop_string;
  int32_t stop_token = -1;

  void take(ChoicePiece piece);
};

/// Seconds of one finished call as the client saw it, for the histograms and the access line.
struct CallTimes {
  double first_token_s = -1, total_s = 0;
  std::vector<double> gaps_s;    // between steps that brought text, bounded
};

/// A request ran into its deadline.
ApiError deadline_error();
/// How an error event of the engine looks from outside.
ApiError engine_error(const OutputEvent& event);

class Generation {
 public:
  /// Checks lengths against the context, draws a seed where none was given and submits. Nothing is running when an
  /// error comes back.
  static std::variant<std::unique_ptr<Generation>, ApiError> submit(const Services& services,
                                                                    const GenerationRequest& call,
                                                                    std::vector<std::vector<int32_t>> prompts,
                                                                    const std::string& id);
  /// Cancels what still runs.
  ~Generation();

  /// Waits up to `timeout` and appends what came. False when every choice has ended or the call failed.
  bool next(std::chrono::milliseconds timeout, std::vector<ChoicePiece>* out);
  /// Any thread: the engine frees the blocks within two steps, next() ends soon.
  void cancel();

  bool failed() const { return error_.has_value(); }
  const ApiError& error() const { return *error_; }
  Usage usage() const;
  int32_t choices() const { return static_cast<int32_t>(texts_.size()); }
  const std::vector<int32_t>& prompt(int32_t index) const { return running_[index]->prompt; }
  uint64_t seed() const { return seed_; }
  const CallTimes& times() const { return times_; }
  int32_t longest_choice() const;

 private:
  /// What one token has spelled, on its way past the stop strings to the parser.
  struct Spelling {
    std::string text;
    int64_t begin = 0;     // where it stands in the choice's text; a hidden special token stands there without being part of it
    bool control = false;  // it is a special token
    bool hidden = false;
    bool whole = true;     // the last of its token
  };

  /// The text side of one choice.
  struct ChoiceText {
    Detokenizer detokenizer;
    StopStrings stops;
    std::unique_ptr<OutputParser> parser{};  // null: all text is content
    std::vector<TokenEntry> waiting{};   // tokens whose text is held back
    std::deque<Spelling> spellings{};    // not yet past the stop strings; only for a parser
    int64_t raw_bytes = 0, raw_chars = 0;  // text that the tokens so far spell
    int64_t published_bytes = 0;
    int32_t completion_tokens = 0;
    int32_t reasoning_tokens = 0;
    bool called = false;               // a tool
    bool done = false;
  };

  Generation() = default;
  void absorb(size_t request, OutputEvent event, std::vector<ChoicePiece>* out);
  void finish_choice(size_t index, size_t request);
  /// Detokenises one token; the text that is complete with it.
  std::string spell(ChoiceText& text, int32_t id);
  /// Newly published text, through the parser, into parts. `ended`: nothing follows.
  void give_parts(ChoiceText& text, std::string published, bool ended, ChoicePiece* piece);
  void release_tokens(ChoiceText& text, bool all, ChoicePiece* piece);

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<int32_t> stop_token_ids_;
  std::vector<std::string> stop_strings_;
  bool include_stop_ = false;
  bool no_output_ = false;             // max_tokens 0: every choice ends at once
  int32_t n_ = 1;
  uint64_t seed_ = 0;
  std::vector<std::shared_ptr<Request>> running_;
  std::vector<bool> cached_known_;
  std::vector<ChoiceText> texts_;
  size_t open_ = 0;                    // choices that have not ended
  std::optional<ApiError> error_;
  Usage usage_;
  CallTimes times_;
  std::chrono::steady_clock::time_point start_{}, last_{};
};

}  // namespace slipstream::api
