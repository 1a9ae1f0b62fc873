// The answers and the events of /v1/responses. The order of a stream: response.created, response.in_progress, the events of each
// output item, then one of response.completed, response.incomplete and response.failed, then [DONE].
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/api/answer_format.h"
#include "server/api/response_items.h"

namespace slipstream::api {

/// What a response says before any of its output is there.
struct ResponseHead {
  std::string id, model;
  int64_t created = 0;     // Unix seconds
  Json echo;               // ResponsesRequest::echo
  bool summary = false;
  std::map<std::string, NamespacedName> spaces;  // ResponsesTools::spaces
  int32_t top_logprobs = -1;
  std::shared_ptr<const Tokenizer> tokenizer;
  /// Called with the finished response and its output items, for the store; may be empty.
  std::function<void(const std::string& body, const std::vector<Json>& output)> finished;
};

class ResponsesFormat : public AnswerFormat {
 public:
  explicit ResponsesFormat(ResponseHead head);

  void collect(const ChoicePiece& piece) override;
  std::string whole(const std::vector<FinishedChoice>& choices, const Generation& generation) override;
  void begin(const Generation& generation, std::string* out) override;
  void piece(const ChoicePiece& piece, const Generation& generation, std::string* out) override;
  void end(const Generation& generation, std::string* out) override;
  void fail(const ApiError& error, const std::string& request_id, std::string* out) override;

 private:
  Json response(const char* status, const Generation* generation) const;
  /// The status that the finish reason means, once the items are complete.
  const char* finish(FinishReason reason);

  const ResponseHead head_;
  EventWriter events_;
  ResponseItems items_;
  FinishReason reason_ = FinishReason::kNone;
  Json error_;             // of a failed response
};

}  // namespace slipstream::api
