// See chat_constraint.h.
#include "server/api/chat_constraint.h"

#include "engine/grammar/grammar_cache.h"
#include "engine/sample/after_reasoning.h"
#include "engine/sample/all_of.h"
#include "engine/sample/reasoning_budget.h"
#include "server/api/output_constraint.h"
#include "server/output/call_grammar.h"

namespace slipstream::api {
namespace {

using Spec = std::shared_ptr<const ConstraintSpec>;

/// The tokens that spell a tag: one where the vocabulary has it.
Result<std::vector<int32_t>> tokens_of(const Tokenizer& tokenizer, std::string_view tag) {
  const int32_t id = tokenizer.token_id(tag);
  if (id >= 0) return std::vector<int32_t>{id};
  return tokenizer.encode(tag, /*parse_special=*/false);
}

Result<Spec> budget_of_thoughts(const Services& services, const GenerationRequest& request, bool inside) {
  const output::OutputFormat& format = *services.output_format;
  if (format.think == output::ThinkFormat::kNone) return Spec();  // no thoughts are within every budget
  if (format.think == output::ThinkFormat::kHarmony)
    return unsupported("this model's thoughts are messages, which cannot be ended by a budget; leave " +
                           std::string(request.thinking_budget_name) + " out and use reasoning_effort",
                       request.thinking_budget_name);
  const output::ThinkTexts marks = output::think_texts(format);
  ReasoningBudget::Rules rules;
  rules.tokens = request.thinking_token_budget;
  rules.inside = inside;
  SLIP_TRY(rules.start, tokens_of(*services.tokenizer, marks.open));
  SLIP_TRY(rules.end, tokens_of(*services.tokenizer, marks.close));
  return Spec(std::make_shared<const ReasoningBudget>(std::move(rules)));
}

/// `inner` from the end of the thoughts on; in harmony the grammar itself holds them.
Result<Spec> after_thoughts(const Services& services, bool inside, Spec inner) {
  const output::OutputFormat& format = *services.output_format;
  if (format.think == output::ThinkFormat::kNone || format.think == output::ThinkFormat::kHarmony) return inner;
  const output::ThinkTexts marks = output::think_texts(format);
  AfterReasoning::Rules rules;
  rules.opening = services.tokenizer->token_id(marks.open);
  rules.begin = inside ? AfterReasoning::Begin::kInside
                : rules.opening >= 0 ? AfterReasoning::Begin::kMayOpen : AfterReasoning::Begin::kOutside;
  SLIP_TRY(rules.end, tokens_of(*services.tokenizer, marks.close));
  return Spec(std::make_shared<const AfterReasoning>(std::move(inner), std::move(rules)));
}

Result<Spec> rules_of_calls(const Services& services, const GenerationRequest& request, bool inside) {
  output::CallRules rules;
  rules.forced = request.tool_choice == ToolChoice::kRequired;
  rules.single = !request.parallel_tool_calls;
  rules.any_arguments = !rules.forced;
  const auto compiled = [&]() -> Result<Spec> {
    SLIP_TRY(const auto format, output::call_format(*services.output_format, *services.tokenizer, request.tools, request.strict_tools, rules));
    return services.grammars->constraint(format);
  };
  auto spec = compiled();
  if (!spec.ok() && rules.forced) {
    // only strict functions promise that all of their schema holds
    rules.any_arguments = true;
    auto loose = compiled();
    if (loose.ok()) spec = std::move(loose);
  }
  if (!spec.ok()) return std::move(spec).error();
  return after_thoughts(services, inside, *spec);
}

/// The format that was asked for, behind the thoughts; beside tools, a call may stand in its place.
Result<Spec> rules_of_output(const Services& services, const GenerationRequest& request, bool inside) {
  const output::OutputFormat& form = *services.output_format;
  grammar::Format format = *request.output;
  const bool harmony = form.think == output::ThinkFormat::kHarmony;
  if (!request.tools.is_null() && !harmony) {
    output::CallRules rules;
    rules.forced = rules.any_arguments = true;
    rules.single = !request.parallel_tool_calls;
    auto calls = output::call_format(form, *services.tokenizer, request.tools, request.strict_tools, rules);
    if (calls.ok())
      format = grammar::Format::any_of({std::move(format), std::move(*calls)});
    else if (!request.strict_tools.empty())
      return std::move(calls).error();
  }
  SLIP_TRY(Spec spec, services.grammars->constraint(format));
  if (!harmony) return after_thoughts(services, inside, std::move(spec));
  // What is meant for the reader begins behind the header of the channel final.
  AfterReasoning::Rules rules;
  rules.begin = AfterReasoning::Begin::kInside;
  for (const char* part : {"<|channel|>", "final", "<|message|>"}) {
    SLIP_TRY(const auto ids, tokens_of(*services.tokenizer, part));
    rules.end.insert(rules.end.end(), ids.begin(), ids.end());
  }
  return Spec(std::make_shared<const AfterReasoning>(std::move(spec), std::move(rules)));
}

}  // namespace

Result<Spec> chat_constraint(const Services& services, const GenerationRequest& request, bool inside) {
  std::vector<Spec> all;
  if (request.thinking_token_budget >= 0) {
    SLIP_TRY(auto budget, budget_of_thoughts(services, request, inside));
    all.push_back(std::move(budget));
  }
  const bool forced = request.tool_choice == ToolChoice::kRequired;
  if (request.output && !forced) {
    SLIP_TRY(auto format, rules_of_output(services, request, inside));
    all.push_back(std::move(format));
  } else if (!request.tools.is_null() && (!request.strict_tools.empty() || forced)) {
    SLIP_TRY(auto calls, rules_of_calls(services, request, inside));
    all.push_back(std::move(calls));
  }
  SLIP_RETURN_IF_ERROR(add_token_rules(services, request, &all));
  return all_of(std::move(all));
}

}  // namespace slipstream::api
