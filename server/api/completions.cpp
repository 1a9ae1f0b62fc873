// POST /v1/completions: one or several prompts, as text or token ids.
#include "server/api/call.h"
#include "server/api/output_constraint.h"
#include "server/api/prompt_text.h"
#include "server/api/request_schema.h"
#include "server/api/run_generation.h"

namespace slipstream::api {

HttpResponse completions(Call& call) {
  const Services& services = *call.services;
  auto body = parse_body(call.http.body);
  if (!body.ok()) return refuse(call, body.error());
  take_request_id(call, *body);
  auto request = read_generation(*body, kCompletions, schema_context(call));
  if (!request.ok()) return refuse(call, request.error());
  if (auto status = check_model(services, request->model); !status.ok()) return refuse(call, status.error());
  if (auto status = constrain_completion(services, &*request); !status.ok()) return refuse(call, status.error());

  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::string> echo;
  for (auto& prompt : request->prompts) {
    if (auto* text = std::get_if<std::string>(&prompt)) {
      auto ids = tokenize_text(services, *text, /*add_special=*/true);
      if (!ids.ok()) {
        Error error = ids.error();
        if (error.param.empty()) error.param = "prompt";
        return refuse(call, error);
      }
      prompts.push_back(std::move(*ids));
      if (request->echo) echo.push_back(*text);
    } else {
      auto& ids = std::get<std::vector<int32_t>>(prompt);
      if (request->echo) echo.push_back(services.tokenizer->decode(ids, request->skip_special));
      prompts.push_back(std::move(ids));
    }
  }
  AnswerHead head = answer_head(services, *request, kCompletions);
  head.echo = std::move(echo);
  head.echo_logprobs = request->echo && head.logprobs;
  const std::string id = head.id;
  if (auto error = score(call, *request, prompts, &head)) return refuse(call, *error);
  return run_generation(call, std::move(*request), id, std::make_shared<OpenAiFormat>(std::move(head)), std::move(prompts));
}

}  // namespace slipstream::api
