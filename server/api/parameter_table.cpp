// The table itself; see parameter_table.h. Sources: the OpenAI API description 2.3.0 and the extensions that vLLM,
// SGLang and llama.cpp agree on.
#include "server/api/parameter_table.h"

#include <nlohmann/json.hpp>

#include "config/limits.h"
#include "server/api/parameter_rows.h"

namespace slipstream::api {
namespace {

using namespace rows;

constexpr std::string_view kNoMedia = "only text is served";
constexpr std::string_view kTextUse = "no effect on generated text";

constexpr Parameter kTable[] = {
    // ---- what is asked ----
    used("messages", kChat, Type::kList, "conversation; text and text parts; developer counts as system; earlier tool calls and results are rendered"),
    used("prompt", kCompletions, Type::kStringOrList, "a string, a list of strings, token ids, or lists of token ids"),
    used("model", kBoth, Type::kString, "unknown names answer 404 model_not_found; absent: the served model"),
    // ---- length and ending ----
    number(limits::kMaxTokens, kChat, "output tokens; default: the rest of the context; over all choices at most 1048576"),
    number(limits::kMaxTokensOfCompletions, kCompletions, "as for chat; 0: no output, for echo with logprobs"),
    number(limits::kMaxTokens, kChat, "wins over max_tokens", "max_completion_tokens"),
    number(limits::kMinTokens, kBoth, "no ending before so many output tokens, unless an output format leaves nothing else; at most max_tokens"),
    number(limits::kMinTokens, kBoth, "as min_tokens (SGLang)", "min_new_tokens"),
    used("stop", kBoth, Type::kStringOrList, "at most 4 strings of 256 bytes; found across token boundaries"),
    used("stop_token_ids", kBoth, Type::kList, "at most 64 ids; each below the logits width"),
    used("ignore_eos", kBoth, Type::kBool, "the model's end tokens do not end the text"),
    used("include_stop_str_in_output", kBoth, Type::kBool, "keep the stop string at the end of the text"),
    used("no_stop_trim", kBoth, Type::kBool, "as include_stop_str_in_output (SGLang)"),
    used("skip_special_tokens", kBoth, Type::kBool, "default true"),
    // ---- sampling ----
    number(limits::kTemperature, kBoth, "0 is greedy"),
    number(limits::kTopP, kBoth, "nucleus; must be above 0", true),
    number(limits::kTopK, kBoth, "0 and -1: off"),
    number(limits::kMinP, kBoth, "share of the best token's probability"),
    number(limits::kPresencePenalty, kBoth, "additive, once per token seen in the output"),
    number(limits::kFrequencyPenalty, kBoth, "additive, per occurrence in the output"),
    number(limits::kRepetitionPenalty, kBoth, "multiplicative, over prompt and output"),
    number(limits::kRepetitionPenalty, kBoth, "as repetition_penalty (llama.cpp)", false, "repeat_penalty"),
    used("logit_bias", kBoth, Type::kObject, "token id to -100..100; at most 1024 entries"),
    number(limits::kSeed, kBoth, "same seed, same text; drawn and logged when absent"),
    number(limits::kN, kBoth, "choices; times prompts at most 64, times max_tokens at most 1048576"),
    // ---- what comes back ----
    used("logprobs", kChat, Type::kBool, "log-probabilities of the output tokens, of the raw logits"),
    number(limits::kLogprobs, kCompletions, "so many alternatives per token; 0: the drawn token only"),
    number(limits::kTopLogprobs, kChat, "needs logprobs; choices times max_tokens times 1 + top_logprobs at most 4194304"),
    number(limits::kPromptLogprobs, kBoth, "log-probabilities of the prompt's tokens, with so many alternatives; not with stream"),
    used("stream", kBoth, Type::kBool, "server-sent events"),
    used("stream_options", kBoth, Type::kObject, "include_usage, continuous_usage_stats; needs stream"),
    used("echo", kCompletions, Type::kBool, "the prompt's text leads the completion; with logprobs its tokens' log-probabilities too"),
    used("return_token_ids", kBoth, Type::kBool, "adds token_ids to choices and prompt_token_ids"),
    // ---- what the output may look like: one of these, as a grammar; in chat behind the reasoning ----
    used("response_format", kBoth, Type::kObject, "text, json_object (with schema, as llama.cpp), json_schema (enforced whatever strict says) or structural_tag; a forced tool call comes in its place"),
    used("structured_outputs", kBoth, Type::kObject, "one of json, json_object, regex, choice, grammar, structural_tag; disable_any_whitespace, whitespace_pattern"),
    used("guided_json", kBoth, Type::kAny, "as structured_outputs.json (older vLLM)"),
    used("guided_regex", kBoth, Type::kString, "as structured_outputs.regex (older vLLM)"),
    used("guided_choice", kBoth, Type::kList, "as structured_outputs.choice (older vLLM)"),
    used("guided_grammar", kBoth, Type::kString, "as structured_outputs.grammar (older vLLM)"),
    used("guided_whitespace_pattern", kBoth, Type::kString, "white space of guided_json: a regular expression"),
    used("json_schema", kBoth, Type::kAny, "a schema or its text (SGLang, llama.cpp)"),
    used("regex", kBoth, Type::kString, "the whole output matches (SGLang)"),
    used("ebnf", kBoth, Type::kString, "a grammar with a rule root (SGLang)"),
    used("grammar", kBoth, Type::kString, "GBNF (llama.cpp)"),
    used("structural_tag", kBoth, Type::kAny, "free text in which triggers start tags (SGLang)"),
    used("allowed_token_ids", kBoth, Type::kList, "no other token may be drawn; an end token only if it is among them"),
    used("bad_words", kBoth, Type::kList, "at most 256 texts of 256 bytes; as a text's own tokens and behind a space"),
    // ---- the template ----
    used("chat_template_kwargs", kChat, Type::kObject, "variables of the model's template"),
    used("add_generation_prompt", kChat, Type::kBool, "default true"),
    used("continue_final_message", kChat, Type::kBool, "the last message is continued, not answered"),
    used("reasoning_effort", kChat, Type::kString,
         "none, minimal, low, medium, high, xhigh or max; handed to the template, or the nearest that it takes; none sets enable_thinking false"),
    used("enable_thinking", kChat, Type::kBool, "handed to the template"),
    // ---- reasoning ----
    used("reasoning", kChat, Type::kObject,
         "effort: as reasoning_effort; exclude true: as include_reasoning false; enabled: as enable_thinking; max_tokens: as thinking_token_budget"),
    number(limits::kThinkingTokenBudget, kChat, "thoughts end after so many tokens: the closing tag is forced"),
    used("include_reasoning", kChat, Type::kBool, "false: thoughts are left out of the answer (and counted all the same)"),
    used("separate_reasoning", kChat, Type::kBool, "false: thoughts stay in content, with the model's tags (SGLang)"),
    used("stream_reasoning", kChat, Type::kBool, "false: a stream brings the thoughts in one piece (SGLang)"),
    used("reasoning_format", kChat, Type::kString, "auto or deepseek: split; none: as separate_reasoning false (llama.cpp)"),
    // ---- tools ----
    used("tools", kChat, Type::kList, "functions; at most 512, together at most 1 MiB; names of 1..128 letters, digits and - _ ."),
    used("tool_choice", kChat, Type::kAny, "none (the tools are left out of the prompt), auto, required, one function, or allowed_tools; calls that must come, and those of functions with strict, are made by a grammar"),
    used("parallel_tool_calls", kChat, Type::kBool, "false: the answer ends with its first call"),
    // ---- serving ----
    number(limits::kPriority, kBoth, "lower runs first (as in vLLM)"),
    used("cache_salt", kBoth, Type::kString, "1..1024 bytes; requests share the prefix cache only within a salt"),
    used("request_id", kBoth, Type::kString, "as the X-Request-Id header, which wins: answered in x-request-id and logged; letters, digits and - _ . :"),
    used("rid", kBoth, Type::kString, "as request_id (SGLang)"),
    used("speculate", kBoth, Type::kBool, "false: no speculation for this request; the text is the same"),
    // ---- accepted without effect ----
    accepted("user", kBoth, Type::kString, kTextUse),
    accepted("safety_identifier", kBoth, Type::kString, kTextUse),
    accepted("metadata", kBoth, Type::kObject, kTextUse),
    accepted("store", kBoth, Type::kBool, "nothing is stored"),
    accepted("service_tier", kBoth, Type::kString, "echoed; there is one tier"),
    accepted("prompt_cache_key", kBoth, Type::kString, "the prefix cache needs no hint"),
    accepted("prompt_cache_options", kBoth, Type::kObject, "the prefix cache needs no hint"),
    accepted("prompt_cache_retention", kBoth, Type::kString, "the prefix cache needs no hint"),
    accepted("cache_prompt", kBoth, Type::kBool, "the prefix cache is always consulted (llama.cpp)"),
    accepted("moderation", kBoth, Type::kAny, "nothing is moderated"),
    accepted("verbosity", kChat, Type::kString, "the model decides"),
    accepted("prediction", kChat, Type::kObject, "speculation needs no hint; the text is the same"),
    accepted("session_id", kBoth, Type::kString, kTextUse),
    accepted("stream_interval", kBoth, Type::kInt, "every token is sent as soon as it is there"),
    accepted("spaces_between_special_tokens", kBoth, Type::kBool, "no spaces are added"),
    accepted("timings_per_token", kBoth, Type::kBool, "usage and metrics hold the timings (llama.cpp)"),
    accepted("guided_decoding_backend", kBoth, Type::kString, "there is one engine for grammars"),
    // ---- known and refused by name ----
    refused("functions", kChat, "deprecated: send them as tools", "[]"),
    refused("function_call", kChat, "deprecated: send it as tool_choice", "\"none\""),
    refused("modalities", kChat, kNoMedia, R"(["text"])"),
    refused("audio", kChat, kNoMedia),
    refused("web_search_options", kChat, "the server fetches nothing; put the text into the prompt"),
    refused("chat_template", kChat, "a template in a request is not run; start the server with --chat-template"),
    refused("documents", kChat, "put the documents into a message", "[]"),
    refused("suffix", kCompletions, "filling in the middle is not served; put both parts into the prompt", "\"\""),
    refused("best_of", kCompletions, "use n", "1"),
    refused("use_beam_search", kBoth, "beam search is not served; use n with a temperature", "false"),
    refused("length_penalty", kBoth, "it belongs to beam search, which is not served", "1|1.0"),
    refused("early_stopping", kBoth, "it belongs to beam search, which is not served", "false"),
    refused("logprob_token_ids", kBoth, "use top_logprobs"),
    refused("n_probs", kBoth, "use logprobs and top_logprobs", "0"),
    refused("n_predict", kBoth, "use max_tokens"),
    refused("return_tokens", kBoth, "use return_token_ids", "false"),
    refused("truncate_prompt_tokens", kBoth, "shorten the prompt; /tokenize counts it"),
    refused("repetition_detection", kBoth, "use repetition_penalty or frequency_penalty"),
    refused("repetition_ngram_size", kBoth, "use repetition_penalty or frequency_penalty", "0"),
    refused("repetition_ngram_threshold", kBoth, "use repetition_penalty or frequency_penalty", "0"),
    refused("lora_path", kBoth, "adapters are not served; merge the adapter into the weights"),
    refused("lora_adapter", kBoth, "adapters are not served; merge the adapter into the weights"),
    refused("lora", kBoth, "adapters are not served; merge the adapter into the weights", "[]"),
    refused("kv_transfer_params", kBoth, "the cache is not transferred between servers"),
    refused("vllm_xargs", kBoth, "engine arguments in a request are not taken"),
    refused("logits_processors", kBoth, "code in a request is not run; use logit_bias", "[]"),
    refused("typical_p", kBoth, "use top_p or min_p", "1|1.0"),
    refused("tfs_z", kBoth, "use top_p or min_p", "1|1.0"),
    refused("top_a", kBoth, "use min_p", "0|0.0"),
    refused("mirostat", kBoth, "use temperature with top_p or min_p", "0"),
    refused("dynatemp_range", kBoth, "use temperature", "0|0.0"),
    refused("dry_multiplier", kBoth, "use frequency_penalty", "0|0.0"),
    refused("xtc_probability", kBoth, "use temperature", "0|0.0"),
    refused("session_params", kBoth, "send the whole conversation; the prefix cache makes it cheap"),
    refused("input_embeds", kBoth, "embeddings are not taken as input; send text or token ids"),
    refused("prompt_embeds", kBoth, "embeddings are not taken as input; send text or token ids"),
    refused("custom_logit_processor", kBoth, "code in a request is not run; use logit_bias"),
};

const char* text_of(Treatment t) { return t == Treatment::kUsed ? "used" : t == Treatment::kAccepted ? "accepted" : "refused"; }
const char* text_of(Type t) {
  constexpr const char* names[] = {"any", "bool", "int", "float", "string", "list", "object", "string or list"};
  return names[static_cast<int>(t)];
}

nlohmann::ordered_json row_of(const Parameter& p) {
  nlohmann::ordered_json row;
  row["name"] = p.name;
  row["chat"] = (p.endpoints & kChat) != 0;
  row["completions"] = (p.endpoints & kCompletions) != 0;
  row["responses"] = (p.endpoints & kResponses) != 0;
  row["messages"] = (p.endpoints & kMessages) != 0;
  row["treatment"] = text_of(p.treatment);
  row["type"] = text_of(p.type);
  if (p.min != 0 || p.max != 0) {
    if (p.type == Type::kInt) {  // 2^63 - 1 is not a double
      row["min"] = p.name == "seed" ? limits::kSeed.min : static_cast<int64_t>(p.min);
      row["max"] = p.name == "seed" ? limits::kSeed.max : static_cast<int64_t>(p.max);
    } else {
      row["min"] = p.min;
      row["max"] = p.max;
    }
    row["min_excluded"] = p.min_excluded;
  }
  if (!p.alias_of.empty()) row["alias_of"] = p.alias_of;
  if (!p.neutral.empty()) row["neutral"] = p.neutral;
  row["note"] = p.note;
  return row;
}

}  // namespace

std::span<const Parameter> parameters() { return kTable; }

std::span<const Parameter> parameters_of(Endpoint endpoint) {
  if (endpoint & kResponses) return responses_parameters();
  if (endpoint & kMessages) return messages_parameters();
  return kTable;
}

const Parameter* find_parameter(std::string_view name, Endpoint endpoint) {
  for (const Parameter& p : parameters_of(endpoint))
    if (p.name == name && (p.endpoints & endpoint)) return &p;
  return nullptr;
}

std::string parameter_table_json() {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& table : {parameters(), responses_parameters(), messages_parameters()})
    for (const Parameter& p : table) rows.push_back(row_of(p));
  return rows.dump(1);
}

}  // namespace slipstream::api
