// See request_schema.h. First every member of the body meets the parameter table (unknown, refused, type, range); what
// follows may rely on that.
#include "server/api/request_schema.h"

#include <algorithm>
#include <charconv>

#include "config/limits.h"
#include "server/api/output_fields.h"
#include "server/api/request_fields.h"
#include "server/json_guard.h"
#include "server/request_id.h"

namespace slipstream::api {
namespace {

Status read_stop(const Fields& fields, GenerationRequest* out, int32_t vocab) {
  if (const Json* stop = fields.find("stop")) {
    const Json list = stop->is_string() ? Json::array({*stop}) : *stop;
    auto status = read_stop_strings(list, "stop", limits::kStopStrings, out);
    if (!status.ok()) {
      Error error = std::move(status).error();
      if (stop->is_string()) error.param = "stop";
      return error;
    }
  }
  if (const Json* ids = fields.find("stop_token_ids")) {
    if (static_cast<int32_t>(ids->size()) > limits::kStopTokenIds)
      return invalid_argument("stop_token_ids holds " + std::to_string(ids->size()) + " ids; the limit is " +
                                  std::to_string(limits::kStopTokenIds),
                              "stop_token_ids");
    SLIP_TRY(out->sampling.stop_ids, read_token_ids(*ids, "stop_token_ids", vocab));
  }
  return Ok{};
}

Status read_logit_bias(const Fields& fields, SamplingParams* out, int32_t vocab) {
  const Json* bias = fields.find("logit_bias");
  if (!bias) return Ok{};
  if (static_cast<int32_t>(bias->size()) > limits::kLogitBiasEntries)
    return invalid_argument("logit_bias holds " + std::to_string(bias->size()) + " entries; the limit is " +
                                std::to_string(limits::kLogitBiasEntries),
                            "logit_bias");
  for (const auto& [key, value] : bias->items()) {
    int64_t id = -1;
    const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), id);
    // one spelling for each id, or "1" and "01" would be two values for one token
    if (code != std::errc{} || end != key.data() + key.size() || id < 0 || id >= vocab || std::to_string(id) != key)
      return invalid_argument("a logit_bias key must be a token id below " + std::to_string(vocab) +
                                  ", in decimal without leading zeros",
                              "logit_bias");
    const std::string param = "logit_bias." + std::to_string(id);
    if (!value.is_number()) return invalid_argument("a logit_bias value must be a number", param);
    const double v = value.get<double>();
    if (!(v >= limits::kLogitBias.min && v <= limits::kLogitBias.max))
      return invalid_argument("a logit_bias value must be from -100 to 100", param);
    out->logit_bias.push_back({static_cast<int32_t>(id), static_cast<float>(v)});
  }
  return Ok{};
}

Status read_stream_options(const Fields& fields, GenerationRequest* out) {
  const Json* options = fields.find("stream_options");
  if (!options) return Ok{};
  if (!out->stream) return invalid_argument("stream_options needs stream: true", "stream_options");
  for (const auto& [name, target] :
       {std::pair{"include_usage", &out->include_usage}, std::pair{"continuous_usage_stats", &out->continuous_usage},
        std::pair{"include_obfuscation", static_cast<bool*>(nullptr)}}) {
    const auto it = options->find(name);
    if (it == options->end() || it->is_null()) continue;
    if (!it->is_boolean())
      return invalid_argument(std::string(name) + " must be true or false", std::string("stream_options.") + name);
    if (target) *target = it->get<bool>();
  }
  // as in vLLM: continuous statistics are a refinement of include_usage
  if (!out->include_usage) out->continuous_usage = false;
  return Ok{};
}

Status read_logprobs(const Fields& fields, Endpoint endpoint, GenerationRequest* out) {
  if (endpoint == kCompletions) {
    fields.get("logprobs", &out->sampling.top_logprobs);
    return Ok{};
  }
  bool wanted = false;
  fields.get("logprobs", &wanted);
  int32_t top = 0;
  fields.get("top_logprobs", &top);
  if (fields.find("top_logprobs") && top > 0 && !wanted)
    return invalid_argument("top_logprobs needs logprobs: true", "top_logprobs");
  if (wanted) out->sampling.top_logprobs = top;
  return Ok{};
}

void read_sampling(const Fields& fields, const GenerationDefaults& defaults, SamplingParams* out) {
  if (defaults.temperature >= 0) out->temperature = defaults.temperature;
  if (defaults.top_p > 0) out->top_p = defaults.top_p;
  if (defaults.top_k >= 0) out->top_k = defaults.top_k;
  if (defaults.min_p >= 0) out->min_p = defaults.min_p;
  if (defaults.repetition_penalty > 0) out->repetition_penalty = defaults.repetition_penalty;
  fields.get("temperature", &out->temperature);
  fields.get("top_p", &out->top_p);
  fields.get("top_k", &out->top_k);
  if (out->top_k < 0) out->top_k = 0;
  fields.get("min_p", &out->min_p);
  fields.get("presence_penalty", &out->presence_penalty);
  fields.get("frequency_penalty", &out->frequency_penalty);
  fields.get("repeat_penalty", &out->repetition_penalty);
  fields.get("repetition_penalty", &out->repetition_penalty);
}

