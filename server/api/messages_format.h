// The answers and the events of /v1/messages. The order of a stream: message_start, ping, for each content block its start, deltas
// and stop, then message_delta and message_stop.
#pragma once

#include <string>

#include "server/api/answer_format.h"
#include "server/api/message_blocks.h"

namespace slipstream::api {

struct MessageHead {
  std::string id, model;
  bool omit_thinking = false;
  bool context_bounds = false;  // the context, not max_tokens, is what ends a long answer
};

class MessagesFormat : public AnswerFormat {
 public:
  explicit MessagesFormat(MessageHead head);

  void collect(const ChoicePiece& piece) override;
  std::string whole(const std::vector<FinishedChoice>& choices, const Generation& generation) override;
  void begin(const Generation& generation, std::string* out) override;
  void piece(const ChoicePiece& piece, const Generation& generation, std::string* out) override;
  void end(const Generation& generation, std::string* out) override;
  void fail(const ApiError& error, const std::string& request_id, std::string* out) override;
  void keep_alive(std::string* out) override;
  HttpResponse refusal(const ApiError& error, const std::string& request_id) override;

 private:
  const char* stop_reason(FinishReason finish, const std::string& stop_string) const;

  const MessageHead head_;
  MessageBlocks blocks_;
  FinishReason finish_ = FinishReason::kNone;
  std::string stop_string_;
};

}  // namespace slipstream::api
