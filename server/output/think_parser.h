// The output parser of the families that write their thoughts between two tags, and calls by some CallReader. Owns where thinking
// begins and ends; knows no format of calls.
#pragma once

#include "server/output/call_reader.h"

namespace slipstream::output {

struct ThinkTags {
  std::string open, close;  // both "": the model does not think
  bool marks = false;       // they are special tokens: they mean what they say wherever they stand
};

class ThinkParser final : public api::OutputParser {
 public:
  /// `calls` may be null: no calls are looked for. `inside`: the prompt has opened the thoughts.
  ThinkParser(ThinkTags tags, bool inside, std::unique_ptr<PartSink> sink, std::unique_ptr<CallReader> calls,
              std::vector<std::string> marks, bool show_special);

  void push(std::string_view text, bool control, std::vector<api::AnswerPart>* out) override;
  void finish(std::vector<api::AnswerPart>* out) override;
  bool reasoning() const override { return state_ == State::kInside; }
  bool done() const override { return sink_->done(); }

 private:
  enum class State : uint8_t {
    kBefore,   // only blanks so far: thinking may begin
    kInside,
    kContent,
  };

  void run(bool last);
  bool before(std::string_view rest, bool last);
  bool inside(std::string_view rest, bool last);
  bool content(std::string_view rest, bool last);
  void forward(std::string_view text);
  /// Into the other mode; what the reader still holds belongs to the one before.
  void enter(State state);

  const ThinkTags tags_;
  const std::vector<std::string> marks_;
  const bool show_special_;
  std::unique_ptr<PartSink> sink_;
  std::unique_ptr<CallReader> calls_;
  State state_;
  std::string held_;
  size_t at_ = 0;
  bool fresh_ = true;  // nothing but blanks since thinking began
};

/// `text` of a push as the parsers hold it: a special token that has a number becomes its mark, another one is dropped unless
/// special tokens are shown.
void append_marked(std::string* out, std::string_view text, bool control, const std::vector<std::string>& marks, bool show_special);

}  // namespace slipstream::output
