// See prompt_text.h.
#include "server/api/prompt_text.h"

#include <algorithm>
#include <ctime>
#include <set>

#include "server/api/chat_constraint.h"
#include "server/api/run_generation.h"
#include "server/output/history.h"
#include "server/output/output_format.h"
#include "server/output/tool_prompt.h"

namespace slipstream::api {
namespace {

std::string_view without_trailing_blanks(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\r\n");
  return last == std::string_view::npos ? std::string_view() : text.substr(0, last + 1);
}

/// For continue_final_message: cuts what the template wrote after the last message's text.
Status cut_after(std::vector<PromptSegment>* segments, const std::string& content) {
  const std::string_view wanted = without_trailing_blanks(content);
  const std::string whole = joined_text(*segments);
  const size_t at = wanted.empty() ? std::string::npos : whole.rfind(wanted);
  if (at == std::string::npos)
    return invalid_argument("continue_final_message: the chat template does not show the last message's text as it is",
                            "continue_final_message");
  size_t keep = at + wanted.size();
  for (size_t i = 0; i < segments->size(); ++i) {
    auto& text = (*segments)[i].text;
    if (keep <= text.size()) {
      text.resize(keep);
      segments->resize(i + 1);
      break;
    }
    keep -= text.size();
  }
  return Ok{};
}

/// Null contents become empty texts; false when there was none.
bool fill_null_contents(Json* messages) {
  bool found = false;
  for (Json& message : *messages) {
    if (!message["content"].is_null()) continue;
    message["content"] = "";
    found = true;
  }
  return found;
}

/// Arguments of tool calls that are text, since they hold no JSON object, become empty objects. Returns where the first
/// stood in the request, or "".
std::string empty_text_arguments(Json* messages, const std::set<size_t>& function_calls) {
  std::string first;
  for (size_t i = 0; i < messages->size(); ++i) {
    if (!(*messages)[i].contains("tool_calls")) continue;
    Json& calls = (*messages)[i]["tool_calls"];
    for (size_t j = 0; j < calls.size(); ++j) {
      Json& arguments = calls[j]["function"]["arguments"];
      if (!arguments.is_string()) continue;
      arguments = Json::object();
      if (!first.empty()) continue;
      first = "messages." + std::to_string(i);
      first += function_calls.contains(i) ? ".function_call.arguments" : ".tool_calls." + std::to_string(j) + ".function.arguments";
    }
  }
  return first;
}

size_t count_of(const std::string& text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + word.size())) ++count;
  return count;
}

/// Renders, and makes up for what templates do with histories of tool calls. A turn with calls has null for content:
/// most templates test for that, some print the word None and some raise, and those get an empty text. Arguments that
/// are no JSON object are text: where the template cannot print them, the error names them.
Result<std::vector<PromptSegment>> render_turns(const ChatTemplate& chat_template, RenderInput input,
                                                const std::set<size_t>& function_calls) {
  auto segments = chat_template.render(input);
  if (fill_null_contents(&input.messages)) {
    auto filled = chat_template.render(input);
    const auto nones = [](const auto& rendered) { return count_of(joined_text(*rendered), "None"); };
    if (filled.ok() && (!segments.ok() || nones(segments) > nones(filled))) segments = std::move(filled);
  }
  if (segments.ok()) return segments;
  const std::string at = empty_text_arguments(&input.messages, function_calls);
  if (at.empty() || !chat_template.render(input).ok()) return segments;
  return invalid_argument("the arguments of a tool call are not a JSON object, and this model's chat template needs one: " +
                              segments.error().message,
                          at);
}

/// The efforts that come nearest to one that a template refuses; "" is to say nothing.
std::vector<std::string> efforts_near(const std::string& effort) {
  if (effort == "none") return {""};
  if (effort == "minimal") return {"low", "medium"};
  if (effort == "low") return {"medium", "high"};
  if (effort == "medium") return {"high", "low"};
  if (effort == "high") return {"xhigh", "max"};
  if (effort == "xhigh") return {"max", "high"};
  return {"xhigh", "high"};
}

/// Renders; where the template refuses the reasoning effort, with the nearest one that it takes.
Result<std::vector<PromptSegment>> render_with_effort(const ChatTemplate& chat_template, RenderInput input,
                                                      const std::set<size_t>& function_calls) {
  auto segments = render_turns(chat_template, input, function_calls);
  const auto effort = input.extra.find("reasoning_effort");
  if (segments.ok() || effort == input.extra.end() || !effort->is_string()) return segments;
  for (const std::string& near : efforts_near(effort->get<std::string>())) {
    input.extra["reasoning_effort"] = near;
    if (near.empty()) input.extra.erase("reasoning_effort");
    auto again = render_turns(chat_template, input, function_calls);
    if (again.ok()) return again;
  }
  return segments;
}

}  // namespace

