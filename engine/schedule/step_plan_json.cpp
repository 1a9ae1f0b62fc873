// A plan as one JSON line. Floats survive: nlohmann prints doubles in their shortest exact form.
#include <nlohmann/json.hpp>

#include <limits>

#include "engine/schedule/step_plan.h"

namespace slipstream {
namespace {

using Json = nlohmann::json;

/// A field that is missing, of another type or out of range. Caught in plan_from_json only.
struct BadField {
  std::string text;
};

const Json& field(const Json& object, const char* name) {
  if (!object.is_object()) throw BadField{std::string("the parent of ") + name + " is not an object"};
  const auto found = object.find(name);
  if (found == object.end()) throw BadField{std::string(name) + " is missing"};
  return *found;
}

template <typename T>
T integer(const Json& value, const char* name, int64_t low = std::numeric_limits<T>::min(),
          int64_t high = std::numeric_limits<T>::max()) {
  if (!value.is_number_integer()) throw BadField{std::string(name) + " is not an integer"};
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(high))
    throw BadField{std::string(name) + " is over " + std::to_string(high)};
  const auto wide = value.get<int64_t>();
  if (wide < low || wide > high)
    throw BadField{std::string(name) + " is " + std::to_string(wide) + ", outside " + std::to_string(low) + " to " +
                   std::to_string(high)};
  return static_cast<T>(wide);
}

template <typename T>
void read(const Json& object, const char* name, T* out) {
  *out = integer<T>(field(object, name), name);
}
void read(const Json& object, const char* name, uint64_t* out) {
  const Json& value = field(object, name);
  if (!value.is_number_unsigned()) throw BadField{std::string(name) + " is not an unsigned integer"};
  *out = value.get<uint64_t>();
}
void read(const Json& object, const char* name, float* out) {
  const Json& value = field(object, name);
  if (!value.is_number()) throw BadField{std::string(name) + " is not a number"};
  *out = value.get<float>();
}
void read(const Json& object, const char* name, std::vector<int32_t>* out) {
  const Json& value = field(object, name);
  if (!value.is_array()) throw BadField{std::string(name) + " is not a list"};
  for (const Json& item : value) out->push_back(integer<int32_t>(item, name));
}
void read(const Json& object, const char* name, bool* out) {
  const Json& value = field(object, name);
  if (!value.is_boolean()) throw BadField{std::string(name) + " is neither true nor false"};
  *out = value.get<bool>();
}
template <typename Enum>
Enum read_enum(const Json& object, const char* name, Enum last) {
  return static_cast<Enum>(integer<int32_t>(field(object, name), name, 0, static_cast<int32_t>(last)));
}

Json json_of(const SamplingParams& s) {
  Json bias = Json::array();
  for (const LogitBias& one : s.logit_bias) bias.push_back({one.token, one.bias});
  return {{"temperature", s.temperature},
          {"top_p", s.top_p},
          {"top_k", s.top_k},
          {"min_p", s.min_p},
          {"presence_penalty", s.presence_penalty},
          {"frequency_penalty", s.frequency_penalty},
          {"repetition_penalty", s.repetition_penalty},
          {"logit_bias", bias},
          {"seed", s.seed},
          {"top_logprobs", s.top_logprobs},
          {"stop_ids", s.stop_ids},
          {"max_tokens", s.max_tokens},
          {"min_tokens", s.min_tokens}};
}

SamplingParams sampling_from(const Json& j) {
  SamplingParams s;
  read(j, "temperature", &s.temperature);
  read(j, "top_p", &s.top_p);
  read(j, "top_k", &s.top_k);
  read(j, "min_p", &s.min_p);
  read(j, "presence_penalty", &s.presence_penalty);
  read(j, "frequency_penalty", &s.frequency_penalty);
  read(j, "repetition_penalty", &s.repetition_penalty);
  const Json& bias = field(j, "logit_bias");
  if (!bias.is_array()) throw BadField{"logit_bias is not a list"};
  for (const Json& pair : bias) {
    if (!pair.is_array() || pair.size() != 2 || !pair[1].is_number()) throw BadField{"logit_bias holds no pair"};
    s.logit_bias.push_back({integer<int32_t>(pair[0], "logit_bias"), pair[1].get<float>()});
  }
  read(j, "seed", &s.seed);
  read(j, "top_logprobs", &s.top_logprobs);
  read(j, "stop_ids", &s.stop_ids);
  read(j, "max_tokens", &s.max_tokens);
  read(j, "min_tokens", &s.min_tokens);
  return s;
}

Json json_of(const SlotCommand& command) {
  if (const auto* c = std::get_if<OpenSlot>(&command))
    return {{"do", "open"},
            {"slot", c->slot},
            {"generation", c->generation},
            {"sampling", json_of(c->sampling)},
            {"choice", c->choice},
            {"history", c->history},
            {"prompt_tokens", c->prompt_tokens},
            {"cached_tokens", c->cached_tokens},
            {"remaining_tokens", c->remaining_tokens},
            {"emitted_tokens", c->emitted_tokens}};
  if (const auto* c = std::get_if<GrantBlocks>(&command))
    return {{"do", "grant"}, {"slot", c->slot}, {"group", c->group}, {"blocks", c->blocks}};
  if (const auto* c = std::get_if<CopyBlock>(&command))
    return {{"do", "copy"}, {"group", c->group}, {"source", c->source}, {"target", c->target}};
  const auto& c = std::get<ReleaseSlot>(command);
  return {{"do", "release"}, {"slot", c.slot}, {"generation", c.generation}};
}

SlotCommand command_from(const Json& j) {
  const Json& kind = field(j, "do");
  if (kind == "open") {
    OpenSlot c;
    read(j, "slot", &c.slot);
    read(j, "generation", &c.generation);
    c.sampling = sampling_from(field(j, "sampling"));
    read(j, "choice", &c.choice);
    read(j, "history", &c.history);
    read(j, "prompt_tokens", &c.prompt_tokens);
    read(j, "cached_tokens", &c.cached_tokens);
    read(j, "remaining_tokens", &c.remaining_tokens);
    read(j, "emitted_tokens", &c.emitted_tokens);
    return c;
  }
  if (kind == "grant") {
    GrantBlocks c;
    read(j, "slot", &c.slot);
    read(j, "group", &c.group);
    read(j, "blocks", &c.blocks);
    return c;
  }
  if (kind == "copy") {
    CopyBlock c;
    read(j, "group", &c.group);
    read(j, "source", &c.source);
    read(j, "target", &c.target);
    return c;
  }
  if (kind == "release") {
    ReleaseSlot c;
    read(j, "slot", &c.slot);
    read(j, "generation", &c.generation);
    return c;
  }
  throw BadField{"do is none of open, grant, copy, release"};
}

Json json_of(const Span& s) {
  return {{"slot", s.slot},
          {"generation", s.generation},
          {"kind", static_cast<int>(s.kind)},
          {"start", s.start},
          {"rows", s.rows},
          {"draft_rows_next", s.draft_rows_next},
          {"supplied_drafts", s.supplied_drafts},
          {"logits", static_cast<int>(s.logits)},
          {"constrained", s.constrained}};
}

Span span_from(const Json& j) {
  Span s;
  read(j, "slot", &s.slot);
  read(j, "generation", &s.generation);
  s.kind = read_enum(j, "kind", SpanKind::kVerify);
  read(j, "start", &s.start);
  read(j, "rows", &s.rows);
  read(j, "draft_rows_next", &s.draft_rows_next);
  read(j, "supplied_drafts", &s.supplied_drafts);
  s.logits = read_enum(j, "logits", LogitsWanted::kAll);
  read(j, "constrained", &s.constrained);
  return s;
}

}  // namespace

