// The content of a message of /v1/messages as blocks (thinking, text, tool_use), grown by the parts of an answer; says each step as
// an event. Knows no socket and nothing of the message around its content.
#pragma once

#include <string>
#include <vector>

#include "server/api/generation.h"

namespace slipstream::api {

class MessageBlocks {
 public:
  explicit MessageBlocks(bool omit_thinking) : omit_thinking_(omit_thinking) {}

  /// Appends events to `out` unless it is null.
  void add(const std::vector<AnswerPart>& parts, std::string* out);
  /// The content ends here. An answer without any block gets an empty text.
  void finish(std::string* out);

  const std::vector<Json>& blocks() const { return done_; }
  bool has_calls() const { return calls_; }

 private:
  enum class Open : uint8_t { kNone, kThinking, kText, kTool };

  void open(Open kind, const AnswerPart* call, std::string* out);
  void extend(const std::string& text, std::string* out);
  void close(std::string* out);
  /// The open block, with its text so far or as a stream begins it.
  Json block(bool begun) const;

  const bool omit_thinking_;
  std::vector<Json> done_;
  Open open_ = Open::kNone;
  std::string text_, id_, name_;
  bool calls_ = false;
};

/// The object that a call's arguments spell. Arguments that were cut give what was complete of them: an empty object at least.
Json arguments_object(const std::string& text);

}  // namespace slipstream::api
