// See messages_request.h.
#include "server/api/messages_request.h"

#include "config/limits.h"
#include "server/api/api_tools.h"
#include "server/api/chat_turns.h"
#include "server/api/output_fields.h"
#include "server/api/request_fields.h"
#include "server/api/text_parts.h"

namespace slipstream::api {
namespace {

/// Claude Code begins its system prompt with a block for the billing of its own service, which differs in each request: as part of
/// a prompt it would say nothing and defeat the prefix cache.
constexpr std::string_view kBillingHeader = "x-anthropic-billing-header:";

Status read_system(const Json& system, ChatTurns* turns) {
  if (system.is_string()) {
    if (!system.get_ref<const std::string&>().empty()) turns->system(system.get<std::string>());
    return Ok{};
  }
  std::string text;
  for (size_t i = 0; i < system.size(); ++i) {
    const std::string at = "system." + std::to_string(i);
    SLIP_TRY(const std::string type, read_type(system[i], at, "a system block"));
    if (type != "text") return unserved_type(type, at, "a system block", "text");
    SLIP_TRY(const std::string piece, read_text(system[i], "text", at));
    if (piece.starts_with(kBillingHeader)) continue;
    text += (text.empty() ? "" : "\n") + piece;
  }
  if (!text.empty()) turns->system(text);
  return Ok{};
}

Status read_thinking(const Json& thinking, Json* shape, MessagesRequest* out) {
  SLIP_TRY(const std::string type, read_type(thinking, "thinking", "thinking"));
  if (type != "enabled" && type != "adaptive" && type != "disabled" && type != "between_tools")
    return invalid_argument("thinking.type must be enabled, adaptive or disabled", "thinking.type");
  if (type == "between_tools")
    return unsupported("thinking between tools alone is not supported: use enabled, adaptive or disabled", "thinking.type");
  (*shape)["enable_thinking"] = type != "disabled";
  if (const auto display = thinking.find("display"); display != thinking.end() && !display->is_null()) {
    if (*display != "summarized" && *display != "omitted")
      return invalid_argument("thinking.display must be summarized or omitted", "thinking.display");
    out->omit_thinking = *display == "omitted";
  }
  if (type != "enabled") return Ok{};
  const auto budget = thinking.find("budget_tokens");
  const auto tokens = budget != thinking.end() ? exact_integer(*budget) : std::nullopt;
  if (!tokens || *tokens < 1 || *tokens > limits::kThinkingTokenBudget.max)
    return invalid_argument("thinking.budget_tokens must be an integer from 1 to " + std::to_string(limits::kThinkingTokenBudget.max),
                            "thinking.budget_tokens");
  out->generation.thinking_token_budget = static_cast<int32_t>(*tokens);
  out->generation.thinking_budget_name = "thinking.budget_tokens";
  return Ok{};
}

Status read_output_config(const Json& config, Json* shape, MessagesRequest* out) {
  if (const auto effort = config.find("effort"); effort != config.end() && !effort->is_null()) (*shape)["reasoning_effort"] = *effort;
  if (const auto format = config.find("format"); format != config.end() && !format->is_null()) {
    SLIP_TRY(out->generation.output, read_response_format(*format, "output_config.format", /*flat=*/true));
  }
  return Ok{};
}

/// thinking, output_config and the template's own fields, as chat names them.
Status read_template(const Fields& fields, bool continues, MessagesRequest* out) {
  Json shape = Json::object();
  if (const Json* kwargs = fields.find("chat_template_kwargs")) shape["chat_template_kwargs"] = *kwargs;
  if (const Json* config = fields.find("output_config")) SLIP_RETURN_IF_ERROR(read_output_config(*config, &shape, out));
  if (const Json* thinking = fields.find("thinking")) SLIP_RETURN_IF_ERROR(read_thinking(*thinking, &shape, out));
  shape["continue_final_message"] = continues;
  auto status = read_template_fields(shape, &out->generation);
  if (status.ok()) return Ok{};
  Error error = std::move(status).error();
  if (error.param == "reasoning_effort") error.param = "output_config.effort";
  return error;
}

}  // namespace

Result<MessagesRequest> read_messages_body(const Json& body, const SchemaContext& context, bool count_only) {
  MessagesRequest out;
  SLIP_TRY(out.generation, read_shared_fields(body, kMessages, context));
  const Fields fields(body, kMessages);
  if (out.generation.sampling.max_tokens == 0 && !count_only) return invalid_argument("max_tokens is missing", "max_tokens");
  if (const Json* stop = fields.find("stop_sequences"))
    SLIP_RETURN_IF_ERROR(read_stop_strings(*stop, "stop_sequences", limits::kStopSequences, &out.generation));
  SLIP_RETURN_IF_ERROR(read_messages_tools(body, &out.generation));
  ChatTurns turns;
  if (const Json* system = fields.find("system")) SLIP_RETURN_IF_ERROR(read_system(*system, &turns));
  const Json* messages = fields.find("messages");
  if (!messages) return invalid_argument("messages is missing", "messages");
  bool continues = false;
  SLIP_RETURN_IF_ERROR(read_message_turns(*messages, &turns, &continues));
  auto status = read_messages(turns.messages(), &out.generation);
  if (!status.ok()) {
    Error error = std::move(status).error();
    error.param = "messages";
    return error;
  }
  // a last turn without any text has nothing to go on from
  const Json& last = out.generation.messages.back();
  const bool goes_on = continues && last["role"] == "assistant" && last["content"].is_string() && last["content"] != "";
  SLIP_RETURN_IF_ERROR(read_template(fields, goes_on, &out));
  return out;
}

}  // namespace slipstream::api
