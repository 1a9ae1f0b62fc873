// An answer divided as the model's output format divides it: reasoning, content, tool calls. The seam between the parsers of
// model families and the endpoints' formats: knows no JSON of an endpoint and no token.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream::api {

enum class PartKind : uint8_t {
  kReasoning,      // text: of the thinking
  kContent,        // text: for the reader
  kCallStart,      // text: the function's name, whole; call_id: made by us
  kCallArguments,  // text: a fragment of the arguments' JSON text; together one object, or what the model wrote of it
};

/// Parts come in the order of the text. Fragments of one kind follow each other freely; a call's fragments follow its start.
struct AnswerPart {
  PartKind kind = PartKind::kContent;
  std::string text;
  int32_t call = -1;    // of the two call kinds: 0, 1, … within the choice
  std::string call_id;  // kCallStart only
};

/// The text of one choice on its way into parts. Any split of the same text gives the same parts once fragments of one kind
/// (and call) are joined. Never fails: text that is no valid call stays content. Handler thread only.
class OutputParser {
 public:
  virtual ~OutputParser() = default;
  /// `control`: `text` is the spelling of one special token.
  virtual void push(std::string_view text, bool control, std::vector<AnswerPart>* out) = 0;
  /// The text ends here, whatever is still held back.
  virtual void finish(std::vector<AnswerPart>* out) = 0;
  /// What comes next, as far as the text so far tells, is part of the thinking.
  virtual bool reasoning() const { return false; }
  /// Nothing that follows counts: the one call that was allowed has ended.
  virtual bool done() const { return false; }
};

}  // namespace slipstream::api
