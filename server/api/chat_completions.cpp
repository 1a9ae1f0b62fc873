// POST /v1/chat/completions.
#include "server/api/call.h"
#include "server/api/prompt_text.h"
#include "server/api/request_schema.h"
#include "server/api/run_generation.h"

namespace slipstream::api {

HttpResponse chat_completions(Call& call) {
  auto body = parse_body(call.http.body);
  if (!body.ok()) return refuse(call, body.error());
  take_request_id(call, *body);
  auto request = read_generation(*body, kChat, schema_context(call));
  if (!request.ok()) return refuse(call, request.error());
  if (auto status = check_model(*call.services, request->model); !status.ok()) return refuse(call, status.error());
  auto prompt = prepare_chat(*call.services, &*request);
  if (!prompt.ok()) return refuse(call, prompt.error());
  std::vector<std::vector<int32_t>> prompts;
  prompts.push_back(std::move(*prompt));
  AnswerHead head = answer_head(*call.services, *request, kChat);
  const std::string id = head.id;
  if (auto error = score(call, *request, prompts, &head)) return refuse(call, *error);
  return run_generation(call, std::move(*request), id, std::make_shared<OpenAiFormat>(std::move(head)), std::move(prompts));
}

}  // namespace slipstream::api
