// GET /v1/info: what runs here, with which kernels and limits. Facts only; no paths.
#include "config/limits.h"
#include "server/api/call.h"
#include "server/api/response_writer.h"
#include "server/build_info.h"

namespace slipstream::api {

HttpResponse info(Call& call) {
  const Services& s = *call.services;
  const EngineStats stats = s.engine->stats();
  const EngineLimits& bounds = s.engine->limits();
  nlohmann::ordered_json out;
  out["server"] = "slipstream";
  out["version"] = kVersion;
  out["system_fingerprint"] = s.fingerprint;
  out["model"] = {{"names", s.model.names},
                  {"architecture", s.model.architecture},
                  {"format", s.model.format},
                  {"context_length", s.model.context_length},
                  {"vocab", s.model.vocab},
                  {"tokenizer", s.tokenizer->description()},
                  {"chat_template", s.chat_template != nullptr},
                  {"load", nlohmann::ordered_json::parse(s.model.load_report, nullptr, false)}};
  out["drafter"] = nlohmann::ordered_json::parse(s.model.drafter_report, nullptr, false);
  auto& speculation = out["speculation"] = nlohmann::ordered_json::parse(s.model.speculation_report, nullptr, false);
  if (speculation.is_object() && bounds.max_draft_tokens > 0)
    speculation["measured"] = {{"rounds", stats.drafts},
                               {"draft_tokens", stats.draft_tokens},
                               {"accepted_tokens", stats.accepted_tokens},
                               {"acceptance_length", stats.acceptance_length()},
                               {"acceptance_by_position", stats.acceptance_by_position()},
                               {"widths", stats.draft_widths}};
  auto& memory = out["memory"] = nlohmann::ordered_json::object();
  for (const MemoryLine& line : s.model.memory) memory[line.kind] = {{"planned", line.planned}, {"actual", line.actual}};
  const GenerationDefaults& d = s.model.defaults;
  out["sampling_defaults"] = {{"temperature", d.temperature >= 0 ? d.temperature : 1.0f},
                              {"top_p", d.top_p > 0 ? d.top_p : 1.0f},
                              {"top_k", d.top_k >= 0 ? d.top_k : 0},
                              {"min_p", d.min_p >= 0 ? d.min_p : 0.0f},
                              {"repetition_penalty", d.repetition_penalty > 0 ? d.repetition_penalty : 1.0f},
                              {"source", d.source.empty() ? "built in" : d.source}};
  const output::OutputFormat& format = *s.output_format;
  out["output_format"] = {{"reasoning", output::name_of(format.think)},
                          {"reasoning_why", format.think_why},
                          {"tool_calls", output::name_of(format.calls)},
                          {"tool_calls_why", format.calls_why},
                          {"tools_shown_by", format.template_shows_tools ? "the chat template" : "the server"}};
  out["machine"] = nlohmann::ordered_json::parse(s.model.machine_report, nullptr, false);
  out["kernels"] = nlohmann::ordered_json::parse(s.model.kernel_report, nullptr, false);
  out["engine"] = {{"max_num_seqs", bounds.max_num_seqs},
                   {"max_num_batched_tokens", bounds.max_batched_tokens},
                   {"max_queued_requests", bounds.max_queued_requests},
                   {"max_queued_tokens", bounds.max_queued_tokens},
                   {"block_tokens", bounds.block_tokens},
                   {"blocks", bounds.num_blocks},
                   {"prefix_caching", bounds.prefix_caching},
                   {"max_draft_tokens", bounds.max_draft_tokens},
                   {"running", stats.running},
                   {"waiting", stats.waiting},
                   {"steps", stats.steps},
                   {"blocks_used", stats.blocks_used},
                   {"blocks_cached", stats.blocks_cached},
                   {"prefix_queries_tokens", stats.prefix_queries_tokens},
                   {"prefix_hit_tokens", stats.prefix_hit_tokens},
                   {"generated_tokens", stats.generated_tokens},
                   {"drafts", stats.drafts},
                   {"accepted_tokens", stats.accepted_tokens}};
  out["limits"] = {{"body_bytes", limits::kBodyBytes},   {"json_depth", limits::kJsonDepth},
                   {"n", limits::kN.max},                {"stop_strings", limits::kStopStrings},
                   {"top_logprobs", limits::kTopLogprobs.max}, {"messages", limits::kMessages},
                   {"choices", limits::kChoicesPerRequest},
                   {"output_tokens", limits::kOutputTokensPerRequest},
                   {"logprob_entries", limits::kLogprobEntriesPerRequest},
                   {"streams", s.config.server.max_streams}};
  return json_response(out);
}

}  // namespace slipstream::api