Status read_prompts(const Fields& fields, int32_t vocab, GenerationRequest* out) {
  const Json* prompt = fields.find("prompt");
  if (!prompt) return invalid_argument("prompt is missing", "prompt");
  if (prompt->is_string()) {
    out->prompts.emplace_back(prompt->get<std::string>());
    return Ok{};
  }
  if (prompt->empty()) return invalid_argument("prompt is an empty list", "prompt");
  if ((*prompt)[0].is_number()) {
    SLIP_TRY(auto ids, read_token_ids(*prompt, "prompt", vocab));
    out->prompts.emplace_back(std::move(ids));
    return Ok{};
  }
  if (static_cast<int32_t>(prompt->size()) > limits::kPromptsPerRequest)
    return invalid_argument("prompt holds " + std::to_string(prompt->size()) + " prompts; the limit is " +
                                std::to_string(limits::kPromptsPerRequest),
                            "prompt");
  for (size_t i = 0; i < prompt->size(); ++i) {
    const std::string param = "prompt." + std::to_string(i);
    const Json& item = (*prompt)[i];
    if (item.is_string()) {
      out->prompts.emplace_back(item.get<std::string>());
    } else if (item.is_array()) {
      if (item.empty()) return invalid_argument("a prompt holds no token", param);
      SLIP_TRY(auto ids, read_token_ids(item, param, vocab));
      out->prompts.emplace_back(std::move(ids));
    } else {
      return invalid_argument("a prompt must be a string or a list of token ids", param);
    }
  }
  return Ok{};
}

}  // namespace

Result<Json> parse_body(std::string_view body) {
  SLIP_RETURN_IF_ERROR(check_json(body));
  Json out = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (out.is_discarded()) return invalid_argument("the body is not valid JSON");
  if (!out.is_object()) return invalid_argument("the body must be a JSON object");
  return out;
}

Result<std::vector<int32_t>> read_token_ids(const Json& list, const std::string& param, int32_t vocab) {
  std::vector<int32_t> out;
  out.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const auto id = list[i].is_number() ? exact_integer(list[i]) : std::nullopt;
    if (!id || *id < 0 || *id >= vocab)
      return invalid_argument("a token id must be an integer from 0 to " + std::to_string(vocab - 1),
                              param + "." + std::to_string(i));
    out.push_back(static_cast<int32_t>(*id));
  }
  return out;
}

Result<int32_t> output_tokens_per_choice(const GenerationRequest& request, int64_t choices, int64_t room) {
  const int64_t entries = 1 + std::max(request.sampling.top_logprobs, 0);
  const int64_t limit = std::min(limits::kOutputTokensPerRequest, limits::kLogprobEntriesPerRequest / entries);
  const bool given = request.sampling.max_tokens > 0;
  const int64_t asked = given ? request.sampling.max_tokens : request.sampling.min_tokens;
  if (asked * choices > limit) {
    const std::string name = given ? request.max_tokens_name : request.min_tokens_name;
    return invalid_argument(name + " " + std::to_string(asked) + " for each of " + std::to_string(choices) +
                                " choices makes " + std::to_string(asked * choices) + " output tokens; the limit is " +
                                std::to_string(limit) + " a request" +
                                (entries > 1 ? " with " + std::to_string(entries - 1) + " top log-probabilities" : "") +
                                ": lower " + name + " or the choices, or send several requests",
                            name);
  }
  return static_cast<int32_t>(given ? asked : std::min(room, limit / choices));
}

Status read_stop_strings(const Json& list, const std::string& name, int32_t limit, GenerationRequest* out) {
  if (static_cast<int32_t>(list.size()) > limit)
    return invalid_argument(name + " holds " + std::to_string(list.size()) + " strings; the limit is " + std::to_string(limit),
                            name);
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string param = name + "." + std::to_string(i);
    if (!list[i].is_string()) return invalid_argument("a stop must be a string", param);
    const auto& text = list[i].get_ref<const std::string&>();
    if (text.empty()) return invalid_argument("a stop string may not be empty", param);
    if (text.size() > static_cast<size_t>(limits::kStopStringBytes))
      return invalid_argument("a stop string of " + std::to_string(text.size()) + " bytes; the limit is " +
                                  std::to_string(limits::kStopStringBytes),
                              param);
    out->stop.push_back(text);
  }
  return Ok{};
}

