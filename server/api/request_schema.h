// JSON body -> typed, bounded request of the two generation endpoints. Owns every check that needs no tokenizer; bounds
// come from config/limits.h and the vocabulary. Knows no HTTP.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/base/result.h"
#include "engine/grammar/format.h"
#include "engine/model/model_config.h"
#include "engine/request/request.h"
#include "server/api/answer_parts.h"
#include "server/api/parameter_table.h"

namespace slipstream {
class ConstraintSpec;
}

namespace slipstream::api {

using Json = nlohmann::ordered_json;

struct SchemaContext {
  int32_t vocab = 0;                                  // ids must be below
  GenerationDefaults defaults;                        // used where the request is silent
  std::function<void(std::string_view)> unknown_field;  // may be empty
};

/// What the model may do about the tools that a request offers.
enum class ToolChoice : uint8_t { kNone, kAuto, kRequired };

struct GenerationRequest {
  std::string model;                       // empty: not given
  bool stream = false, include_usage = false, continuous_usage = false;
  bool return_token_ids = false;
  int32_t n = 1;
  SamplingParams sampling;                 // max_tokens 0: not given; stop_ids: stop_token_ids only; seed: see below
  const char* max_tokens_name = "max_tokens";  // as the client spelled it, for errors; likewise the next
  const char* min_tokens_name = "min_tokens";
  std::optional<int64_t> seed;
  bool ignore_eos = false;
  std::vector<std::string> stop;
  bool include_stop = false;
  bool skip_special = true;
  int32_t priority = 0;
  std::string cache_salt;
  bool speculate = true;
  int32_t prompt_logprobs = -1;            // alternatives per prompt token; -1: not asked for
  std::optional<grammar::Format> output;   // what the output may look like; empty: anything
  std::vector<int32_t> allowed_token_ids;  // empty: all
  std::vector<std::string> bad_words;
  bool no_output = false;                  // max_tokens 0: the prompt alone is of interest
  std::string service_tier;

  // chat
  Json messages;                           // normalised for the template
  std::set<size_t> function_calls;         // messages whose call came as the deprecated function_call
  Json template_extra = Json::object();
  bool add_generation_prompt = true;
  bool continue_final_message = false;

  // tools
  Json tools;                              // those that may be called, as the template wants them; null: none
  ToolChoice tool_choice = ToolChoice::kNone;
  bool parallel_tool_calls = true;
  std::set<std::string> strict_tools;      // functions whose arguments must keep to their schema

  // reasoning
  bool split_reasoning = true;             // false: thoughts stay in the content
  bool show_reasoning = true;              // false: they are left out of the answer
  bool stream_reasoning = true;            // false: in a stream they come in one piece, when they have ended

  int32_t thinking_token_budget = -1;      // -1: not given
  const char* thinking_budget_name = "thinking_token_budget";  // as the client spelled it, for errors

  /// What the choices may say; null: anything. Made by prepare_chat.
  std::shared_ptr<const ConstraintSpec> constraint;

  /// Made by prepare_chat from the model's output format, the tools and the rendered prompt; one parser per choice. Empty: all
  /// text is content.
  std::function<std::unique_ptr<OutputParser>()> make_parser;

  // completions
  std::vector<std::variant<std::string, std::vector<int32_t>>> prompts;
  bool echo = false;
};

/// Guard, parse and require an object. The only place that lets a body into the JSON library.
Result<Json> parse_body(std::string_view body);

Result<GenerationRequest> read_generation(const Json& body, Endpoint endpoint, const SchemaContext& context);

/// What all generation endpoints read alike, after every member met the endpoint's table: model, stream, sampling, lengths,
/// stops and the fields of serving.
Result<GenerationRequest> read_shared_fields(const Json& body, Endpoint endpoint, const SchemaContext& context);

/// A list of stop strings, at most `limit`, into `out`; errors call it `name`.
Status read_stop_strings(const Json& list, const std::string& name, int32_t limit, GenerationRequest* out);

/// The most tokens that each of `choices` may have: what was asked for, or without that the `room` that the context
/// leaves; within the bounds of one request's output.
Result<int32_t> output_tokens_per_choice(const GenerationRequest& request, int64_t choices, int64_t room);

/// messages alone, with which of them spelled their call the old way, into `out`: roles, contents and parts as the template
/// sees them.
Status read_messages(const Json& messages, GenerationRequest* out);

/// tools, tool_choice and parallel_tool_calls of a chat request into `out`.
Status read_tools(const Json& body, GenerationRequest* out);

/// How thoughts come back: include_reasoning, separate_reasoning, stream_reasoning, reasoning_format, reasoning.
Status read_reasoning(const Json& body, GenerationRequest* out);

/// The fields that steer the template (chat_template_kwargs, reasoning_effort, …) into `out`.
Status read_template_fields(const Json& body, GenerationRequest* out);

/// A list of token ids, each in [0, vocab).
Result<std::vector<int32_t>> read_token_ids(const Json& list, const std::string& param, int32_t vocab);

}  // namespace slipstream::api
