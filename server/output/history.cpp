// See history.h.
#include "server/output/history.h"

#include <algorithm>
#include <cctype>
#include <string>

#include <nlohmann/json.hpp>

namespace slipstream::output {
namespace {

using Json = nlohmann::ordered_json;

bool has_text(const Json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() && !found->get_ref<const std::string&>().empty();
}

/// Nine characters of a hash; ids that have the form already stay.
std::string nine_characters(const std::string& id) {
  if (id.size() == 9 && std::all_of(id.begin(), id.end(), [](unsigned char c) { return c < 128 && std::isalnum(c); })) return id;
  uint64_t hash = 14695981039346656037ull;  // FNV-1a
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string out;
  for (int i = 0; i < 9; ++i, hash /= 36) out.push_back(kDigits[hash % 36]);
  return out;
}

void adapt_ids(Json* message) {
  if (has_text(*message, "tool_call_id")) (*message)["tool_call_id"] = nine_characters((*message)["tool_call_id"]);
  const auto calls = message->find("tool_calls");
  if (calls == message->end()) return;
  for (Json& call : *calls)
    if (has_text(call, "id")) call["id"] = nine_characters(call["id"]);
}

void adapt_mistral(const OutputFormat& format, Json* message) {
  adapt_ids(message);
  if (format.think != ThinkFormat::kMistral || !has_text(*message, "reasoning_content")) return;
  Json blocks = Json::array({{{"type", "thinking"}, {"thinking", (*message)["reasoning_content"]}}});
  if (has_text(*message, "content")) blocks.push_back({{"type", "text"}, {"text", (*message)["content"]}});
  (*message)["content"] = std::move(blocks);
}

/// The template takes either content or thoughts beside a call.
void adapt_harmony(Json* message) {
  if (!has_text(*message, "reasoning_content") || (message->contains("tool_calls") && has_text(*message, "content"))) return;
  (*message)["thinking"] = (*message)["reasoning_content"];
}

}  // namespace

void adapt_history(const OutputFormat& format, Json* messages) {
  for (Json& message : *messages) {
    if (format.calls == CallFormat::kMistral || format.think == ThinkFormat::kMistral) adapt_mistral(format, &message);
    if (format.think == ThinkFormat::kHarmony && message["role"] == "assistant") adapt_harmony(&message);
  }
}

}  // namespace slipstream::output
