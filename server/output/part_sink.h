// What the parsers of one choice have read, on its way into parts: blanks between the parts of an answer are dropped here, calls
// get their numbers and ids. Knows no format.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/answer_parts.h"

namespace slipstream::output {

/// Special tokens inside a parser's text: the byte 0xff, which no UTF-8 holds, and the token's number.
inline constexpr char kMark = '\xff';

struct SinkOptions {
  std::vector<std::string> marks;           // the spelling of each special token that has a number
  bool show_marks = false;                  // marks that mean nothing where they stand appear as text
  bool calls = false;                       // calls are looked for, so blanks before one must wait
  bool single_call = false;                 // nothing counts after the first call
  std::function<std::string()> call_id;
};

class PartSink {
 public:
  explicit PartSink(SinkOptions options) : options_(std::move(options)) {}

  /// Where parts go until the next bind.
  void bind(std::vector<api::AnswerPart>* out) { out_ = out; }

  /// kReasoning or kContent: what plain() adds to.
  api::PartKind mode() const { return mode_; }
  /// A new stretch of text begins; blanks at the end of the one before are dropped.
  void begin(api::PartKind mode);
  /// Line ends that open the content are dropped from now on: it stands behind something else.
  void drop_leading_lines() { lead_ = Lead::kLines; }
  void plain(std::string_view text);

  /// Ends reasoning, too. `name` is whole.
  void start_call(std::string_view name);
  void arguments(std::string_view fragment);
  void end_call();
  int32_t calls() const { return calls_; }
  bool in_call() const { return in_call_; }
  /// Whether the open call has any arguments yet.
  bool has_arguments() const { return has_arguments_; }
  /// The one call that was allowed has ended.
  bool done() const { return done_; }
  /// The text has ended.
  void finish();

 private:
  enum class Lead : uint8_t { kExact, kLines, kBlanks };  // what is dropped in front of a stretch

  void add(api::PartKind kind, std::string_view text);

  const SinkOptions options_;
  std::vector<api::AnswerPart>* out_ = nullptr;
  api::PartKind mode_ = api::PartKind::kContent;
  Lead lead_ = Lead::kExact;
  std::string blanks_;  // at the end so far; dropped before a call and at the end of reasoning
  int32_t calls_ = 0;
  bool in_call_ = false, has_arguments_ = false, done_ = false;
};

}  // namespace slipstream::output
