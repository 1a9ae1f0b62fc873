// The parameters of /v1/responses; see parameter_table.h. Source: the OpenAI API description 2.3.0; what the engines add to
// chat/completions is taken here by the same names.
#include "server/api/parameter_rows.h"

namespace slipstream::api {
namespace {

using namespace rows;

constexpr Endpoint E = kResponses;
constexpr std::string_view kTextUse = "no effect on generated text";
constexpr std::string_view kNoHint = "the prefix cache needs no hint";

constexpr Parameter kTable[] = {
    // ---- what is asked ----
    used("input", E, Type::kStringOrList, "text, or items: messages of text parts, function_call, function_call_output, reasoning, item_reference to a stored response"),
    used("instructions", E, Type::kString, "a system message before the input; not carried over by previous_response_id"),
    used("model", E, Type::kString, "unknown names answer 404 model_not_found; absent: the served model"),
    used("previous_response_id", E, Type::kString, "a stored response whose input and output come before the input"),
    // ---- length, ending, sampling ----
    number(limits::kMaxTokens, E, "output tokens, reasoning included; default: the rest of the context", "max_output_tokens"),
    number(limits::kTemperature, E, "0 is greedy"),
    number(limits::kTopP, E, "nucleus; must be above 0", true),
    number(limits::kTopK, E, "0 and -1: off"),
    number(limits::kMinP, E, "share of the best token's probability"),
    number(limits::kPresencePenalty, E, "additive, once per token seen in the output"),
    number(limits::kFrequencyPenalty, E, "additive, per occurrence in the output"),
    number(limits::kRepetitionPenalty, E, "multiplicative, over prompt and output"),
    number(limits::kSeed, E, "same seed, same text; drawn and logged when absent"),
    used("stop", E, Type::kStringOrList, "at most 4 strings of 256 bytes; found across token boundaries"),
    used("ignore_eos", E, Type::kBool, "the model's end tokens do not end the text"),
    // ---- what comes back ----
    used("stream", E, Type::kBool, "server-sent events, named and numbered"),
    number(limits::kTopLogprobs, E, "so many alternatives per token, in the output text's logprobs"),
    used("include", E, Type::kList, "message.output_text.logprobs gives log-probabilities; the other documented values name what no answer of this server has"),
    used("metadata", E, Type::kObject, "returned with the response; at most 16 strings of 512 bytes, keys of 64"),
    used("store", E, Type::kBool, "keeps the response in memory for GET, DELETE and previous_response_id; default false; within --response-store-mb, the least recently used go first"),
    // ---- tools ----
    used("tools", E, Type::kList, "functions, also in a namespace; at most 512, together at most 1 MiB; web_search, image_generation and tool_search are left out, and the answer's x-ignored-tools says so; other types are refused"),
    used("tool_choice", E, Type::kAny, "as in chat: none (the tools are left out of the prompt), auto, required, allowed_tools, or a function by its name"),
    used("parallel_tool_calls", E, Type::kBool, "false: the answer ends with its first call"),
    // ---- the template ----
    used("reasoning", E, Type::kObject, "effort as reasoning_effort of chat; summary auto, concise or detailed: the reasoning, whole, comes as the summary"),
    used("text", E, Type::kObject, "format; verbosity is echoed"),
    used("chat_template_kwargs", E, Type::kObject, "variables of the model's template"),
    used("enable_thinking", E, Type::kBool, "handed to the template"),
    // ---- serving ----
    number(limits::kPriority, E, "lower runs first (as in vLLM)"),
    used("cache_salt", E, Type::kString, "1..1024 bytes; requests share the prefix cache only within a salt"),
    used("request_id", E, Type::kString, "as the X-Request-Id header, which wins: answered in x-request-id and logged; letters, digits and - _ . :"),
    used("rid", E, Type::kString, "as request_id (SGLang)"),
    used("speculate", E, Type::kBool, "false: no speculation for this request; the text is the same"),
    // ---- accepted without effect ----
    accepted("max_tool_calls", E, Type::kInt, "it bounds built-in tools, of which there are none; echoed"),
    accepted("stream_options", E, Type::kObject, "include_obfuscation: nothing is added to the events"),
    accepted("user", E, Type::kString, "no effect on generated text; echoed"),
    accepted("safety_identifier", E, Type::kString, "no effect on generated text; echoed"),
    accepted("service_tier", E, Type::kString, "there is one tier; answered as default"),
    accepted("prompt_cache_key", E, Type::kString, "the prefix cache needs no hint; echoed"),
    accepted("prompt_cache_options", E, Type::kObject, kNoHint),
    accepted("prompt_cache_retention", E, Type::kString, "the prefix cache needs no hint; echoed"),
    accepted("client_metadata", E, Type::kObject, kTextUse),
    accepted("access_programs", E, Type::kObject, kTextUse),
    accepted("background_options", E, Type::kObject, "nothing runs in the background"),
    accepted("image", E, Type::kObject, "only text is served"),
    accepted("moderation", E, Type::kAny, "nothing is moderated"),
    // ---- known and refused by name ----
    refused("structured_outputs", E, "use text.format"),
    refused("guided_json", E, "use text.format"),
    refused("guided_regex", E, "use text.format, or /v1/chat/completions"),
    refused("guided_choice", E, "use text.format, or /v1/chat/completions"),
    refused("guided_grammar", E, "use text.format, or /v1/chat/completions"),
    refused("json_schema", E, "use text.format"),
    refused("regex", E, "use text.format, or /v1/chat/completions"),
    refused("ebnf", E, "use text.format, or /v1/chat/completions"),
    refused("grammar", E, "use text.format, or /v1/chat/completions"),
    refused("structural_tag", E, "use text.format"),
    refused("bad_words", E, "use /v1/chat/completions", "[]"),
    refused("allowed_token_ids", E, "use /v1/chat/completions"),
    refused("thinking_token_budget", E, "use /v1/chat/completions"),
    refused("background", E, "nothing runs in the background; ask with stream: true", "false"),
    refused("truncation", E, "the server drops no part of the input; shorten it, /v1/responses/input_tokens counts it", "\"disabled\""),
    refused("conversation", E, "conversations are not kept; use previous_response_id with store, or send the whole input"),
    refused("prompt", E, "prompt templates are not kept; send instructions and input"),
    refused("context_management", E, "the server compacts nothing; shorten the input", "[]"),
    refused("messages", E, "use input, or /v1/chat/completions"),
    refused("max_tokens", E, "use max_output_tokens"),
    refused("max_completion_tokens", E, "use max_output_tokens"),
    refused("response_format", E, "use text.format"),
    refused("reasoning_effort", E, "use reasoning.effort"),
    refused("logprobs", E, "use include with message.output_text.logprobs", "false"),
    refused("n", E, "a response has one choice; send several requests", "1"),
    refused("functions", E, "use tools", "[]"),
    refused("function_call", E, "use tool_choice"),
};

}  // namespace

std::span<const Parameter> responses_parameters() { return kTable; }

}  // namespace slipstream::api
