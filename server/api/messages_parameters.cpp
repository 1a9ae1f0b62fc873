// The parameters of /v1/messages and /v1/messages/count_tokens; see parameter_table.h. Source: the documentation and the
// official client of the Anthropic Messages API; what the engines add to chat/completions is taken here by the same names.
#include "server/api/parameter_rows.h"

namespace slipstream::api {
namespace {

using namespace rows;

constexpr Endpoint E = kMessages;
constexpr std::string_view kTextUse = "no effect on generated text";

constexpr Parameter kTable[] = {
    // ---- what is asked ----
    used("messages", E, Type::kList, "user, assistant and system turns of text, thinking, tool_use and tool_result; a last assistant turn is continued"),
    used("system", E, Type::kStringOrList, "text or text blocks before the messages"),
    used("model", E, Type::kString, "unknown names answer 404 not_found_error; absent: the served model"),
    // ---- length, ending, sampling ----
    number(limits::kMaxTokens, E, "needed, except to count tokens; what exceeds the context ends with model_context_window_exceeded"),
    used("stop_sequences", E, Type::kList, "at most 32 strings of 256 bytes; found across token boundaries"),
    number(limits::kTemperature, E, "0 is greedy"),
    number(limits::kTopP, E, "nucleus; must be above 0", true),
    number(limits::kTopK, E, "0 and -1: off"),
    number(limits::kMinP, E, "share of the best token's probability"),
    number(limits::kPresencePenalty, E, "additive, once per token seen in the output"),
    number(limits::kFrequencyPenalty, E, "additive, per occurrence in the output"),
    number(limits::kRepetitionPenalty, E, "multiplicative, over prompt and output"),
    number(limits::kSeed, E, "same seed, same text; drawn and logged when absent"),
    used("ignore_eos", E, Type::kBool, "the model's end tokens do not end the text"),
    // ---- what comes back ----
    used("stream", E, Type::kBool, "server-sent events"),
    // ---- tools ----
    used("tools", E, Type::kList, "of your own, with a name and an input_schema; at most 512, together at most 1 MiB; Anthropic's own types are refused"),
    used("tool_choice", E, Type::kObject, "auto, any, a tool by its name, or none (the tools are left out of the prompt); disable_parallel_tool_use: the answer ends with its first call"),
    // ---- the template ----
    used("thinking", E, Type::kObject, "enabled and adaptive switch the template's thinking on, disabled off; absent: the model's default; budget_tokens: at most so many tokens of thought; display omitted leaves the text of thinking blocks out"),
    used("output_config", E, Type::kObject, "effort is handed to the template as reasoning_effort; format json_schema binds the answer"),
    used("chat_template_kwargs", E, Type::kObject, "variables of the model's template"),
    // ---- serving ----
    number(limits::kPriority, E, "lower runs first (as in vLLM)"),
    used("cache_salt", E, Type::kString, "1..1024 bytes; requests share the prefix cache only within a salt"),
    used("request_id", E, Type::kString, "as the X-Request-Id header, which wins: answered in request-id and x-request-id and logged; letters, digits and - _ . :"),
    used("rid", E, Type::kString, "as request_id (SGLang)"),
    used("speculate", E, Type::kBool, "false: no speculation for this request; the text is the same"),
    // ---- accepted without effect ----
    accepted("metadata", E, Type::kObject, kTextUse),
    accepted("cache_control", E, Type::kObject, "the prefix cache needs no hint; nor do cache_control members of blocks and tools"),
    accepted("service_tier", E, Type::kString, "there is one tier; answered as standard"),
    accepted("speed", E, Type::kString, "there is one speed"),
    accepted("inference_geo", E, Type::kString, "it runs where the server is"),
    accepted("context_management", E, Type::kObject, "the messages are used as they are sent"),
    accepted("diagnostics", E, Type::kObject, "usage says what came from the cache"),
    accepted("user_profile_id", E, Type::kString, kTextUse),
    accepted("betas", E, Type::kList, "as the anthropic-beta header: nothing is switched by it"),
    // ---- known and refused by name ----
    refused("output_format", E, "use output_config.format"),
    refused("structured_outputs", E, "use output_config.format"),
    refused("guided_json", E, "use output_config.format"),
    refused("guided_regex", E, "use output_config.format, or /v1/chat/completions"),
    refused("guided_choice", E, "use output_config.format, or /v1/chat/completions"),
    refused("guided_grammar", E, "use output_config.format, or /v1/chat/completions"),
    refused("json_schema", E, "use output_config.format"),
    refused("regex", E, "use output_config.format, or /v1/chat/completions"),
    refused("ebnf", E, "use output_config.format, or /v1/chat/completions"),
    refused("grammar", E, "use output_config.format, or /v1/chat/completions"),
    refused("structural_tag", E, "use output_config.format"),
    refused("bad_words", E, "use /v1/chat/completions", "[]"),
    refused("allowed_token_ids", E, "use /v1/chat/completions"),
    refused("thinking_token_budget", E, "use thinking.budget_tokens"),
    refused("container", E, "nothing runs on the server; give tools of your own"),
    refused("mcp_servers", E, "the server calls no other servers; give tools of your own", "[]"),
    refused("stop", E, "use stop_sequences"),
    refused("max_completion_tokens", E, "use max_tokens"),
    refused("max_tokens_to_sample", E, "use max_tokens"),
    refused("prompt", E, "use messages, or /v1/completions"),
    refused("response_format", E, "use output_config.format"),
    refused("reasoning_effort", E, "use output_config.effort"),
    refused("n", E, "a message has one choice; send several requests", "1"),
    refused("logprobs", E, "this API has no log-probabilities; use /v1/chat/completions", "false"),
};

}  // namespace

std::span<const Parameter> messages_parameters() { return kTable; }

}  // namespace slipstream::api
