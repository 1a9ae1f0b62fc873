// POST /v1/messages and /v1/messages/count_tokens.
#include <algorithm>

#include "server/api/call.h"
#include "server/api/ids.h"
#include "server/api/messages_format.h"
#include "server/api/messages_request.h"
#include "server/api/prompt_text.h"
#include "server/api/run_generation.h"

namespace slipstream::api {
namespace {

Result<MessagesRequest> read(Call& call, bool count_only) {
  SLIP_TRY(const Json body, parse_body(call.http.body));
  take_request_id(call, body);
  SLIP_TRY(MessagesRequest request, read_messages_body(body, schema_context(call), count_only));
  SLIP_RETURN_IF_ERROR(check_model(*call.services, request.generation.model));
  return request;
}

}  // namespace

HttpResponse messages(Call& call) {
  auto request = read(call, /*count_only=*/false);
  if (!request.ok()) return refuse(call, request.error());
  auto prompt = prepare_chat(*call.services, &request->generation);
  if (!prompt.ok()) return refuse(call, prompt.error());
  MessageHead head;
  head.id = random_id("msg_");
  head.model = request->generation.model.empty() ? call.services->model.names.front() : request->generation.model;
  head.omit_thinking = request->omit_thinking;
  // Clients ask for the most that any model gives. What the context cannot hold is not refused, as this API documents: the
  // answer ends there and says so.
  int32_t& max_tokens = request->generation.sampling.max_tokens;
  const int64_t room = call.services->model.context_length - static_cast<int64_t>(prompt->size());
  if (room > 0 && max_tokens > room) {
    max_tokens = static_cast<int32_t>(room);
    head.context_bounds = true;
  }
  std::vector<std::vector<int32_t>> prompts;
  prompts.push_back(std::move(*prompt));
  const std::string id = head.id;
  return run_generation(call, std::move(request->generation), id, std::make_shared<MessagesFormat>(std::move(head)),
                        std::move(prompts));
}

HttpResponse count_message_tokens(Call& call) {
  auto request = read(call, /*count_only=*/true);
  if (!request.ok()) return refuse(call, request.error());
  auto count = count_chat_tokens(*call.services, request->generation);
  if (!count.ok()) return refuse(call, count.error());
  return json_response({{"input_tokens", *count}});
}

}  // namespace slipstream::api
