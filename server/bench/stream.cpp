#include "server/bench/stream.h"

#include <nlohmann/json.hpp>

namespace slipstream::bench {
namespace {

using nlohmann::json;

constexpr size_t kErrorBytes = 300;

/// A string member, or "" where it is absent, null or something else.
std::string text_of(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

int64_t integer_of(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_integer() ? it->get<int64_t>() : -1;
}

}  // namespace

void AnswerStream::add(std::string_view bytes, double now_ms) {
  pending_ += bytes;
  size_t begin = 0;
  for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::string_view line(pending_.data() + begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with("data:")) continue;
    line.remove_prefix(5);
    while (line.starts_with(' ')) line.remove_prefix(1);
    event(line, now_ms);
  }
  pending_.erase(0, begin);
}

void AnswerStream::event(std::string_view data, double now_ms) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const json object = json::parse(data, nullptr, false);
  if (!object.is_object()) {
    error_ = "an event is no JSON object";
    return;
  }
  if (const auto it = object.find("error"); it != object.end() && !it->is_null()) {
    error_ = "stream error: " + it->dump(-1, ' ', false, json::error_handler_t::replace).substr(0, kErrorBytes);
    return;
  }
  if (const auto usage = object.find("usage"); usage != object.end() && usage->is_object()) {
    completion_tokens_ = integer_of(*usage, "completion_tokens");
    prompt_tokens_ = integer_of(*usage, "prompt_tokens");
  }
  const auto choices = object.find("choices");
  if (choices == object.end() || !choices->is_array()) return;
  for (const json& choice : *choices) {
    if (!choice.is_object()) continue;
    std::string text;
    if (!chat_) {
      text = text_of(choice, "text");
    } else if (const auto delta = choice.find("delta"); delta != choice.end() && delta->is_object()) {
      text = text_of(*delta, "content") + text_of(*delta, "reasoning_content");
    }
    if (!text.empty()) stamps_ms_.push_back(now_ms);
    if (const std::string reason = text_of(choice, "finish_reason"); !reason.empty()) finish_reason_ = reason;
  }
}

Result<Sample> AnswerStream::finish(double now_ms) const {
  if (!error_.empty()) return io_error(error_);
  if (!done_) return io_error("the stream ended without [DONE]");
  if (stamps_ms_.empty()) return io_error("no text was streamed (finish_reason " + finish_reason_ + ")");
  Sample sample;
  sample.ttft_ms = stamps_ms_.front();
  sample.e2e_ms = now_ms;
  sample.pieces = static_cast<int64_t>(stamps_ms_.size());
  for (size_t i = 1; i < stamps_ms_.size(); ++i) sample.gaps_ms.push_back(stamps_ms_[i] - stamps_ms_[i - 1]);
  sample.tokens_from_usage = completion_tokens_ >= 0;
  sample.output_tokens = sample.tokens_from_usage ? completion_tokens_ : sample.pieces;
  sample.prompt_tokens = prompt_tokens_ >= 0 ? prompt_tokens_ : 0;
  sample.finish_reason = finish_reason_;
  return sample;
}

std::string request_body(const std::string& model, bool chat, const std::string& prompt, int max_tokens,
                         double temperature, bool ignore_eos) {
  json body = {{"model", model},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}},
               {"max_tokens", max_tokens},
               {"temperature", temperature}};
  if (ignore_eos) body["ignore_eos"] = true;
  if (chat) {
    body["messages"] = json::array({{{"role", "user"}, {"content", prompt}}});
  } else {
    body["prompt"] = prompt;
  }
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::string> first_model(const std::string& body) {
  const json object = json::parse(body, nullptr, false);
  if (object.is_object() && object.contains("data") && object["data"].is_array() && !object["data"].empty()) {
    const std::string id = object["data"][0].is_object() ? text_of(object["data"][0], "id") : "";
    if (!id.empty()) return id;
  }
  return io_error("/v1/models names no model; give one with --model");
}

double synthetic_length_of(const std::string& body) {
  const json object = json::parse(body, nullptr, false);
  const json::json_pointer at("/speculation/synthetic_acceptance/length");
  return object.is_object() && object.contains(at) && object[at].is_number() ? object[at].get<double>() : 0;
}

std::string error_text(const std::string& body) {
  const json object = json::parse(body, nullptr, false);
  if (object.is_object() && object.contains("error") && object["error"].is_object()) {
    if (const std::string message = text_of(object["error"], "message"); !message.empty()) {
      return message.substr(0, kErrorBytes);
    }
  }
  return json(body.substr(0, kErrorBytes)).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace slipstream::bench
