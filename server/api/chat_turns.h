// A conversation in the shape of chat messages, grown piece by piece: what the histories of /v1/responses and /v1/messages have
// in common. Knows neither API and no template.
#pragma once

#include <map>
#include <string>

#include "server/api/request_schema.h"

namespace slipstream::api {

/// What an assistant says in one turn becomes one message: reasoning, then text, then calls.
class ChatTurns {
 public:
  /// System texts before the first turn are one message: many templates allow only one, and only there.
  void system(const std::string& text);
  /// `join`: a user text right behind another continues it.
  void user(const std::string& text, bool join);
  void reasoning(const std::string& text);
  void assistant(const std::string& text);
  /// `arguments`: an object, or JSON text.
  void call(const std::string& id, const std::string& name, Json arguments);
  void result(const std::string& call_id, const std::string& text);
  /// What the assistant says next is a message of its own.
  void end_turn() { open_ = false; }

  const Json& messages() const { return messages_; }

 private:
  /// The assistant's message that a piece goes into; a new one unless the last one can still hold it.
  Json& turn(bool fits);

  Json messages_ = Json::array();
  std::map<std::string, std::string> names_;  // call id -> function
  bool open_ = false;                         // the last message is an assistant's that may grow
};

}  // namespace slipstream::api
