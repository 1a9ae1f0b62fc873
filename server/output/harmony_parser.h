// The output parser of gpt-oss: an answer is a row of messages, each with a header that names its channel and, for a call, its
// recipient (the harmony format, github.com/openai/harmony). Knows no other family.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/output/part_sink.h"

namespace slipstream::output {

/// analysis is reasoning; final, and commentary to nobody, are content; a message to functions.NAME is a call.
class HarmonyParser final : public api::OutputParser {
 public:
  /// `split`: analysis is apart from the content. `prompt_tail`: the end of the prompt from its last <|start|> on; the answer
  /// goes on from there.
  HarmonyParser(std::unique_ptr<PartSink> sink, std::vector<std::string> marks, bool calls, bool split, bool show_special,
                std::string_view prompt_tail);

  void push(std::string_view text, bool control, std::vector<api::AnswerPart>* out) override;
  void finish(std::vector<api::AnswerPart>* out) override;
  bool reasoning() const override { return state_ == State::kReasoning; }
  bool done() const override { return sink_->done(); }

 private:
  enum class State : uint8_t {
    kBetween,   // behind a message
    kHeader,
    kReasoning,
    kContent,
    kCall,
  };

  void run(bool last);
  bool between(std::string_view rest, bool last);
  bool header(std::string_view rest, bool last);
  bool body(std::string_view rest, bool last);
  /// What was taken for a header is text.
  void give_header();
  void begin_body();
  void end_body();
  void give(std::string_view text);

  std::string start_, channel_, message_, constrain_, end_, call_, return_;  // the tags, or their marks
  const std::vector<std::string> marks_;
  const bool calls_, split_, show_special_;
  std::unique_ptr<PartSink> sink_;
  State state_ = State::kBetween;
  std::string header_;
  std::string held_;
  size_t at_ = 0;
  bool wrote_ = false;  // arguments of the open call
};

}  // namespace slipstream::output