Result<GenerationRequest> read_shared_fields(const Json& body, Endpoint endpoint, const SchemaContext& context) {
  SLIP_RETURN_IF_ERROR(check_members(body, endpoint, context));
  const Fields fields(body, endpoint);
  GenerationRequest out;
  fields.get("model", &out.model);
  fields.get("stream", &out.stream);
  SLIP_RETURN_IF_ERROR(read_stop(fields, &out, context.vocab));
  SLIP_RETURN_IF_ERROR(read_logit_bias(fields, &out.sampling, context.vocab));
  read_sampling(fields, context.defaults, &out.sampling);
  fields.get("n", &out.n);
  fields.get("prompt_logprobs", &out.prompt_logprobs);
  if (out.prompt_logprobs >= 0 && out.stream)
    return invalid_argument("prompt_logprobs is not sent in a stream: leave stream out, or use echo with logprobs on /v1/completions",
                            "prompt_logprobs");
  fields.get("max_tokens", &out.sampling.max_tokens);
  if (const Json* limit = fields.find("max_tokens")) out.no_output = endpoint == kCompletions && exact_integer(*limit) == 0;
  fields.get("max_completion_tokens", &out.sampling.max_tokens);
  fields.get("max_output_tokens", &out.sampling.max_tokens);
  fields.get("min_new_tokens", &out.sampling.min_tokens);
  fields.get("min_tokens", &out.sampling.min_tokens);
  if (fields.find("max_completion_tokens")) out.max_tokens_name = "max_completion_tokens";
  if (fields.find("max_output_tokens")) out.max_tokens_name = "max_output_tokens";
  if (fields.find("min_new_tokens") && !fields.find("min_tokens")) out.min_tokens_name = "min_new_tokens";
  if (out.sampling.max_tokens > 0 && out.sampling.min_tokens > out.sampling.max_tokens)
    return invalid_argument(std::string(out.min_tokens_name) + " " + std::to_string(out.sampling.min_tokens) + " is above " +
                                out.max_tokens_name + " " + std::to_string(out.sampling.max_tokens),
                            out.min_tokens_name);
  if (const Json* seed = fields.find("seed")) out.seed = exact_integer(*seed);
  fields.get("ignore_eos", &out.ignore_eos);
  fields.get("no_stop_trim", &out.include_stop);
  fields.get("include_stop_str_in_output", &out.include_stop);
  fields.get("skip_special_tokens", &out.skip_special);
  fields.get("return_token_ids", &out.return_token_ids);
  fields.get("priority", &out.priority);
  fields.get("speculate", &out.speculate);
  fields.get("service_tier", &out.service_tier);
  for (const char* name : {"request_id", "rid"})  // taken by take_request_id
    if (const Json* id = fields.find(name); id && !is_request_id(id->get_ref<const std::string&>()))
      return invalid_argument(std::string(name) + " must have 1 to " + std::to_string(limits::kRequestIdBytes) +
                                  " letters, digits or - _ . :",
                              name);
  if (const Json* salt = fields.find("cache_salt")) {
    out.cache_salt = salt->get<std::string>();
    if (out.cache_salt.empty() || out.cache_salt.size() > static_cast<size_t>(limits::kCacheSaltBytes))
      return invalid_argument("cache_salt must have 1 to " + std::to_string(limits::kCacheSaltBytes) + " bytes",
                              "cache_salt");
  }
  return out;
}

Result<GenerationRequest> read_generation(const Json& body, Endpoint endpoint, const SchemaContext& context) {
  SLIP_TRY(GenerationRequest out, read_shared_fields(body, endpoint, context));
  const Fields fields(body, endpoint);
  SLIP_RETURN_IF_ERROR(read_stream_options(fields, &out));
  SLIP_RETURN_IF_ERROR(read_logprobs(fields, endpoint, &out));
  if (endpoint == kCompletions) {
    SLIP_RETURN_IF_ERROR(read_prompts(fields, context.vocab, &out));
    const int64_t choices = static_cast<int64_t>(out.prompts.size()) * out.n;
    if (choices > limits::kChoicesPerRequest)
      return invalid_argument(std::to_string(out.prompts.size()) + " prompts with n " + std::to_string(out.n) + " make " +
                                  std::to_string(choices) + " choices; the limit is " +
                                  std::to_string(limits::kChoicesPerRequest) + " a request: send several",
                              "n");
    fields.get("echo", &out.echo);
    SLIP_RETURN_IF_ERROR(read_output_fields(body, endpoint, context.vocab, &out));
    return out;
  }
  const Json* messages = fields.find("messages");
  if (!messages) return invalid_argument("messages is missing", "messages");
  SLIP_RETURN_IF_ERROR(read_messages(*messages, &out));
  SLIP_RETURN_IF_ERROR(read_template_fields(body, &out));
  SLIP_RETURN_IF_ERROR(read_reasoning(body, &out));
  SLIP_RETURN_IF_ERROR(read_tools(body, &out));
  SLIP_RETURN_IF_ERROR(read_output_fields(body, endpoint, context.vocab, &out));
  return out;
}

}  // namespace slipstream::api
