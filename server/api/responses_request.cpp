// See responses_request.h.
#include "server/api/responses_request.h"

#include <algorithm>

#include "config/limits.h"
#include "server/api/chat_turns.h"
#include "server/api/output_fields.h"
#include "server/api/request_fields.h"
#include "server/api/text_parts.h"
#include "server/json_text.h"

namespace slipstream::api {
namespace {

constexpr std::string_view kLogprobs = "message.output_text.logprobs";
/// Of `include`: what these name is in no answer of this server, so there is nothing to leave out or to add.
constexpr std::string_view kNothingToInclude[] = {
    "reasoning.encrypted_content",  // reasoning comes in the clear
    "file_search_call.results", "web_search_call.results", "web_search_call.action.sources", "message.input_image.image_url",
    "computer_call_output.output.image_url", "code_interpreter_call.outputs"};

/// The shortest number that reads back as the same float: 0.7, not 0.69999998807907104.
Json number_of(float value) {
  std::string text;
  json_text::append_float(text, value);
  return Json::parse(text, nullptr, false);
}

Json value_or_null(const Json* value) { return value ? *value : Json(nullptr); }

/// A string member of an object field that must be one of `choices`; null when it is absent or null.
Result<Json> read_choice(const Json& object, const std::string& field, const char* name,
                         std::initializer_list<std::string_view> choices) {
  const auto value = object.find(name);
  if (value == object.end() || value->is_null()) return Json(nullptr);
  std::string list;
  for (const std::string_view choice : choices) {
    if (value->is_string() && value->get_ref<const std::string&>() == choice) return *value;
    list += (list.empty() ? "" : ", ") + std::string(choice);
  }
  return invalid_argument(field + "." + name + " must be one of " + list, field + "." + name);
}

Status read_include(const Fields& fields, ResponsesRequest* out) {
  const Json* include = fields.find("include");
  if (!include) return Ok{};
  for (size_t i = 0; i < include->size(); ++i) {
    const Json& value = (*include)[i];
    const std::string name = value.is_string() ? value.get<std::string>() : "";
    if (name == kLogprobs)
      out->logprobs = true;
    else if (std::find(std::begin(kNothingToInclude), std::end(kNothingToInclude), name) == std::end(kNothingToInclude))
      return invalid_argument("include must list documented names; of them " + std::string(kLogprobs) + " has an effect",
                              "include." + std::to_string(i));
  }
  return Ok{};
}

Status check_metadata(const Json* metadata) {
  if (!metadata) return Ok{};
  if (static_cast<int32_t>(metadata->size()) > limits::kMetadataPairs)
    return invalid_argument("metadata holds " + std::to_string(metadata->size()) + " pairs; the limit is " +
                                std::to_string(limits::kMetadataPairs),
                            "metadata");
  for (const auto& [name, value] : metadata->items()) {
    if (static_cast<int32_t>(name.size()) > limits::kMetadataKeyBytes)
      return invalid_argument("a metadata key of " + std::to_string(name.size()) + " bytes; the limit is " +
                                  std::to_string(limits::kMetadataKeyBytes),
                              "metadata");
    if (!value.is_string() || static_cast<int32_t>(value.get_ref<const std::string&>().size()) > limits::kMetadataValueBytes)
      return invalid_argument("a metadata value must be a string of at most " + std::to_string(limits::kMetadataValueBytes) +
                                  " bytes",
                              "metadata." + name);
  }
  return Ok{};
}

/// reasoning and the template's own fields; what chat calls reasoning_effort is reasoning.effort here.
Status read_reasoning(const Fields& fields, ResponsesRequest* out) {
  Json shape = Json::object();
  for (const char* name : {"chat_template_kwargs", "enable_thinking"})
    if (const Json* value = fields.find(name)) shape[name] = *value;
  Json effort = nullptr, summary = nullptr;
  if (const Json* reasoning = fields.find("reasoning")) {
    SLIP_TRY(effort, read_choice(*reasoning, "reasoning", "effort",
                                 {"none", "minimal", "low", "medium", "high", "xhigh", "max"}));
    SLIP_TRY(summary, read_choice(*reasoning, "reasoning", "summary", {"auto", "concise", "detailed"}));
    if (summary.is_null()) {
      SLIP_TRY(summary, read_choice(*reasoning, "reasoning", "generate_summary", {"auto", "concise", "detailed"}));
    }
  }
  if (!effort.is_null()) shape["reasoning_effort"] = effort;
  out->summary = !summary.is_null();
  out->echo["reasoning"] = {{"effort", effort}, {"summary", summary}};
  return read_template_fields(shape, &out->generation);
}

Status read_text_config(const Fields& fields, ResponsesRequest* out) {
  Json format = {{"type", "text"}}, verbosity = nullptr;
  if (const Json* text = fields.find("text")) {
    SLIP_TRY(verbosity, read_choice(*text, "text", "verbosity", {"low", "medium", "high"}));
    if (const auto given = text->find("format"); given != text->end() && !given->is_null()) {
      SLIP_TRY(out->generation.output, read_response_format(*given, "text.format", /*flat=*/true));
      format = *given;
    }
  }
  out->echo["text"] = {{"format", std::move(format)}, {"verbosity", verbosity.is_null() ? Json("medium") : std::move(verbosity)}};
  return Ok{};
}

/// Instructions, what came before, the input: in that order.
Status read_input(const Fields& fields, ResponseStore& store, const std::string& key, bool needed, ResponsesRequest* out) {
  ChatTurns turns;
  if (const Json* instructions = fields.find("instructions")) turns.system(instructions->get<std::string>());
  if (!out->previous_response_id.empty()) {
    const auto previous = store.find(key, out->previous_response_id);
    if (!previous) {
      Error error = not_found("no response of this id is stored: ask with store: true, or send the whole conversation as input");
      error.param = "previous_response_id";
      return error;
    }
    out->conversation = Json::parse(previous->conversation, nullptr, false);
    SLIP_RETURN_IF_ERROR(read_items(out->conversation, "previous_response_id", store, key, &turns, nullptr));
  }
  const Json* input = fields.find("input");
  if (!input && needed) return invalid_argument("input is missing", "input");
  if (input) {
    const Json items = input->is_string() ? Json::array({{{"role", "user"}, {"content", *input}}}) : *input;
    SLIP_RETURN_IF_ERROR(read_items(items, "input", store, key, &turns, out->store ? &out->items : nullptr));
    if (input->is_array() && input->empty() && out->previous_response_id.empty())
      return invalid_argument("input is an empty list", "input");
  }
  for (const Json& item : out->items) out->conversation.push_back(item);
  auto status = read_messages(turns.messages(), &out->generation);
  if (status.ok()) return Ok{};
  Error error = std::move(status).error();
  error.param = "input";
  return error;
}

void fill_echo(const Fields& fields, ResponsesRequest* out) {
  const SamplingParams& sampling = out->generation.sampling;
  Json& echo = out->echo;
  for (const char* name : {"instructions", "max_output_tokens", "max_tool_calls", "previous_response_id", "prompt_cache_key",
                           "prompt_cache_retention", "safety_identifier", "user"})
    echo[name] = value_or_null(fields.find(name));
  const Json* metadata = fields.find("metadata");
  echo["metadata"] = metadata ? *metadata : Json::object();
  const Json* parallel = fields.find("parallel_tool_calls");
  echo["parallel_tool_calls"] = parallel ? *parallel : Json(true);
  echo["service_tier"] = "default";
  echo["store"] = out->store;
  echo["temperature"] = number_of(sampling.temperature);
  echo["top_p"] = number_of(sampling.top_p);
  echo["presence_penalty"] = number_of(sampling.presence_penalty);
  echo["frequency_penalty"] = number_of(sampling.frequency_penalty);
  echo["top_logprobs"] = std::max(sampling.top_logprobs, 0);
  echo["truncation"] = "disabled";
  const Json* choice = fields.find("tool_choice");
  echo["tool_choice"] = choice ? *choice : Json("auto");
  echo["tools"] = out->tools.shown;
}

}  // namespace

Result<ResponsesRequest> read_responses(const Json& body, const SchemaContext& context, ResponseStore& store,
                                        const std::string& key, bool count_only) {
  ResponsesRequest out;
  SLIP_TRY(out.generation, read_shared_fields(body, kResponses, context));
  const Fields fields(body, kResponses);
  fields.get("store", &out.store);
  if (out.store && !store.enabled())
    return unsupported("store is switched off on this server: start it with --response-store-mb, or send the whole conversation "
                       "each time",
                       "store");
  fields.get("previous_response_id", &out.previous_response_id);
  SLIP_RETURN_IF_ERROR(check_metadata(fields.find("metadata")));
  SLIP_RETURN_IF_ERROR(read_include(fields, &out));
  int32_t top = 0;
  fields.get("top_logprobs", &top);
  out.logprobs = out.logprobs || top > 0;
  if (out.logprobs) out.generation.sampling.top_logprobs = top;
  SLIP_RETURN_IF_ERROR(read_reasoning(fields, &out));
  SLIP_RETURN_IF_ERROR(read_text_config(fields, &out));
  SLIP_TRY(out.tools, read_responses_tools(body, &out.generation));
  SLIP_RETURN_IF_ERROR(read_input(fields, store, key, /*needed=*/!count_only, &out));
  fill_echo(fields, &out);
  return out;
}

}  // namespace slipstream::api
