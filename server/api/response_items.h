// The output of a response as items (reasoning, message, function_call), grown by the parts of an answer; says each step as an
// event. Knows no socket and nothing of the response around its output.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/api/api_tools.h"
#include "server/api/event_writer.h"
#include "server/api/generation.h"

namespace slipstream::api {

class ResponseItems {
 public:
  /// `summary`: reasoning is given as the item's summary. `top_logprobs` -1: no log-probabilities.
  /// `spaces`: the functions that the client keeps in namespaces, by their names at the model.
  ResponseItems(std::shared_ptr<const Tokenizer> tokenizer, bool summary, int32_t top_logprobs,
                std::map<std::string, NamespacedName> spaces)
      : tokenizer_(std::move(tokenizer)), summary_(summary), top_logprobs_(top_logprobs), spaces_(std::move(spaces)) {}

  void add(const std::vector<AnswerPart>& parts, const std::vector<TokenEntry>& tokens, EventWriter* events);
  /// The output ends here; its last item is incomplete when `cut`. An answer without any item gets an empty message.
  void finish(bool cut, EventWriter* events);

  /// The items so far, in order.
  const std::vector<Json>& items() const { return done_; }

 private:
  enum class Open : uint8_t { kNone, kReasoning, kMessage, kCall };

  void open(Open kind, const AnswerPart* call, EventWriter* events);
  void close(const char* status, EventWriter* events);
  void extend(const std::string& text, EventWriter* events);
  /// Where in the answer a delta belongs: item_id, output_index and the index of the part.
  std::string place() const;
  Json placed(const char* type) const;
  Json item(const char* status) const;
  Json part() const;
  /// The log-probabilities that came since the last call.
  Json take_logprobs();

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const bool summary_;
  const int32_t top_logprobs_;
  const std::map<std::string, NamespacedName> spaces_;
  std::vector<Json> done_;
  Open open_ = Open::kNone;
  std::string id_, text_;            // of the open item; a call's text is its arguments
  std::string call_id_, name_, space_;
  std::vector<TokenEntry> waiting_;  // tokens whose log-probabilities no event has shown
  Json logprobs_ = Json::array();    // of the open message
};

}  // namespace slipstream::api