Result<std::vector<PromptSegment>> render_chat(const Services& services, const GenerationRequest& request) {
  if (!services.chat_template)
    return unsupported("this model has no chat template; use /v1/completions, or start the server with "
                       "--chat-template",
                       "messages");
  RenderInput input;
  input.messages = request.messages;
  const output::OutputFormat& format = *services.output_format;
  const std::string& source = services.chat_template->source();
  const bool prints_calls = source.find("tool_calls") != std::string::npos;
  if (format.template_shows_tools)
    input.tools = request.tools;
  else if (!request.tools.is_null() || (!prints_calls && output::has_tool_turns(request.messages)))
    input.messages = output::with_tools_as_text(request.messages, request.tools, source.find("system") != std::string::npos);
  input.extra = Json::object();
  if (!services.config.engine.default_chat_template_kwargs.empty()) {
    Json defaults = Json::parse(services.config.engine.default_chat_template_kwargs, nullptr, false);
    if (defaults.is_object()) input.extra = std::move(defaults);
  }
  for (const auto& [name, value] : request.template_extra.items()) input.extra[name] = value;
  input.add_generation_prompt = request.add_generation_prompt;
  input.now_unix_seconds = static_cast<int64_t>(std::time(nullptr));
  output::adapt_history(format, &input.messages);
  // the two names that templates have for one switch
  if (input.extra.contains("enable_thinking") && !input.extra.contains("thinking")) input.extra["thinking"] = input.extra["enable_thinking"];
  auto segments = render_with_effort(*services.chat_template, std::move(input), request.function_calls);
  if (!segments.ok()) {
    Error error = segments.error();
    if (error.param.empty()) error.param = "messages";
    return error;
  }
  if (request.continue_final_message) {
    const Json& content = request.messages.back()["content"];
    SLIP_RETURN_IF_ERROR(cut_after(&segments.value(), content.is_string() ? content.get<std::string>() : ""));
  }
  return segments;
}

namespace {

Result<std::vector<int32_t>> tokenize_segments(const Services& services, const std::vector<PromptSegment>& segments) {
  int64_t bytes = 0;
  for (const PromptSegment& segment : segments) bytes += static_cast<int64_t>(segment.text.size());
  SLIP_RETURN_IF_ERROR(check_prompt_bytes(services, bytes));
  return services.tokenizer->encode(segments);
}

output::ParserOptions parser_options(const Services& services, const std::vector<PromptSegment>& segments,
                                     const GenerationRequest& request) {
  output::ParserOptions options;
  if (!request.tools.is_null()) options.tools = std::make_shared<const output::ToolSet>(request.tools);
  options.split_reasoning = request.split_reasoning;
  options.single_call = !request.parallel_tool_calls;
  options.skip_special = request.skip_special;
  options.continues_message = request.continue_final_message;
  options.call_id = [calls = services.output_format->calls] { return output::new_call_id(calls); };
  const std::string text = joined_text(segments);
  options.prompt_tail = text.substr(text.size() - std::min(text.size(), output::kPromptTailBytes));
  return options;
}

}  // namespace

Result<std::vector<int32_t>> prepare_chat(const Services& services, GenerationRequest* request) {
  SLIP_TRY(const auto segments, render_chat(services, *request));
  SLIP_TRY(auto ids, tokenize_segments(services, segments));
  output::ParserOptions options = parser_options(services, segments, *request);
  SLIP_TRY(request->constraint, chat_constraint(services, *request, output::begins_inside_thoughts(*services.output_format, options)));
  request->make_parser = [format = services.output_format, options = std::move(options)] { return output::make_parser(*format, options); };
  return ids;
}

Result<std::vector<int32_t>> tokenize_chat(const Services& services, const GenerationRequest& request) {
  SLIP_TRY(const auto segments, render_chat(services, request));
  return tokenize_segments(services, segments);
}

Result<int64_t> count_chat_tokens(const Services& services, const GenerationRequest& request) {
  SLIP_TRY(const auto segments, render_chat(services, request));
  SLIP_TRY(const auto ids, services.tokenizer->encode(segments));
  return static_cast<int64_t>(ids.size());
}

Result<std::vector<int32_t>> tokenize_text(const Services& services, const std::string& text, bool add_special) {
  SLIP_RETURN_IF_ERROR(check_prompt_bytes(services, static_cast<int64_t>(text.size())));
  SLIP_TRY(auto ids, services.tokenizer->encode(text, /*parse_special=*/false));
  if (add_special && services.tokenizer->adds_bos() && services.tokenizer->bos_id() >= 0)
    ids.insert(ids.begin(), services.tokenizer->bos_id());
  return ids;
}

}  // namespace slipstream::api
