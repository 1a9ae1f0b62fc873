// See response_items.h.
#include "server/api/response_items.h"

#include <algorithm>

#include "server/api/ids.h"
#include "server/json_text.h"

namespace slipstream::api {
namespace {

constexpr float kLowestLogprob = -9999.0f;  // JSON has no infinity

Json token_json(const Tokenizer& tokenizer, int32_t id, float logprob) {
  const std::string_view bytes = tokenizer.token_bytes(id);
  std::string number;
  json_text::append_float(number, std::max(logprob, kLowestLogprob));
  Json out = {{"token", json_text::replace_invalid_utf8(bytes)}, {"logprob", Json::parse(number, nullptr, false)}};
  out["bytes"] = Json::array();
  for (const char c : bytes) out["bytes"].push_back(static_cast<unsigned char>(c));
  return out;
}

}  // namespace

void ResponseItems::add(const std::vector<AnswerPart>& parts, const std::vector<TokenEntry>& tokens, EventWriter* events) {
  if (top_logprobs_ >= 0) {
    waiting_.insert(waiting_.end(), tokens.begin(), tokens.end());
    const auto is_content = [](const AnswerPart& part) { return part.kind == PartKind::kContent; };
    if (!parts.empty() && std::none_of(parts.begin(), parts.end(), is_content)) waiting_.clear();  // of thoughts and calls
  }
  for (const AnswerPart& part : parts) {
    switch (part.kind) {
      case PartKind::kReasoning:
        if (open_ != Open::kReasoning) open(Open::kReasoning, nullptr, events);
        break;
      case PartKind::kContent:
        if (open_ != Open::kMessage) open(Open::kMessage, nullptr, events);
        break;
      case PartKind::kCallStart: open(Open::kCall, &part, events); continue;
      case PartKind::kCallArguments: break;
    }
    extend(part.text, events);
  }
}

void ResponseItems::finish(bool cut, EventWriter* events) {
  if (open_ == Open::kNone && done_.empty()) open(Open::kMessage, nullptr, events);
  close(cut ? "incomplete" : "completed", events);
}

std::string ResponseItems::place() const {
  std::string out = "\"item_id\":\"" + id_ + "\",\"output_index\":";
  json_text::append_int(out, static_cast<int64_t>(done_.size()));
  if (open_ != Open::kCall) out += open_ == Open::kReasoning && summary_ ? ",\"summary_index\":0" : ",\"content_index\":0";
  return out;
}

Json ResponseItems::placed(const char* type) const {
  Json out = {{"type", type}, {"item_id", id_}, {"output_index", done_.size()}};
  if (open_ != Open::kCall) out[open_ == Open::kReasoning && summary_ ? "summary_index" : "content_index"] = 0;
  return out;
}

Json ResponseItems::part() const {
  if (open_ == Open::kReasoning) return {{"type", summary_ ? "summary_text" : "reasoning_text"}, {"text", text_}};
  return {{"type", "output_text"}, {"text", text_}, {"annotations", Json::array()}, {"logprobs", logprobs_}};
}

Json ResponseItems::item(const char* status) const {
  const bool begun = std::string_view(status) == "in_progress";
  switch (open_) {
    case Open::kReasoning: {
      Json out = {{"id", id_}, {"type", "reasoning"}, {"status", status}};
      out["summary"] = Json::array();
      out["content"] = Json::array();
      if (!begun) out[summary_ ? "summary" : "content"].push_back(part());
      return out;
    }
    case Open::kCall: {
      Json out = {{"id", id_}, {"type", "function_call"}, {"status", status}, {"call_id", call_id_}, {"name", name_}, {"arguments", text_}};
      if (!space_.empty()) out["namespace"] = space_;
      return out;
    }
    default: {
      Json out = {{"id", id_}, {"type", "message"}, {"status", status}, {"role", "assistant"}};
      out["content"] = Json::array();
      if (!begun) out["content"].push_back(part());
      return out;
    }
  }
}

Json ResponseItems::take_logprobs() {
  Json out = Json::array();
  for (const TokenEntry& token : waiting_) {
    Json entry = token_json(*tokenizer_, token.id, token.logprob.logprob);
    entry["top_logprobs"] = Json::array();
    for (size_t i = 0; i < token.logprob.top.size() && i < static_cast<size_t>(top_logprobs_); ++i)
      entry["top_logprobs"].push_back(token_json(*tokenizer_, token.logprob.top[i].first, token.logprob.top[i].second));
    out.push_back(std::move(entry));
  }
  waiting_.clear();
  for (const Json& entry : out) logprobs_.push_back(entry);
  return out;
}

void ResponseItems::open(Open kind, const AnswerPart* call, EventWriter* events) {
  close("completed", events);
  open_ = kind;
  id_ = random_id(kind == Open::kReasoning ? "rs_" : kind == Open::kMessage ? "msg_" : "fc_");
  text_.clear();
  logprobs_ = Json::array();
  if (call) {
    call_id_ = call->call_id;
    const auto spaced = spaces_.find(call->text);
    name_ = spaced == spaces_.end() ? call->text : spaced->second.name;
    space_ = spaced == spaces_.end() ? "" : spaced->second.space;
  }
  if (!events->writes()) return;
  events->write({{"type", "response.output_item.added"}, {"output_index", done_.size()}, {"item", item("in_progress")}});
  if (kind == Open::kCall) return;
  const bool as_summary = kind == Open::kReasoning && summary_;
  Json event = placed(as_summary ? "response.reasoning_summary_part.added" : "response.content_part.added");
  event["part"] = part();
  events->write(std::move(event));
}

void ResponseItems::extend(const std::string& text, EventWriter* events) {
  text_ += text;
  const Json logprobs = open_ == Open::kMessage ? take_logprobs() : Json();
  if (!events->writes()) return;
  std::string members = place() + ",\"delta\":";
  json_text::append_string(members, text);
  const char* type = "response.function_call_arguments.delta";
  if (open_ == Open::kReasoning) type = summary_ ? "response.reasoning_summary_text.delta" : "response.reasoning_text.delta";
  if (open_ == Open::kMessage) {
    type = "response.output_text.delta";
    members += ",\"logprobs\":" + dump(logprobs);
  }
  events->write_members(type, members);
}

void ResponseItems::close(const char* status, EventWriter* events) {
  if (open_ == Open::kNone) return;
  // tokens that spell none of the text came with no delta: the whole text's list has them
  if (open_ == Open::kMessage) take_logprobs();
  if (events->writes()) {
    const bool as_summary = open_ == Open::kReasoning && summary_;
    const char* type = open_ == Open::kMessage ? "response.output_text.done"
                       : open_ == Open::kCall  ? "response.function_call_arguments.done"
                       : as_summary            ? "response.reasoning_summary_text.done"
                                               : "response.reasoning_text.done";
    Json event = placed(type);
    if (open_ == Open::kCall) event["name"] = name_;
    event[open_ == Open::kCall ? "arguments" : "text"] = text_;
    if (open_ == Open::kMessage) event["logprobs"] = logprobs_;
    events->write(std::move(event));
    if (open_ != Open::kCall) {
      Json part_done = placed(as_summary ? "response.reasoning_summary_part.done" : "response.content_part.done");
      part_done["part"] = part();
      events->write(std::move(part_done));
    }
    events->write({{"type", "response.output_item.done"}, {"output_index", done_.size()}, {"item", item(status)}});
  }
  done_.push_back(item(status));
  open_ = Open::kNone;
}

}  // namespace slipstream::api
