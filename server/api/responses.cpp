// POST /v1/responses and /v1/responses/input_tokens; GET and DELETE of a stored response, its input items, and cancel.
#include <algorithm>
#include <charconv>
#include <ctime>

#include "config/limits.h"
#include "server/api/call.h"
#include "server/api/ids.h"
#include "server/api/prompt_text.h"
#include "server/api/response_store.h"
#include "server/api/responses_format.h"
#include "server/api/responses_request.h"
#include "server/api/run_generation.h"

namespace slipstream::api {
namespace {

Result<ResponsesRequest> read(Call& call, bool count_only) {
  SLIP_TRY(const Json body, parse_body(call.http.body));
  take_request_id(call, body);
  SLIP_TRY(ResponsesRequest request,
           read_responses(body, schema_context(call), *call.services->responses, call.key_salt, count_only));
  SLIP_RETURN_IF_ERROR(check_model(*call.services, request.generation.model));
  return request;
}

/// The template speaks of messages; the client sent input.
Error of_input(Error error) {
  if (error.param.starts_with("messages")) error.param = "input";
  return error;
}

/// Keeps a finished response for its key, with all that a next one may build on.
std::function<void(const std::string&, const std::vector<Json>&)> keep(Call& call, const std::string& id, Json items,
                                                                      Json conversation) {
  return [store = call.services->responses, key = call.key_salt, id, items = std::move(items),
          conversation = std::move(conversation)](const std::string& body, const std::vector<Json>& output) mutable {
    StoredResponse kept;
    kept.body = body;
    kept.input = dump(items);
    for (const Json& item : items) kept.items.emplace_back(item["id"].get<std::string>(), dump(item));
    for (const Json& item : output) {
      kept.items.emplace_back(item["id"].get<std::string>(), dump(item));
      conversation.push_back(item);
    }
    kept.conversation = dump(conversation);
    store->put(key, id, std::move(kept));
  };
}

/// "resp_…" of /v1/responses/resp_…/input_items.
std::string id_of(std::string_view path) {
  constexpr std::string_view prefix = "responses/";
  path.remove_prefix(path.find(prefix) + prefix.size());
  return std::string(path.substr(0, path.find('/')));
}

Error unknown_response(const Services& services) {
  Error error = not_found(services.responses->enabled()
                              ? "no response of this id is stored: those asked for with store: true are kept, the least recently "
                                "used go first"
                              : "nothing is stored on this server: start it with --response-store-mb");
  error.param = "response_id";
  return error;
}

struct Page {
  std::string after;
  int64_t limit = 20;
  bool ascending = false;
};

Result<Page> read_page(std::string_view query) {
  Page page;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const std::string_view name = pair.substr(0, pair.find('='));
    const std::string_view value = pair.substr(std::min(pair.size(), name.size() + 1));
    if (name == "after") {
      page.after = std::string(value);
    } else if (name == "order") {
      if (value != "asc" && value != "desc") return invalid_argument("order must be asc or desc", "order");
      page.ascending = value == "asc";
    } else if (name == "limit") {
      const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), page.limit);
      if (code != std::errc{} || end != value.data() + value.size() || page.limit < 1 || page.limit > limits::kInputItemsPage)
        return invalid_argument("limit must be an integer from 1 to " + std::to_string(limits::kInputItemsPage), "limit");
    }
  }
  return page;
}

Result<Json> items_page(const Page& page, Json items) {
  if (!page.ascending) std::reverse(items.begin(), items.end());
  size_t from = 0;
  if (!page.after.empty()) {
    while (from < items.size() && items[from]["id"] != page.after) ++from;
    if (from == items.size()) return invalid_argument("after must be the id of an item of this response", "after");
    ++from;
  }
  Json out = {{"object", "list"}};
  out["data"] = Json::array();
  for (size_t i = from; i < items.size() && static_cast<int64_t>(out["data"].size()) < page.limit; ++i)
    out["data"].push_back(items[i]);
  const Json& data = out["data"];
  const bool more = from + data.size() < items.size();
  const Json first = data.empty() ? Json(nullptr) : data.front()["id"], last = data.empty() ? Json(nullptr) : data.back()["id"];
  out["first_id"] = first;
  out["last_id"] = last;
  out["has_more"] = more;
  return out;
}

}  // namespace

HttpResponse responses(Call& call) {
  auto request = read(call, /*count_only=*/false);
  if (!request.ok()) return refuse(call, request.error());
  auto prompt = prepare_chat(*call.services, &request->generation);
  if (!prompt.ok()) return refuse(call, of_input(prompt.error()));
  ResponseHead head;
  head.id = random_id("resp_");
  head.model = request->generation.model.empty() ? call.services->model.names.front() : request->generation.model;
  head.created = static_cast<int64_t>(std::time(nullptr));
  head.echo = std::move(request->echo);
  head.summary = request->summary;
  head.spaces = std::move(request->tools.spaces);
  if (request->logprobs) head.top_logprobs = request->generation.sampling.top_logprobs;
  head.tokenizer = call.services->tokenizer;
  if (request->store)
    head.finished = keep(call, head.id, std::move(request->items), std::move(request->conversation));
  std::vector<std::vector<int32_t>> prompts;
  prompts.push_back(std::move(*prompt));
  const std::string id = head.id;
  HttpResponse response = run_generation(call, std::move(request->generation), id,
                                         std::make_shared<ResponsesFormat>(std::move(head)), std::move(prompts));
  // an answer made without them says so; the response's own tools are those that the model knew
  std::string ignored;
  for (const std::string& type : request->tools.ignored) ignored += (ignored.empty() ? "" : ", ") + type;
  if (!ignored.empty()) response.headers.emplace_back("x-ignored-tools", ignored);
  return response;
}

HttpResponse response_input_tokens(Call& call) {
  auto request = read(call, /*count_only=*/true);
  if (!request.ok()) return refuse(call, request.error());
  auto count = count_chat_tokens(*call.services, request->generation);
  if (!count.ok()) return refuse(call, of_input(count.error()));
  return json_response({{"object", "response.input_tokens"}, {"input_tokens", *count}});
}

HttpResponse stored_response(Call& call) {
  const std::string id = id_of(call.http.path);
  ResponseStore& store = *call.services->responses;
  if (call.http.method == "DELETE") {
    if (!store.erase(call.key_salt, id)) return refuse(call, unknown_response(*call.services));
    return json_response({{"id", id}, {"object", "response"}, {"deleted", true}});
  }
  if (("&" + call.http.query).find("&stream=true") != std::string::npos)
    return refuse(call, unsupported("a stored response is not streamed again; ask for it without stream", "stream"));
  const auto found = store.find(call.key_salt, id);
  if (!found) return refuse(call, unknown_response(*call.services));
  HttpResponse response;
  response.body = found->body;
  return response;
}

HttpResponse response_input_items(Call& call) {
  const auto found = call.services->responses->find(call.key_salt, id_of(call.http.path));
  if (!found) return refuse(call, unknown_response(*call.services));
  auto page = read_page(call.http.query);
  if (!page.ok()) return refuse(call, page.error());
  auto list = items_page(*page, Json::parse(found->input, nullptr, false));
  if (!list.ok()) return refuse(call, list.error());
  return json_response(*list);
}

HttpResponse cancel_response(Call& call) {
  const auto found = call.services->responses->find(call.key_salt, id_of(call.http.path));
  if (!found) return refuse(call, unknown_response(*call.services));
  return refuse(call, invalid_argument("only a response that runs in the background can be cancelled, and this one has ended; to "
                                       "stop one that runs, close its connection",
                                       "response_id"));
}

}  // namespace slipstream::api
