// The input items of /v1/responses as chat messages; see read_items in responses_request.h.
#include "config/limits.h"
#include "server/api/chat_turns.h"
#include "server/api/ids.h"
#include "server/api/responses_request.h"
#include "server/api/text_parts.h"

namespace slipstream::api {
namespace {

constexpr std::string_view kServed = "message, function_call, function_call_output, reasoning or item_reference";

/// The item as a list of items answers it: its own id or a new one.
Json kept_item(const Json& item, const char* type, const char* prefix) {
  Json out = {{"type", type}};
  const auto id = item.find("id");
  out["id"] = id != item.end() && id->is_string() ? id->get<std::string>() : random_id(prefix);
  for (const auto& [name, value] : item.items())
    if (name != "type" && name != "id") out[name] = value;
  if (!out.contains("status")) out["status"] = "completed";
  return out;
}

Json kept_message(const Json& item, const std::string& role, const std::string& text) {
  Json out = kept_item(item, "message", "msg_");
  if (out["content"].is_string()) {
    out["content"] = Json::array();
    if (role == "assistant")
      out["content"].push_back({{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}});
    else
      out["content"].push_back({{"type", "input_text"}, {"text", text}});
  }
  return out;
}

Status read_message_item(const Json& item, const std::string& at, ChatTurns* turns, Json* kept) {
  SLIP_TRY(const std::string role, read_text(item, "role", at));
  const auto content = item.find("content");
  if (content == item.end()) return invalid_argument("a message needs content", at + ".content");
  SLIP_TRY(const std::string text, read_text_parts(*content, at + ".content", {"input_text", "output_text", "text", "refusal"}));
  if (role == "system" || role == "developer")
    turns->system(text);
  else if (role == "user")
    turns->user(text, /*join=*/false);
  else if (role == "assistant")
    turns->assistant(text);
  else
    return invalid_argument("role must be user, assistant, system or developer", at + ".role");
  if (kept) kept->push_back(kept_message(item, role, text));
  return Ok{};
}

Status read_call_item(const Json& item, const std::string& at, ChatTurns* turns, Json* kept) {
  SLIP_TRY(const std::string id, read_text(item, "call_id", at));
  SLIP_TRY(std::string name, read_text(item, "name", at));
  if (const auto space = item.find("namespace"); space != item.end() && !space->is_null()) {
    SLIP_TRY(const std::string in, read_text(item, "namespace", at));
    name = flat_name(in, name);
  }
  SLIP_TRY(std::string arguments, read_text(item, "arguments", at));
  turns->call(id, name, std::move(arguments));
  if (kept) kept->push_back(kept_item(item, "function_call", "fc_"));
  return Ok{};
}

Status read_output_item(const Json& item, const std::string& at, ChatTurns* turns, Json* kept) {
  SLIP_TRY(const std::string id, read_text(item, "call_id", at));
  const auto output = item.find("output");
  if (output == item.end()) return invalid_argument("a function_call_output needs output", at + ".output");
  SLIP_TRY(const std::string text, read_text_parts(*output, at + ".output", {"input_text", "output_text", "text"}));
  turns->result(id, text);
  if (kept) kept->push_back(kept_item(item, "function_call_output", "fco_"));
  return Ok{};
}

/// The texts of a reasoning item's content or summary, joined; empty when it has none.
Result<std::string> reasoning_texts(const Json& item, const char* key, std::string_view type, const std::string& at) {
  const auto list = item.find(key);
  if (list == item.end() || list->is_null()) return std::string();
  if (!list->is_array()) return invalid_argument(std::string(key) + " must be a list", at + "." + key);
  return read_text_parts(*list, at + "." + key, {type});
}

Status read_reasoning_item(const Json& item, const std::string& at, ChatTurns* turns, Json* kept) {
  SLIP_TRY(std::string text, reasoning_texts(item, "content", "reasoning_text", at));
  SLIP_TRY(std::string summary, reasoning_texts(item, "summary", "summary_text", at));
  if (text.empty()) text = std::move(summary);
  const auto encrypted = item.find("encrypted_content");
  if (encrypted != item.end() && !encrypted->is_null()) {
    if (!encrypted->is_string()) return invalid_argument("encrypted_content must be a string", at + ".encrypted_content");
    if (text.empty() && !encrypted->get_ref<const std::string&>().empty())
      return unsupported("encrypted reasoning of another server cannot be read here; send the item's content or summary, or "
                         "leave the item out",
                         at + ".encrypted_content");
  }
  if (!text.empty()) turns->reasoning(text);
  if (kept) kept->push_back(kept_item(item, "reasoning", "rs_"));
  return Ok{};
}

class ItemReader {
 public:
  ItemReader(ResponseStore& store, const std::string& key, ChatTurns* turns, Json* kept)
      : store_(store), key_(key), turns_(turns), kept_(kept) {}

  Status read(const Json& item, const std::string& at, bool referred) {
    if (!item.is_object()) return invalid_argument("an input item must be an object", at);
    std::string type = "message";  // the short form of a message has a role alone
    if (item.contains("type") || !item.contains("role")) {
      SLIP_TRY(type, read_type(item, at, "an input item"));
    }
    if (type == "message") return read_message_item(item, at, turns_, kept_);
    if (type == "function_call") return read_call_item(item, at, turns_, kept_);
    if (type == "function_call_output") return read_output_item(item, at, turns_, kept_);
    if (type == "reasoning") return read_reasoning_item(item, at, turns_, kept_);
    if (type == "item_reference" && !referred) return read_reference(item, at);
    return unserved_type(type, at, "an input item", kServed);
  }

 private:
  Status read_reference(const Json& item, const std::string& at) {
    SLIP_TRY(const std::string id, read_text(item, "id", at));
    const auto text = store_.find_item(key_, id);
    if (!text) {
      Error error = not_found("no stored response has an item of this id: ask with store: true, or send the item itself");
      error.param = at + ".id";
      return error;
    }
    return read(Json::parse(*text, nullptr, false), at, /*referred=*/true);
  }

  ResponseStore& store_;
  const std::string& key_;
  ChatTurns* turns_;
  Json* kept_;
};

}  // namespace

Status read_items(const Json& items, const std::string& at, ResponseStore& store, const std::string& key, ChatTurns* turns,
                  Json* kept) {
  if (static_cast<int32_t>(items.size()) > limits::kMessages)
    return invalid_argument(at + " holds " + std::to_string(items.size()) + " items; the limit is " +
                                std::to_string(limits::kMessages),
                            at);
  ItemReader reader(store, key, turns, kept);
  for (size_t i = 0; i < items.size(); ++i)
    SLIP_RETURN_IF_ERROR(reader.read(items[i], at + "." + std::to_string(i), /*referred=*/false));
  return Ok{};
}

}  // namespace slipstream::api
