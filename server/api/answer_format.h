// How an endpoint spells an answer, whole or as server-sent events: the seam between a generation's course and the JSON of its
// endpoint. Knows no socket and no engine.
#pragma once

#include <string>
#include <vector>

#include "server/api/generation.h"

namespace slipstream::api {

/// One object per call; the handler's thread only. `generation` gives usage and prompts.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  /// Each piece of what will be a whole answer, in the order in which they came: for formats whose answers keep that order.
  virtual void collect(const ChoicePiece&) {}
  /// The body of a whole answer.
  virtual std::string whole(const std::vector<FinishedChoice>& choices, const Generation& generation) = 0;

  // ---- a stream: each appends whole events to `out` ----
  /// Before anything has come; also a point to say that the request was taken.
  virtual void begin(const Generation& generation, std::string* out) = 0;
  virtual void piece(const ChoicePiece& piece, const Generation& generation, std::string* out) = 0;
  /// After the last piece of every choice.
  virtual void end(const Generation& generation, std::string* out) = 0;
  /// In place of what was still to come. The stream ends here.
  virtual void fail(const ApiError& error, const std::string& request_id, std::string* out) = 0;

  /// What a stream says while there is nothing to say. A comment is nothing to every reader of events.
  virtual void keep_alive(std::string* out) { *out += ": keep-alive\n\n"; }

  /// An error in place of a whole answer, in the endpoint's shape.
  virtual HttpResponse refusal(const ApiError& error, const std::string& request_id) {
    return error_response(error, request_id);
  }
};

/// "data: …" and an empty line.
void append_data_event(std::string* out, std::string_view json);
/// "event: name", "data: …" and an empty line.
void append_named_event(std::string* out, std::string_view name, std::string_view json);

}  // namespace slipstream::api
