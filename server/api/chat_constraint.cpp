// See chat_constraint.h.
#include "server/api/chat_constraint.h"

#include "engine/sample/all_of.h"
#include "engine/sample/reasoning_budget.h"
#include "server/output/output_format.h"

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

}  // namespace

Result<Spec> chat_constraint(const Services& services, const GenerationRequest& request, bool inside) {
  std::vector<Spec> all;
  if (request.thinking_token_budget >= 0) {
    SLIP_TRY(auto budget, budget_of_thoughts(services, request, inside));
    all.push_back(std::move(budget));
  }
  return all_of(std::move(all));
}

}  // namespace slipstream::api