std::string to_json(const StepPlan& plan) {
  Json commands = Json::array(), spans = Json::array();
  for (const SlotCommand& command : plan.commands) commands.push_back(json_of(command));
  for (const Span& span : plan.spans) spans.push_back(json_of(span));
  const Json line = {{"step", plan.step},
                     {"commands", std::move(commands)},
                     {"spans", std::move(spans)},
                     {"total_rows", plan.total_rows},
                     {"rows_class", plan.rows_class},
                     {"commit", static_cast<int>(plan.commit)}};
  return line.dump();
}

Result<StepPlan> plan_from_json(const std::string& line) {
  const Json j = Json::parse(line, nullptr, false);
  if (j.is_discarded()) return corrupt("a plan line is not JSON");
  try {
    StepPlan plan;
    read(j, "step", &plan.step);
    const Json& commands = field(j, "commands");
    const Json& spans = field(j, "spans");
    if (!commands.is_array() || !spans.is_array()) return corrupt("commands and spans of a plan are lists");
    for (const Json& command : commands) plan.commands.push_back(command_from(command));
    for (const Json& span : spans) plan.spans.push_back(span_from(span));
    read(j, "total_rows", &plan.total_rows);
    read(j, "rows_class", &plan.rows_class);
    plan.commit = read_enum(j, "commit", CommitVariant::kFull);
    return plan;
  } catch (const BadField& bad) {
    return corrupt("plan: " + bad.text);
  }
}

}  // namespace slipstream
